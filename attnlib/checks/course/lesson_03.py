"""Exercises of lesson 03: multi-head attention."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.failure import Failed
from attnlib.checks.asking.given import described
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import LEADING_AXES, Compare, Mix
from attnlib.checks.course.slips.contributions import GiveAdded, OwnRows
from attnlib.checks.course.slips.heads import (
    Finish,
    FourLayers,
    HeadGive,
    HeadScale,
    HeadShare,
    Merge,
    ProjectHeads,
    Split,
    Width,
)
from attnlib.checks.course.slips.lesson03_adam import CorrectMeans, Divide, Gather, KeepMeans, TakeAdamSteps
from attnlib.checks.course.slips.lesson05_training import GiveLosses
from attnlib.checks.course.slips.packing import JoinHeads, Unpack, Unpacked
from attnlib.checks.course.slips.projections import Matrices, Multiply, OfItself, Project
from attnlib.checks.course.slips.training import MeasureError
from attnlib.checks.course.steps import CourseExercise, Step, along_with, spells, told_as
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import as_given, only_built, usual_cases, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise, Inputs
from attnlib.checks.trial.compare import counts_as

LESSON = "03_multi_head_attention"


def _matrices(draw: Draw, *, h: int, d_model: int, d: int) -> tuple[list[Tensor]]:
    return ([draw.normal(d_model, d) for _ in range(h)],)


def _small_matrices() -> tuple[list[Tensor]]:
    return ([torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])],)


def _filled(per_head: list[Tensor], width: int, d: int) -> Tensor:
    result = per_head[0].new_zeros(per_head[0].shape[0], width)
    for i, matrix in enumerate(per_head):
        result[:, i * d : (i + 1) * d] = matrix
    return result


class Stack(Step):
    """The columns of all heads side by side."""

    def right(self, per_head: list[Tensor]) -> Tensor:
        return torch.cat(list(per_head), dim=-1)

    def on_top_of_each_other(self, per_head: list[Tensor]) -> Tensor:
        """The matrices are stacked on top of each other.

        Yours is (h·d_model, d): joined along the rows. A column of a matrix makes one number of the result, so
        more results need more *columns*: join along the last axis.
        """
        return torch.cat(list(per_head), dim=0)

    def new_axis(self, per_head: list[Tensor]) -> Tensor:
        """The matrices are on a new axis, one after another.

        torch.stack makes a new axis, (h, d_model, d). That can be used in an einsum, but it is not one matrix.
        Join them along the axis that is there: torch.cat.
        """
        return torch.stack(list(per_head))

    def new_axis_last(self, per_head: list[Tensor]) -> Tensor:
        """The matrices are side by side on a new last axis.

        Yours is (d_model, d, h): torch.stack makes a new axis. Join the matrices along the axis that is there:
        torch.cat with dim=-1.
        """
        return torch.stack(list(per_head), dim=-1)

    def reshaped(self, per_head: list[Tensor]) -> Tensor:
        """reshape where a transpose was needed.

        torch.stack gives (h, d_model, d), and in memory all of head 0 comes first. `reshape(d_model, h * d)`
        keeps that order, so your first row is several rows of head 0. Move d_model to the front
        first, or use torch.cat.
        """
        return torch.stack(list(per_head)).reshape(per_head[0].shape[0], -1)

    def heads_fastest(self, per_head: list[Tensor]) -> Tensor:
        """The heads take turns.

        Your columns are the first of every head, then the second of every head: (d h). split_heads will cut
        runs of d neighbours, so the columns of one head have to stay together: (h d).
        """
        return rearrange(list(per_head), "h m d -> m (d h)")

    def heads_reversed(self, per_head: list[Tensor]) -> Tensor:
        """The heads come in reverse order.

        Head 0 belongs on the left: split_heads will look for it there.
        """
        return torch.cat(list(per_head)[::-1], dim=-1)

    def summed(self, per_head: list[Tensor]) -> Tensor:
        """The matrices are added up.

        x @ (A + B) is x @ A + x @ B: the heads can no longer be told apart. Side by side they stay separate.
        """
        return torch.stack(list(per_head)).sum(dim=0)

    def averaged(self, per_head: list[Tensor]) -> Tensor:
        """The matrices are averaged.

        x @ (A + B)/2 is the mean of x @ A and x @ B: the heads can no longer be told apart. Side by side they
        stay separate.
        """
        return torch.stack(list(per_head)).mean(dim=0)

    def block_diagonal(self, per_head: list[Tensor]) -> Tensor:
        """A block-diagonal matrix.

        (h·d_model, h·d) with zeros off the blocks: each head would read only its own slice of the input. In
        multi-head attention every head reads the whole word, so all matrices share the same d_model rows.
        """
        blocks: Tensor = torch.block_diag(*per_head)
        return blocks

    def transposed(self, per_head: list[Tensor]) -> Tensor:
        """The way round of nn.Linear.

        Yours is (h·d, d_model), as nn.Linear stores a weight. Here the matrices multiply from the right, x @ w,
        and so does the result: (d_model, h·d).
        """
        return torch.cat(list(per_head), dim=-1).T

    def each_transposed(self, per_head: list[Tensor]) -> Tensor:
        """Each matrix is transposed.

        The matrices come as they are needed, (d_model, d): they multiply from the right, x @ w. Join them as
        they are.
        """
        return torch.cat([w.T for w in per_head], dim=-1)

    def new_parameter(self, per_head: list[Tensor]) -> Tensor:
        """The result is a new parameter.

        nn.Parameter(...), or requires_grad_() after a detach, starts a new leaf: it copies the numbers, and the
        gradient ends there. The matrices that you were given are the ones that learn.
        """
        return torch.cat(list(per_head), dim=-1).detach().requires_grad_(per_head[0].requires_grad)

    def last_head_lost(self, per_head: list[Tensor]) -> Tensor:
        """The last head is missing.

        A range that ends at len(per_head) - 1 stops one head too early.
        """
        return torch.cat(list(per_head)[: max(1, len(per_head) - 1)], dim=-1)

    def two_heads_only(self, per_head: list[Tensor]) -> Tensor:
        """Only the first two heads are joined.

        per_head may have any length: hand the whole list to torch.cat.
        """
        return torch.cat(list(per_head)[:2], dim=-1)

    @spells(two_heads_only)
    def first_two_indexed(self, per_head: list[Tensor]) -> Tensor:
        return torch.cat([per_head[0], per_head[1]], dim=-1)

    def first_head_twice(self, per_head: list[Tensor]) -> Tensor:
        """Head 0 is there twice.

        The loop begins at head 0 although the result began with head 0 already. Begin with the second one,
        per_head[1:], or hand the whole list to torch.cat.
        """
        return torch.cat([per_head[0], *per_head], dim=-1)

    def first_head_lost(self, per_head: list[Tensor]) -> Tensor:
        """The first head is missing.

        Lists are counted from 0: a loop from 1 on leaves head 0 out. Hand the whole list to torch.cat.
        """
        return torch.cat(list(per_head[1:] or per_head), dim=-1)

    def square_result(self, per_head: list[Tensor]) -> Tensor:
        """The result is made as wide as d_model.

        The heads side by side are h·d wide, and that need not be d_model. Take d from the matrices:
        per_head[0].shape[1].
        """
        return _filled(per_head, per_head[0].shape[0], per_head[0].shape[0] // len(per_head))

    @spells(square_result)
    def square_result_filled(self, per_head: list[Tensor]) -> Tensor:
        return _filled(per_head, per_head[0].shape[0], per_head[0].shape[1])

    def first_head_only(self, per_head: list[Tensor]) -> Tensor:
        """One head for all.

        Every block of columns is the matrix of head 0, so all heads would ask the same.
        """
        return per_head[0].repeat(1, len(per_head))

    def three_heads_indexed(self, per_head: list[Tensor]) -> Tensor:
        """Exactly three heads are joined.

        per_head[0], per_head[1] and per_head[2] are all there are in the lesson's example. per_head may have any
        length: hand the whole list to torch.cat.
        """
        return torch.cat([per_head[0], per_head[1], per_head[2]], dim=-1)

    @spells(three_heads_indexed)
    def three_heads_unpacked(self, per_head: list[Tensor]) -> Tensor:
        first, second, third = per_head
        return torch.cat([first, second, third], dim=-1)


STACK_HEAD_WEIGHTS = CourseExercise(
    name="stack_head_weights",
    lesson=LESSON,
    contract="h matrices (d_model, d) -> one (d_model, h·d), the heads' columns side by side",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.stack_head_weights,
    forbidden=("attnlib.stack_head_weights",),
    cases=(
        *usual_cases(
            _matrices,
            {"h": 3, "d_model": 7, "d": 5},
            one={"h": 2, "d_model": 5, "d": 3},
            more=[
                {"h": 5, "d_model": 2, "d": 7},
                {"h": 1, "d_model": 11, "d": 3},
                {"h": 7, "d_model": 3, "d": 1},
                {"h": 3, "d_model": 3, "d": 3},
            ],
        ),
        Case(name="every width is 1", inputs=partial(_matrices, h=3, d_model=1, d=1)),
    ),
    example=_small_matrices,
    made_of=(Stack,),
)


def _words(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Tensor, int]:
    return draw.normal(b, n, h * d), h


def _indivisible(b: int, n: int, width: int, h: int) -> Callable[[Draw], tuple[Tensor, int]]:
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


def _or_raise(x: Tensor, num_heads: int, error: Exception) -> Tensor:
    if x.shape[-1] % num_heads:
        raise error
    return x


class Refuse(Step):
    """A number of heads that does not divide the width is refused."""

    makes = ("x",)

    def right(self, x: Tensor, num_heads: int) -> Tensor:
        return _or_raise(x, num_heads, ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}"))

    def cut_short(self, x: Tensor, num_heads: int) -> Tensor:
        """Left-over columns are thrown away.

        Where the width is not a multiple of num_heads, the last columns vanish silently. Nobody wants that: raise a
        ValueError that says both numbers.
        """
        return x[..., : x.shape[-1] // num_heads * num_heads]

    def no_numbers(self, x: Tensor, num_heads: int) -> Tensor:
        """The ValueError does not name the two numbers.

        Whoever reads it has to know which width and how many heads did not fit. Put both into the message:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}").
        """
        return _or_raise(x, num_heads, ValueError("num_heads must divide the width"))

    def no_width(self, x: Tensor, num_heads: int) -> Tensor:
        """The ValueError does not say the width.

        It says how many heads were wanted. The width, which they should have divided, belongs in the message, too.
        """
        return _or_raise(x, num_heads, ValueError(f"{num_heads} heads do not divide the width"))

    def no_number_of_heads(self, x: Tensor, num_heads: int) -> Tensor:
        """The ValueError does not say how many heads were wanted.

        It says the width. The number that did not divide it, num_heads, belongs in the message, too.
        """
        return _or_raise(x, num_heads, ValueError(f"a width of {x.shape[-1]} is not divisible by num_heads"))

    def words_checked(self, x: Tensor, num_heads: int) -> Tensor:
        """The number of words is checked, not the width.

        num_heads has to divide the width, x.shape[-1], which is what is cut. How many words there are,
        x.shape[1], does not matter.
        """
        _or_raise(x.mT, num_heads, ValueError(f"{num_heads} heads do not divide {x.shape[1]}"))
        return x

    def type_error(self, x: Tensor, num_heads: int) -> Tensor:
        """A TypeError instead of a ValueError.

        TypeError is for a value of the wrong *type*. The number of heads is an int, as it should be, but not a
        good one: that is a ValueError.
        """
        return _or_raise(x, num_heads, TypeError(f"{num_heads}, {x.shape[-1]}"))

    def plain_exception(self, x: Tensor, num_heads: int) -> Tensor:
        """An Exception instead of a ValueError.

        `except ValueError` does not catch a plain Exception. Say what is wrong by the type, too: a value. raise
        ValueError(...).
        """
        return _or_raise(x, num_heads, Exception(f"{num_heads}, {x.shape[-1]}"))

    @told_as(Width.assertion)
    def assertion(self, x: Tensor, num_heads: int) -> Tensor:
        assert x.shape[-1] % num_heads == 0, "num_heads must divide the width"
        return x

    def torch_complains(self, x: Tensor, num_heads: int) -> Tensor:
        """The error is torch's, not yours.

        These numbers reach reshape (or view), which fails with a RuntimeError about a shape that the caller has
        never heard of. Before you cut, raise a ValueError whenever x.shape[-1] % num_heads is not 0.
        """
        return x


class Cut(Step):
    """The width is cut into heads, and the heads go in front of the words."""

    def right(self, x: Tensor, num_heads: int) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads).transpose(1, 2)

    def reshaped(self, x: Tensor, num_heads: int) -> Tensor:
        """reshape where a transpose was needed.

        `reshape(b, h, n, d)` (or `view`) keeps the numbers in their order in memory, word after word. So the
        first head gets the first few words, cut into pieces, instead of its columns of every word. Cut the
        width first, (b, n, h, d), and then exchange the two middle axes.
        """
        return x.reshape(x.shape[0], num_heads, x.shape[1], -1)

    def heads_fastest(self, x: Tensor, num_heads: int) -> Tensor:
        """The heads take turns.

        Your head 0 has the columns 0, h, 2h, …: the pattern (d h). Here each head has a run of d neighbouring
        columns: (h d), with d on the right, so that it runs fastest. The weights decide which of the two is
        right, and these were stacked head by head.
        """
        return rearrange(x, "b n (d h) -> b h n d", h=num_heads)

    def not_moved(self, x: Tensor, num_heads: int) -> Tensor:
        """The heads still come after the words.

        The width is cut correctly, (b, n, h, d). But a matrix product works on the last two axes, and these have to be
        words and numbers: move the heads in front of the words.
        """
        return rearrange(x, "b n (h d) -> b n h d", h=num_heads)

    def heads_first(self, x: Tensor, num_heads: int) -> Tensor:
        """The heads come before the batch.

        Yours is (h, b, n, d). The batch stays first: (b, h, n, d).
        """
        return rearrange(x, "b n (h d) -> h b n d", h=num_heads)

    def numbers_before_words(self, x: Tensor, num_heads: int) -> Tensor:
        """The last two axes are exchanged.

        Yours is (b, h, d, n), which is what the keys need inside the scores. Here every head gets words as
        rows: (b, h, n, d).
        """
        return rearrange(x, "b n (h d) -> b h d n", h=num_heads)

    def heads_last(self, x: Tensor, num_heads: int) -> Tensor:
        """The heads are at the end.

        Yours is (b, n, d, h). A matrix product works on the last two axes, and these have to be words and
        numbers: (b, h, n, d).
        """
        return rearrange(x, "b n (h d) -> b n d h", h=num_heads)

    def number_for_width(self, x: Tensor, num_heads: int) -> Tensor:
        """num_heads taken for the width of a head.

        You made heads of width num_heads, as many as fit. num_heads says how many; each is width // num_heads
        wide.
        """
        return rearrange(x, "b n (d h) -> b d n h", h=num_heads)

    def heads_reversed(self, x: Tensor, num_heads: int) -> Tensor:
        """The heads come in reverse order.

        Head 0 has the first d columns, not the last.
        """
        return self.right(x, num_heads).flip(1)

    def reshaped_and_turned(self, x: Tensor, num_heads: int) -> Tensor:
        """Reshaped first, transposed afterwards.

        A transpose has to move the axis that the reshape has made. You made (b, h, d, n) straight from memory,
        where the numbers are in another order, and then exchanged the wrong two axes.
        """
        return x.reshape(x.shape[0], num_heads, -1, x.shape[1]).transpose(-2, -1)

    def first_head_only(self, x: Tensor, num_heads: int) -> Tensor:
        """Only the first head is cut out.

        The first d columns are head 0. The other heads are missing: all h of them belong in one tensor.
        """
        return self.right(x, num_heads)[:, :1]

    def head_copied(self, x: Tensor, num_heads: int) -> Tensor:
        """Every head gets the same columns.

        All heads hold the columns of head 0. With one query, key and value for all of them, they would all look
        at the same words.
        """
        return self.right(x, num_heads)[:, :1].repeat(1, num_heads, 1, 1)

    def one_sentence_only(self, x: Tensor, num_heads: int) -> Tensor:
        """It works for a batch of one only.

        The reshape to (n, h, d) has no axis for the batch. Name it: x.reshape(b, n, h, d).
        """
        return x.reshape(x.shape[1], num_heads, x.shape[2] // num_heads).transpose(0, 1)[None]

    @along_with("torch_complains")
    def einops_complains(self, x: Tensor, num_heads: int) -> Tensor:
        """The error is einops's, not yours.

        rearrange refuses with an EinopsError, which is no ValueError. Look at the width yourself, before you
        cut, and raise a ValueError that says both numbers.
        """
        return rearrange(x, "b n (h d) -> b h n d", h=num_heads)


SPLIT_HEADS = CourseExercise(
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
        Case(name="the same width, cut into five heads", inputs=partial(_words, b=2, n=7, h=5, d=3)),
        Case(name="heads of one number", inputs=partial(_words, b=2, n=7, h=5, d=1)),
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
    made_of=(Refuse, Cut),
)


def _heads(draw: Draw, *, b: int, h: int, n: int, d: int) -> tuple[Tensor]:
    return (draw.normal(b, h, n, d),)


def _small_heads() -> tuple[Tensor]:
    return (torch.tensor([[[[11.0], [21.0], [31.0]], [[12.0], [22.0], [32.0]]]]),)


class Join(Step):
    """The heads side by side again."""

    def right(self, x: Tensor) -> Tensor:
        return rearrange(x, "b h n d -> b n (h d)")

    def reshaped(self, x: Tensor) -> Tensor:
        """reshape before the transpose.

        `reshape(b, n, h * d)` takes the numbers in their order in memory: first all words of head 0. So the first
        word of your result is made of head 0 at the first few words, and has nothing of the other heads.
        Exchange heads and words first, then reshape. (It does undo a `split_heads` that was reshaped, too: two
        mistakes that hide each other.)
        """
        return x.reshape(x.shape[0], x.shape[2], -1)

    def sentences_for_heads(self, x: Tensor) -> Tensor:
        """The loop runs over the sentences, not over the heads.

        `for head in x` takes the first axis, and that is the batch: sentences are put side by side. The heads are on
        axis 1: `x.unbind(dim=1)`.
        """
        return torch.cat(list(x), dim=-1)

    def wrong_axes_exchanged(self, x: Tensor) -> Tensor:
        """The wrong two axes are exchanged.

        What has to change places is heads and words, axes 1 and 2, so that the heads come right before their
        numbers. You exchanged words and numbers.
        """
        return x.transpose(-2, -1).reshape(x.shape[0], x.shape[2], -1)

    def heads_and_numbers_exchanged(self, x: Tensor) -> Tensor:
        """Heads and numbers are exchanged, not heads and words.

        Axes 1 and 3 have changed places, (b, d, n, h). It is heads and words, axes 1 and 2, that do: the
        numbers of a head stay last.
        """
        return x.transpose(1, 3).reshape(x.shape[0], x.shape[2], -1)

    def heads_fastest(self, x: Tensor) -> Tensor:
        """The heads take turns.

        Your row holds number 0 of every head, then number 1 of every head: the pattern (d h). split_heads cut
        runs of d neighbours, (h d), and so has its inverse to join them.
        """
        return rearrange(x, "b h n d -> b n (d h)")

    def view_after_transpose(self, x: Tensor) -> Tensor:
        """view cannot join what a transpose has moved.

        `transpose` moves no number, it only reads the memory in another order. `view` needs neighbours that are
        neighbours in memory, too. `reshape` copies where it must (or call `.contiguous()` first).
        """
        return x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)

    def joined_with_words(self, x: Tensor) -> Tensor:
        """The heads are joined with the words.

        Yours is (b, h·n, d): the sentence has become h times as long. The heads belong beside one another, in
        the width.
        """
        return rearrange(x, "b h n d -> b (h n) d")

    def words_joined(self, x: Tensor) -> Tensor:
        """The words are joined, not the heads.

        Yours is (b, h, n·d): all words of a head in one row. Exchange heads and words first, so that the last
        two axes, which you join, are heads and numbers.
        """
        return x.flatten(2)

    def joined_with_words_and_moved(self, x: Tensor) -> Tensor:
        """The heads are joined with the words.

        Yours is (b, n·h, d): the heads are moved after the words, but then joined with them. It is the last two axes
        that are joined, heads and numbers.
        """
        return x.transpose(1, 2).flatten(1, 2)

    def summed(self, x: Tensor) -> Tensor:
        """The heads are added up.

        A sum is only d wide, and what the heads found can no longer be told apart. They are put side by side;
        mixing them is the work of W^O.
        """
        return x.sum(dim=1)

    def averaged(self, x: Tensor) -> Tensor:
        """The heads are averaged.

        An average is only d wide, and what the heads found can no longer be told apart. They are put side by
        side; mixing them is the work of W^O.
        """
        return x.mean(dim=1)

    def first_head_only(self, x: Tensor) -> Tensor:
        """Only the first head is kept.

        The other heads are lost. All of them belong in the row of a word, one after the other.
        """
        return x[:, 0]

    def heads_reversed(self, x: Tensor) -> Tensor:
        """The heads come in reverse order.

        Head 0 has to be on the left again, where split_heads took it from.
        """
        return self.right(x.flip(1))

    def numbers_before_words(self, x: Tensor) -> Tensor:
        """Words and width are exchanged.

        Yours is (b, h·d, n). A word is a row: (b, n, h·d).
        """
        return rearrange(x, "b h n d -> b (h d) n")


MERGE_HEADS = CourseExercise(
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
        Case(name="heads of one number", inputs=partial(_heads, b=2, h=3, n=7, d=1)),
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
    made_of=(Join,),
)


class MultiHeadSelfAttention(attnlib.MultiHeadAttention):
    """The contract's form: the weights are always returned, and there is no memory."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, bias=bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _inputs(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Inputs, Inputs]:
    """The width of a head is d_model / num_heads."""
    d_model = h * draw.d_head(d)
    return (d_model, h), (draw.normal(b, n, d_model),)


