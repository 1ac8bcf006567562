"""Exercise `split_heads`: cut the width into heads, and move the heads in front of the words."""

import re
from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

import attnlib
from attnlib.checks.asking.failure import Failed
from attnlib.checks.course.handling import slips, slips_of_views
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, without, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise, Inputs
from attnlib.checks.trial.compare import counts_as

LESSON = "03_multi_head_attention"


def _words(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Tensor, int]:
    return draw.normal(b, n, h * d), h


def _indivisible(b: int, n: int, width: int, h: int):
    return lambda draw: (draw.normal(b, n, width), h)


def _numbers_said(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """1 where the ValueError says the width, 1 where it says the number of heads."""
    x, num_heads = inputs
    asked(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)  # who refuses this, too, is not asked further
    try:
        return asked(*inputs)
    except Failed as failed:
        said = failed.failure.text
        if not counts_as("ValueError", failed.failure):
            raise
    return (x.new_tensor([float(str(n) in re.findall(r"\d+", said)) for n in (x.shape[-1], num_heads)]),)


def _small_words() -> tuple[Tensor, int]:
    return torch.tensor([[[11.0, 12.0], [21.0, 22.0], [31.0, 32.0]]]), 2


def _refuse(x: Tensor, num_heads: int) -> None:
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")


def _refusing(message: Callable[[int, int], str], error: type[Exception] = ValueError):
    """Right, with a message of its own, or an error of another type."""

    def split(x: Tensor, num_heads: int) -> Tensor:
        if x.shape[-1] % num_heads:
            raise error(message(x.shape[-1], num_heads))
        return _right(x, num_heads)

    return split


def _words_checked(x: Tensor, num_heads: int) -> Tensor:
    if x.shape[1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide {x.shape[1]}")
    return rearrange(x, "b n (h d) -> b h n d", h=num_heads)


def _one_sentence(x: Tensor, num_heads: int) -> Tensor:
    _refuse(x, num_heads)
    return x.reshape(x.shape[1], num_heads, x.shape[2] // num_heads).transpose(0, 1)[None]


def _nothing_returned(x: Tensor, num_heads: int) -> Tensor | None:
    return None if x.shape[-1] % num_heads else _right(x, num_heads)


def _error_returned(x: Tensor, num_heads: int) -> Tensor | ValueError:
    return ValueError(f"{num_heads}, {x.shape[-1]}") if x.shape[-1] % num_heads else _right(x, num_heads)


def _split(pattern: str):
    """The heads moved about as the einops pattern says, after the error that the contract asks for."""

    def split(x: Tensor, num_heads: int) -> Tensor:
        _refuse(x, num_heads)
        return rearrange(x, pattern, h=num_heads)

    return split


def _reshaped(x: Tensor, num_heads: int) -> Tensor:
    _refuse(x, num_heads)
    return x.reshape(x.shape[0], num_heads, x.shape[1], -1)


def _reshaped_and_turned(x: Tensor, num_heads: int) -> Tensor:
    _refuse(x, num_heads)
    return x.reshape(x.shape[0], num_heads, -1, x.shape[1]).transpose(-2, -1)


def _words_cut(x: Tensor, num_heads: int) -> Tensor:
    _refuse(x, num_heads)
    return x.reshape(x.shape[0], x.shape[1], -1, num_heads).transpose(1, 2)


def _asserted(x: Tensor, num_heads: int) -> Tensor:
    assert x.shape[-1] % num_heads == 0, "num_heads must divide the width"
    return _right(x, num_heads)


def _unchecked(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)


def _cut_short(x: Tensor, num_heads: int) -> Tensor:
    return _right(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)


_right = _split("b n (h d) -> b h n d")

SPLIT_HEADS = Exercise(
    name="split_heads",
    lesson=LESSON,
    contract="(b, n, h·d) -> (b, h, n, d), ValueError where num_heads does not divide the width",
    parts={"values": 2, "error": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.split_heads,
    forbidden=("attnlib.split_heads",),
    cases=(
        *usual_cases(
            _words,
            {"b": 2, "n": 7, "h": 3, "d": 5},
            one={"b": 1, "n": 5, "h": 2, "d": 3},
            more=[
                {"b": 3, "n": 2, "h": 5, "d": 7},
                {"b": 2, "n": 11, "h": 1, "d": 3},
                {"b": 5, "n": 3, "h": 7, "d": 1},
                {"b": 2, "n": 1, "h": 3, "d": 2},
                {"b": 2, "n": 6, "h": 6, "d": 6},
            ],
        ),
        # who looks at another axis than the width is right here, and refuses elsewhere
        Case(
            name="as many sentences, words and numbers as heads", inputs=lambda draw: _words(draw, b=3, n=3, h=3, d=3)
        ),
        Case(name="3 heads and a width of 14", inputs=_indivisible(2, 5, 14, 3), part="error", raises=True),
        Case(
            name="what the error says about 3 heads and a width of 14",
            inputs=_indivisible(2, 5, 14, 3),
            part="error",
            probe=_numbers_said,
        ),
        Case(name="more heads than columns", inputs=_indivisible(2, 7, 3, 5), part="error", raises=True, hidden=True),
        # 15 words: without a look at the width, reshape would find numbers enough for 3 heads
        Case(name="3 heads, 15 words", inputs=_indivisible(1, 15, 7, 3), part="error", raises=True, hidden=True),
    ),
    example=_small_words,
    misconceptions=(
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "`reshape(b, h, n, d)` (or `view`) keeps the numbers in their order in memory, word after word. So the "
            "first head gets the first few words, cut into pieces, instead of its columns of every word. Cut the "
            "width first, (b, n, h, d), and then exchange the two middle axes.",
            _reshaped,
        ),
        wrong(
            "heads_fastest",
            "The heads take turns",
            "Your head 0 has the columns 0, h, 2h, …: the pattern (d h). Here each head has a run of d neighbouring "
            "columns: (h d), with d on the right, so that it runs fastest. The weights decide which of the two is "
            "right, and these were stacked head by head.",
            _split("b n (d h) -> b h n d"),
        ),
        wrong(
            "not_moved",
            "The heads still stand behind the words",
            "The width is cut rightly, (b, n, h, d). But a matrix product works on the last two axes, and these have "
            "to be words and numbers: move the heads in front of the words.",
            _split("b n (h d) -> b n h d"),
        ),
        wrong(
            "heads_first",
            "The heads stand in front of the batch",
            "Yours is (h, b, n, d). The batch stays first: (b, h, n, d).",
            _split("b n (h d) -> h b n d"),
        ),
        wrong(
            "folded_into_batch",
            "The heads are folded into the batch",
            "(b·h, n, d) is a legal way to compute attention, and old code does it for torch.bmm. The contract keeps "
            "an axis for the heads: (b, h, n, d).",
            _split("b n (h d) -> (b h) n d"),
        ),
        wrong(
            "numbers_before_words",
            "The last two axes are exchanged",
            "Yours is (b, h, d, n), which is what the keys need inside the scores. Here every head gets words as "
            "rows: (b, h, n, d).",
            _split("b n (h d) -> b h d n"),
        ),
        wrong(
            "heads_last",
            "The heads stand at the end",
            "Yours is (b, n, d, h). A matrix product works on the last two axes, and these have to be words and "
            "numbers: (b, h, n, d).",
            _split("b n (h d) -> b n d h"),
        ),
        wrong(
            "number_for_width",
            "num_heads taken for the width of a head",
            "You made heads of width num_heads, as many as fit. num_heads says how many; each is width // num_heads "
            "wide.",
            _split("b n (d h) -> b d n h"),
        ),
        wrong(
            "taking_turns_by_reshape",
            "The width is cut into (d, h), not into (h, d)",
            "`reshape(b, n, d, h).transpose(1, 2)` names the axes in the wrong order. In memory the head's d numbers "
            "are neighbours, so the last axis of the reshape has to be d.",
            _words_cut,
            same_as="number_for_width",
        ),
        wrong(
            "heads_reversed",
            "The heads come in reverse order",
            "Head 0 has the first d columns, not the last.",
            lambda x, num_heads: _right(x, num_heads).flip(1),
        ),
        wrong(
            "reshaped_and_turned",
            "Reshaped first, transposed afterwards",
            "A transpose has to move the axis that the reshape has made. You made (b, h, d, n) straight from memory, "
            "where the numbers do not lie like that, and then exchanged the wrong two axes.",
            _reshaped_and_turned,
        ),
        wrong(
            "first_head_only",
            "Only the first head is cut out",
            "The first d columns are head 0. The other heads are missing: all h of them belong into one tensor.",
            lambda x, num_heads: _right(x, num_heads)[:, :1],
        ),
        wrong(
            "head_copied",
            "Every head gets the same columns",
            "All heads hold the columns of head 0. With one query, key and value for all of them, they would all look "
            "at the same words.",
            lambda x, num_heads: _right(x, num_heads)[:, :1].repeat(1, num_heads, 1, 1),
        ),
        wrong(
            "cut_short",
            "Columns that are left over are thrown away",
            "Where the width is not a multiple of num_heads, the last columns vanish without a word. Nobody wants "
            "that: raise a ValueError that says both numbers.",
            _cut_short,
        ),
        wrong(
            "no_numbers",
            "The ValueError does not say the two numbers",
            "Whoever reads it has to know which width and how many heads did not fit. Put both into the message: "
            'raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}").',
            _refusing(lambda width, num_heads: "num_heads must divide the width"),
        ),
        wrong(
            "no_width",
            "The ValueError does not say the width",
            "It says how many heads were wanted. What they should have divided, the width, belongs into the message, "
            "too.",
            _refusing(lambda width, num_heads: f"{num_heads} heads do not divide the width"),
        ),
        wrong(
            "no_number_of_heads",
            "The ValueError does not say how many heads were wanted",
            "It says the width. What did not divide it, num_heads, belongs into the message, too.",
            _refusing(lambda width, num_heads: f"a width of {width} is not divisible by num_heads"),
        ),
        wrong(
            "words_checked",
            "The number of words is checked, not the width",
            "num_heads has to divide the width, x.shape[-1], which is what is cut. How many words there are, "
            "x.shape[1], does not matter.",
            _words_checked,
        ),
        wrong(
            "one_sentence_only",
            "It works for a batch of one only",
            "The reshape to (n, h, d) has no axis for the batch. Name it: x.reshape(b, n, h, d).",
            _one_sentence,
        ),
        wrong(
            "type_error",
            "A TypeError instead of a ValueError",
            "TypeError is for a value of the wrong *type*. The number of heads is an int, as it should be, but not a "
            "good one: that is a ValueError.",
            _refusing(lambda width, num_heads: f"{num_heads}, {width}", TypeError),
        ),
        wrong(
            "plain_exception",
            "An Exception instead of a ValueError",
            "`except ValueError` does not catch a plain Exception. Say what is wrong by the type, too: a value. "
            "raise ValueError(...).",
            _refusing(lambda width, num_heads: f"{num_heads}, {width}", Exception),
        ),
        wrong(
            "none_for_an_error",
            "None is returned in place of an error",
            "Where num_heads does not divide the width, the caller gets None and fails somewhere else. Raise the "
            "error: raise ValueError(...).",
            _nothing_returned,
        ),
        wrong(
            "error_returned",
            "The error is returned, not raised",
            "`return ValueError(...)` hands the caller an object. `raise ValueError(...)` stops him.",
            _error_returned,
        ),
        wrong(
            "heads_listed",
            "The heads are a list, not a tensor",
            "`chunk` and `split` give a tuple of h tensors. Stack them on a new axis in front of the words: "
            "torch.stack(the_heads, dim=1).",
            lambda x, num_heads: _right(x, num_heads).unbind(1),
        ),
        wrong(
            "torch_complains",
            "The error is torch's, not yours",
            "reshape fails by chance, with a RuntimeError about a shape that the caller has never heard of. Look at "
            "the width yourself, before you cut, and raise a ValueError that says both numbers.",
            _unchecked,
        ),
        wrong(
            "einops_complains",
            "The error is einops's, not yours",
            "rearrange refuses with an EinopsError, which is no ValueError. Look at the width yourself, before you "
            "cut, and raise a ValueError that says both numbers.",
            lambda x, num_heads: rearrange(x, "b n (h d) -> b h n d", h=num_heads),
        ),
        wrong(
            "assertion",
            "An assertion instead of a ValueError",
            "`assert` is for what cannot happen, and Python drops it when it runs with -O. What a caller did wrong is "
            "a ValueError: `raise ValueError(...)`.",
            _asserted,
        ),
        *without(slips(_right), "batch_second"),  # that is heads_first
        *slips_of_views(_right),
        *usual_misconceptions(_right, example=_small_words),
    ),
)
