"""Exercise `merge_heads`: put the heads side by side again."""

import torch
from einops import rearrange
from torch import Tensor

import attnlib
from attnlib.checks.course.handling import slips, slips_of_views
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, without, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "03_multi_head_attention"


def _heads(draw: Draw, *, b: int, h: int, n: int, d: int) -> tuple[Tensor]:
    return (draw.normal(b, h, n, d),)


def _small_heads() -> tuple[Tensor]:
    return (torch.tensor([[[[11.0], [21.0], [31.0]], [[12.0], [22.0], [32.0]]]]),)


def _right(x: Tensor) -> Tensor:
    return rearrange(x, "b h n d -> b n (h d)")


def _reshaped(x: Tensor) -> Tensor:
    b, h, n, d = x.shape
    return x.reshape(b, n, h * d)


def _wrong_axes(x: Tensor) -> Tensor:
    b, h, n, d = x.shape
    return x.transpose(-2, -1).reshape(b, n, h * d)


def _heads_of_one_sentence(x: Tensor) -> Tensor:
    return torch.cat(list(x.squeeze(0)), dim=-1).unsqueeze(0)


MERGE_HEADS = Exercise(
    name="merge_heads",
    lesson=LESSON,
    contract="(b, h, n, d) -> (b, n, h·d), the inverse of split_heads",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.merge_heads,
    forbidden=("attnlib.merge_heads",),
    cases=(
        *usual_cases(
            _heads,
            {"b": 2, "h": 3, "n": 7, "d": 5},
            one={"b": 1, "h": 2, "n": 5, "d": 3},
            more=[
                {"b": 3, "h": 5, "n": 2, "d": 7},
                {"b": 2, "h": 1, "n": 11, "d": 3},
                {"b": 5, "h": 7, "n": 3, "d": 1},
                {"b": 2, "h": 3, "n": 1, "d": 2},
                {"b": 2, "h": 6, "n": 6, "d": 6},
            ],
        ),
        # no number has to move: under torch.no_grad() the result is then a view of x, and not a detached one
        Case(
            name="one head, gradients",
            inputs=lambda draw: _heads(draw, b=2, h=1, n=5, d=3),
            part="gradient",
            gradient=True,
            dtype=torch.float64,
        ),
    ),
    example=_small_heads,
    misconceptions=(
        wrong(
            "reshaped",
            "reshape before the transpose",
            "`reshape(b, n, h * d)` takes the numbers as they lie in memory: first all words of head 0. So the first "
            "word of your result is made of head 0 at the first few words, and has nothing of the other heads. "
            "Exchange heads and words first, then reshape. (It does undo a `split_heads` that was reshaped, too: two "
            "mistakes that hide each other.)",
            _reshaped,
        ),
        wrong(
            "wrong_axes_exchanged",
            "The wrong two axes are exchanged",
            "What has to change places is heads and words, axes 1 and 2, so that the heads stand right before their "
            "numbers. You exchanged words and numbers.",
            _wrong_axes,
        ),
        wrong(
            "heads_and_numbers_exchanged",
            "Heads and numbers are exchanged, not heads and words",
            "Axes 1 and 3 have changed places, (b, d, n, h). It is heads and words, axes 1 and 2, that do: the numbers "
            "of a head stay last.",
            lambda x: x.transpose(1, 3).reshape(x.shape[0], x.shape[2], -1),
        ),
        wrong(
            "heads_fastest",
            "The heads take turns",
            "Your row holds number 0 of every head, then number 1 of every head: the pattern (d h). split_heads cut "
            "runs of d neighbours, (h d), and so has its inverse to join them.",
            lambda x: rearrange(x, "b h n d -> b n (d h)"),
        ),
        wrong(
            "view_after_transpose",
            "view cannot join what a transpose has moved",
            "`transpose` moves no number, it only reads the memory in another order. `view` needs neighbours that "
            "are neighbours in memory, too. `reshape` copies where it must (or call `.contiguous()` first).",
            lambda x: x.transpose(1, 2).view(x.shape[0], x.shape[2], -1),
        ),
        wrong(
            "not_joined",
            "Moved, but not joined",
            "The heads stand behind the words now, (b, n, h, d). Join the last two axes: (b, n, h·d).",
            lambda x: x.transpose(1, 2),
        ),
        wrong(
            "joined_with_words",
            "The heads are joined with the words",
            "Yours is (b, h·n, d): the sentence has become h times as long. The heads belong beside one another, in "
            "the width.",
            lambda x: rearrange(x, "b h n d -> b (h n) d"),
        ),
        wrong(
            "words_joined",
            "The words are joined, not the heads",
            "Yours is (b, h, n·d): all words of a head in one row. Exchange heads and words first, so that the last "
            "two axes, which you join, are heads and numbers.",
            lambda x: x.flatten(2),
        ),
        wrong(
            "joined_with_words_and_moved",
            "The heads are joined with the words",
            "Yours is (b, n·h, d): the heads are moved behind the words, but then joined with them. It is the last two "
            "axes that are joined, heads and numbers.",
            lambda x: x.transpose(1, 2).flatten(1, 2),
        ),
        wrong(
            "batch_joined_with_words",
            "The sentences of the batch are joined into one",
            "Yours is (b·n, h·d), as a linear layer may want it. The contract keeps the batch: (b, n, h·d).",
            lambda x: _right(x).flatten(0, 1),
        ),
        wrong(
            "words_first",
            "The words stand in front of the batch",
            "Yours is (n, b, h·d). The batch stays first: (b, n, h·d).",
            lambda x: _right(x).transpose(0, 1),
        ),
        wrong(
            "summed",
            "The heads are added up",
            "A sum is only d wide, and what the heads found can no longer be told apart. They are put side by side; "
            "mixing them is the work of W^O.",
            lambda x: x.sum(dim=1),
        ),
        wrong(
            "averaged",
            "The heads are averaged",
            "An average is only d wide, and what the heads found can no longer be told apart. They are put side by "
            "side; mixing them is the work of W^O.",
            lambda x: x.mean(dim=1),
        ),
        wrong(
            "first_head_only",
            "Only the first head is kept",
            "The other heads are lost. All of them belong into the row of a word, one after the other.",
            lambda x: x[:, 0],
        ),
        wrong(
            "heads_reversed",
            "The heads come in reverse order",
            "Head 0 has to be on the left again, where split_heads took it from.",
            lambda x: _right(x.flip(1)),
        ),
        wrong(
            "numbers_before_words",
            "Words and width are exchanged",
            "Yours is (b, h·d, n). A word is a row: (b, n, h·d).",
            lambda x: rearrange(x, "b h n d -> b (h d) n"),
        ),
        wrong(
            "heads_of_one_sentence",
            "It works for a batch of one only",
            "`list(x.squeeze(0))` is a list of heads only where the batch has length 1; else it is a list of "
            "sentences, and these are what is joined. The heads are axis 1: x.unbind(dim=1).",
            _heads_of_one_sentence,
        ),
        wrong(
            "reshaped_for_one_sentence",
            "It works for a batch of one only",
            "`reshape(1, n, -1)` puts all sentences into one. Keep the batch: reshape(b, n, -1).",
            lambda x: x.transpose(1, 2).reshape(1, x.shape[2], -1),
        ),
        *without(slips(_right), "batch_second"),  # that is words_first
        *slips_of_views(_right),
        *usual_misconceptions(_right, example=_small_heads),
    ),
)