def _without_bias(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Inputs, Inputs]:
    d_model = h * draw.d_head(d)
    return (d_model, h, None, False), (draw.normal(b, n, d_model),)


def _free_width(
    draw: Draw, *, b: int, n: int, d_model: int, h: int, d: int, bias: bool = True
) -> tuple[Inputs, Inputs]:
    """The width of a head is given, and h·d is not d_model."""
    return (d_model, h, draw.d_head(d), bias), (draw.normal(b, n, d_model),)


def _unfit(draw: Draw, *, b: int, n: int, d_model: int, h: int) -> tuple[Inputs, Inputs]:
    return (d_model, h), (draw.normal(b, n, d_model),)


MULTI_HEAD_SELF_ATTENTION = CourseExercise(
    name="MultiHeadSelfAttention",
    lesson=LESSON,
    contract="MultiHeadSelfAttention(d_model, num_heads, d_head=None, bias=True), "
    "forward: (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 4, "options": 1, "error": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=MultiHeadSelfAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "n": 7, "h": 3, "d": 5},
            one={"b": 1, "n": 3, "h": 2, "d": 7},
            more=[
                {"b": 3, "n": 2, "h": 5, "d": 3},
                {"b": 2, "n": 11, "h": 1, "d": 5},
                {"b": 5, "n": 3, "h": 2, "d": 2},
                {"b": 2, "n": 6, "h": 6, "d": 6},
            ],
        ),
        Case(name="heads of one number", inputs=partial(_inputs, b=2, n=5, h=3, d=1)),
        Case(name="d_head is given", inputs=partial(_free_width, b=2, n=5, d_model=11, h=3, d=7), part="options"),
        Case(
            name="d_head is given, where num_heads divides d_model",
            inputs=partial(_free_width, b=2, n=5, d_model=12, h=3, d=7),
            part="options",
        ),
        Case(name="no bias", inputs=partial(_without_bias, b=2, n=7, h=2, d=5), part="options"),
        Case(
            name="a small d_head, no bias",
            inputs=partial(_free_width, b=3, n=5, d_model=13, h=2, d=3, bias=False),
            part="options",
            hidden=True,
        ),
        Case(
            name="3 heads and a d_model of 14",
            inputs=partial(_unfit, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
        ),
        Case(
            name="3 heads and a d_model of 14, nothing but the constructor",
            inputs=partial(_unfit, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
            probe=only_built,
        ),
        Case(
            name="2 heads and a d_model of 7",
            inputs=partial(_unfit, b=2, n=3, d_model=7, h=2),
            part="error",
            raises=True,
            hidden=True,
        ),
        Case(
            name="d_head is given, gradients",
            inputs=partial(_free_width, b=2, n=3, d_model=7, h=5, d=2),
            part="options",
            dtype=torch.float64,
            gradient=True,
            hidden=True,
        ),
    ),
    made_of=(
        Width,
        FourLayers,
        OfItself,
        ProjectHeads,
        Split,
        Compare,
        HeadScale,
        HeadShare,
        Mix,
        Merge,
        Finish,
        HeadGive,
    ),
    pairs=(
        "exchanged",
        "no_scale",
        "scaled_by_root_d_model",
        "over_queries",
        "merged_by_reshape",
        "split_and_merged_by_reshape",
        "no_output_projection",
    ),
    without=(
        *LEADING_AXES,
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "one_length_only",
        "one_width_only",
        "values_first",
        "error_in_forward",
    ),
)


def _mended(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    """Multi-head attention with the heads folded into the batch."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
    outputs = rearrange(weights @ v, "(h b) n d -> b n (h d)", h=num_heads)
    return outputs @ w_o, rearrange(weights, "(h b) q k -> b h q k", h=num_heads)


def _given(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> tuple[Tensor, Tensor]:
    b, n, _ = x.shape
    q, k, v = (rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
    return (weights @ v).reshape(b, n, -1) @ w_o, weights.reshape(b, num_heads, n, n)


def _folded(t: Tensor) -> Tensor:
    """Heads as the given code has them, (h b) in the first axis."""
    return t.transpose(0, 1).flatten(0, 1)


class MendedShare(HeadShare):
    """In the given code, the first axis is that of heads and sentences together."""

    @spells(HeadShare.over_first_axis)
    def over_heads_and_sentences(self, scores: Tensor) -> Tensor:
        return scores.flatten(0, 1).softmax(dim=0).reshape(scores.shape)


class MendedMerge(Merge):
    """The given code takes the outputs as they are in memory."""

    def only_weights_mended(self, output: Tensor) -> Tensor:
        """The weights are right, the output is not yet.

        The line that joins the heads still takes the numbers in their order in memory: the first row of your result is
        made of head 0 at several words. It has to be made of all heads at one word.
        """
        return _folded(output).reshape(output.shape[0], output.shape[2], -1)

    @spells(Merge.unfolded_otherwise)
    def output_read_as_b_h(self, output: Tensor) -> Tensor:
        return self.right(_folded(output).unflatten(0, output.shape[:2]))

    @spells(Merge.unfolded_otherwise)
    @along_with("only_output_mended")
    def both_read_as_b_h(self, output: Tensor) -> Tensor:
        return self.output_read_as_b_h(output)

    @along_with("only_output_mended")
    def neither_mended(self, output: Tensor) -> Tensor:
        """The heads are joined in another way, and the weights are still reshaped.

        Neither is right yet. The first axis is (h b), heads slowest: unfold both from (h b), the output to b n (h d),
        the weights to b h n m.
        """
        return self.merged_taking_turns(output)

    @spells(neither_mended)
    @along_with("only_output_mended")
    def neither_mended_nor_moved(self, output: Tensor) -> Tensor:
        return self.merged_by_reshape(output)

    def one_sentence(self, output: Tensor) -> Tensor:
        """The words of all sentences are joined into one row.

        The weights are right. But the output is given a batch of 1. The first axis is (h b): unfold it to b n (h d).
        """
        return _folded(output).transpose(0, 1).reshape(1, output.shape[2], -1)


class MendedFinish(Finish):
    """w_o is a matrix here, not a layer."""

    def right(self, output: Tensor, w_o: Tensor) -> Tensor:  # type: ignore[override]
        return output @ w_o

    def output_projection_transposed(self, output: Tensor, w_o: Tensor) -> Tensor:  # type: ignore[override]
        """w_o is transposed.

        w_o is (h·d, d_model) and multiplies from the right, as it did before: outputs @ w_o.
        """
        return output @ w_o.mT


class MendedGive(HeadGive):
    """The given code takes the weights as they are in memory."""

    def only_output_mended(self, output: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The output is right, the weights are not yet.

        With a single sentence nobody would notice. With two, the weights that you return for sentence 0 are head 0 of
        sentence 0, then head 0 of sentence 1. The first axis is (h b), not (b h).
        """
        return output, _folded(weights).reshape(weights.shape)


def _sentences(b: int, n: int, h: int, d: int, d_model: int) -> Callable[[Draw], tuple[Tensor | int, ...]]:
    """Words and matrices, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor | int, ...]:
        width, grow = h * draw.d_head(d), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, width, scale=grow) for _ in range(3)]
        return (draw.normal(b, n, d_model), *projections, draw.normal(width, d_model, scale=width**-0.5), h)

    return inputs


MEND_MULTI_HEAD = CourseExercise(
    name="mend_multi_head",
    lesson=LESSON,
    contract="(b, n, d_model), three matrices (d_model, h·d), one (h·d, d_model), num_heads -> "
    "output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 3},
    reference=_mended,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="two sentences, three heads", inputs=_sentences(2, 7, 3, 5, 11)),
        Case(name="five sentences, two heads", inputs=_sentences(5, 3, 2, 7, 13), mutation=True),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 2, 7), gradient=True),
        Case(name="heads of one number", inputs=_sentences(2, 5, 3, 1, 1)),
        Case(name="float64", inputs=_sentences(2, 5, 3, 7, 17), dtype=torch.float64, gradient=True),
        Case(name="one head", inputs=_sentences(3, 5, 1, 7, 11), hidden=True),
        Case(name="as many sentences as heads", inputs=_sentences(3, 3, 3, 3, 9), hidden=True),
    ),
    made_of=(
        Multiply,
        Matrices,
        OfItself,
        Project,
        Split,
        Compare,
        HeadScale,
        MendedShare,
        Mix,
        MendedMerge,
        MendedFinish,
        MendedGive,
    ),
    without=(
        *LEADING_AXES,
        "nothing_projected",
        "queries_and_keys_not_projected",
        "values_not_projected",
        "chained",
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "one_length_only",
        "values_first",
        "one_width_only",
        "bias_of_w_o_unused",
        "bias_for_each_head",
    ),
    own=(as_given(_given),),
)


def _head_contributions(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int) -> Tensor:
    """What each head adds to the output, (b, h, n, d_model)."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> b h n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
    return weights @ v @ rearrange(w_o, "(h d) m -> h d m", h=num_heads)


def _some_sentences(draw: Draw, *, b: int, n: int, h: int, d: int, d_model: int) -> tuple[Tensor | int, ...]:
    return _sentences(b, n, h, d, d_model)(draw)


HEAD_CONTRIBUTIONS = CourseExercise(
    name="head_contributions",
    lesson=LESSON,
    contract="(b, n, d_model), three matrices (d_model, h·d), one (h·d, d_model), num_heads -> "
    "what each head adds to the output, (b, h, n, d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    reference=_head_contributions,
    attends=True,
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _some_sentences,
            {"b": 2, "n": 7, "h": 3, "d": 5, "d_model": 11},
            one={"b": 1, "n": 5, "h": 2, "d": 3, "d_model": 7},
            more=[
                {"b": 5, "n": 3, "h": 2, "d": 7, "d_model": 13},
                {"b": 3, "n": 2, "h": 5, "d": 2, "d_model": 3},
            ],
        ),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="as wide as d_model", inputs=partial(_some_sentences, b=2, n=5, h=3, d=7, d_model=21)),
        Case(name="as many sentences as heads", inputs=partial(_some_sentences, b=3, n=3, h=3, d=5, d_model=15)),
        Case(name="every width is 1", inputs=partial(_some_sentences, b=2, n=5, h=3, d=1, d_model=1)),
    ),
    made_of=(Multiply, Matrices, OfItself, Project, Split, Compare, HeadScale, HeadShare, Mix, OwnRows, GiveAdded),
    pairs=("no_scale", "rows_taking_turns", "heads_summed", "heads_in_front_of_the_batch"),
    few={
        Project: (),
        Split: (),
        Compare: ("not_transposed",),
        HeadScale: ("no_scale", "scaled_by_d", "scaled_by_root_d_model", "scaled_by_root_width"),
        HeadShare: ("over_queries", "over_heads", "no_softmax"),
        Mix: ("weights_transposed",),
    },
)

PREDICT_HEAD_PARAMETERS = Exercise(
    name="predict_head_parameters",
    lesson=LESSON,
    contract="how many weights eight narrow heads have, compared with one wide head",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Eight matrices (512, 64) side by side are one matrix (512, 512). That holds for queries, keys and "
    "values, and eight times 64 is what W^O takes in. More heads have no more weights to learn: they share one width.",
    wrong=(
        wrong(
            "full_width_each",
            "Each head has its share of the width",
            "You gave every head a full (512, 512). The joined heads would then be 4096 wide. A head gets 64 of the "
            "512 columns, so its matrix is (512, 64), and eight of those are as large as the single one.",
            "A",
        ),
        wrong(
            "sees_a_slice_of_x",
            "A head reads the whole word",
            "You let each head read only 64 of the 512 numbers of a word. A head's query has 64 numbers, but each of "
            "them is made from all 512: the matrix is (512, 64), not (64, 64). What is cut is the projection, not x.",
            "C",
        ),
        wrong(
            "joined_is_wider",
            "Side by side, they are as wide as before",
            "Eight outputs of width 64 are 512 numbers side by side, just as many as one head of width 512 produces. "
            "W^O does not notice the difference.",
            "D",
        ),
    ),
)

PREDICT_RESHAPED_HEADS = Exercise(
    name="predict_reshaped_heads",
    lesson=LESSON,
    contract="what the first head sees when heads are made by reshape alone",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="reshape leaves the numbers in order and only breaks the lines elsewhere. In that order, the first "
    "third of the numbers is the first four words, all nine columns of each. Every word is cut into three rows.",
    wrong=(
        wrong(
            "shape_is_meaning",
            "The shape is right, but the numbers are not",
            "The shape is that of split_heads, so you expect the same contents. But reshape(3, 12, 3) takes the "
            "numbers in their order in memory, word after word, and fills the first head until it is full. That "
            "happens after four words.",
            "A",
        ),
        wrong(
            "every_third_column",
            "In memory, a word is in one piece",
            "Every third column would be the pattern (d h): the heads take turns. reshape takes the numbers one after "
            "the other, and the first nine of them are the whole first word.",
            "C",
        ),
        wrong(
            "expects_an_error",
            "12 · 9 = 3 · 12 · 3, and that is all reshape checks",
            "There is no error. reshape only counts the numbers, and does not know that an axis means words. That is "
            "what makes this mistake so common.",
            "D",
        ),
    ),
)


def _from_packed(weight: Tensor, packing: str, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    names = packing.replace("3", "three")
    w_q, w_k, w_v = rearrange(weight, f"{names} m -> three (h d) m", three=3, h=num_heads)
    return w_q, w_k, w_v


def _packed(draw: Draw, *, packing: str, h: int, d: int, d_model: int) -> tuple[Tensor, str, int]:
    return draw.normal(3 * h * d, d_model), packing, h


FROM_PACKED = CourseExercise(
    name="from_packed",
    lesson=LESSON,
    contract="one packed matrix (3·h·d, d_model), its packing such as '(h 3 d)' -> w_q, w_k, w_v, each (h·d, d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    reference=_from_packed,
    outputs=("w_q", "w_k", "w_v"),
    cases=(
        *usual_cases(
            _packed,
            {"packing": "(h d 3)", "h": 2, "d": 5, "d_model": 7},
            one={"packing": "(h 3 d)", "h": 5, "d": 2, "d_model": 11},
            more=[
                {"packing": "(d h 3)", "h": 7, "d": 2, "d_model": 3},
                {"packing": "(d 3 h)", "h": 2, "d": 7, "d_model": 5},
                {"packing": "(3 d h)", "h": 5, "d": 7, "d_model": 2},
            ],
        ),
        Case(name="packed (3 h d)", inputs=partial(_packed, packing="(3 h d)", h=2, d=9, d_model=12)),
        Case(name="packed (d 3 h)", inputs=partial(_packed, packing="(d 3 h)", h=5, d=9, d_model=7)),
        Case(name="packed (3 d h)", inputs=partial(_packed, packing="(3 d h)", h=2, d=5, d_model=3)),
        Case(name="one head of one number", inputs=partial(_packed, packing="(h 3 d)", h=1, d=1, d_model=1)),
    ),
    made_of=(Unpack, JoinHeads, Unpacked),
)


def _train_with_adam(model: nn.Module, words: Tensor, wanted: Tensor, position: int, lr: float) -> Tensor:
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for x, target in zip(words, wanted, strict=True):
        loss = nn.functional.mse_loss(model(x)[0][:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def _batches(
    draw: Draw, *, steps: int, b: int, n: int, h: int, d: int, position: int, lr: float = 0.05
) -> tuple[Any, ...]:
    """As wide as all heads together. What is wanted is larger in some batches, so that it shows what is remembered."""
    width = h * d
    matrices = [draw.normal(width, width, scale=1.2 * width**-0.5) for _ in range(4)]
    wanted = draw.normal(steps, b, width) * draw.normal(steps, 1, 1).exp()
    model = described("SmallHeads", (width, h), dict(zip(("w_q", "w_k", "w_v", "w_o"), matrices, strict=True)))
    return model, draw.normal(steps, b, n, width), wanted, position, lr


_IN_BATCHES: dict[str, Any] = {"steps": 7, "b": 3, "n": 5, "h": 2, "d": 3, "position": 2}

TRAIN_WITH_ADAM = CourseExercise(
    name="train_with_adam",
    lesson=LESSON,
    contract="model, words (steps, b, n, d_model), wanted (steps, b, d_model), position, lr -> losses (steps,); the "
    "model is trained by Adam",
    parts={"values": 3, "robustness": 1},
    stretch=True,
    reference=_train_with_adam,
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "With such scores every softmax is saturated, and nothing is trained.",
    },
    cases=(
        Case(name="seven steps", inputs=partial(_batches, **_IN_BATCHES)),
        Case(name="one step", inputs=partial(_batches, **{**_IN_BATCHES, "steps": 1})),
        Case(name="two steps", inputs=partial(_batches, **{**_IN_BATCHES, "steps": 2})),
        Case(
            name="the model after the last step",
            inputs=partial(_batches, **{**_IN_BATCHES, "steps": 2}),
            dtype=torch.float64,
            probe=trained,
        ),
        Case(name="one sentence in a batch", inputs=partial(_batches, **{**_IN_BATCHES, "b": 1})),
        Case(
            name="three heads, the last word asked",
            inputs=partial(_batches, steps=5, b=2, n=3, h=3, d=2, position=2, lr=0.01),
        ),
        Case(
            name="seven steps, in float64",
            inputs=partial(_batches, **_IN_BATCHES),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with another model",
            inputs=partial(_batches, **_IN_BATCHES),
            after=(partial(_batches, **_IN_BATCHES),),
        ),
        Case(name="other sizes", inputs=partial(_batches, steps=11, b=5, n=7, h=2, d=5, position=0), hidden=True),
        Case(
            name="other sizes, in float64",
            inputs=partial(_batches, steps=5, b=7, n=2, h=1, d=5, position=1, lr=0.1),
            dtype=torch.float64,
            part="robustness",
            hidden=True,
        ),
    ),
    made_of=(MeasureError, KeepMeans, CorrectMeans, Divide, Gather, TakeAdamSteps, GiveLosses),
    pairs=("gradients_pile_up", "not_corrected", "means_exchanged", "error_summed"),
)

EXERCISES = (
    STACK_HEAD_WEIGHTS,
    SPLIT_HEADS,
    PREDICT_RESHAPED_HEADS,
    MERGE_HEADS,
    PREDICT_HEAD_PARAMETERS,
    MULTI_HEAD_SELF_ATTENTION,
    TRAIN_WITH_ADAM,
    HEAD_CONTRIBUTIONS,
    MEND_MULTI_HEAD,
    FROM_PACKED,
)
