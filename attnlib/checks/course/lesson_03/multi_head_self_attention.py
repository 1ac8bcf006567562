"""Exercise `MultiHeadSelfAttention`: the module; its mistakes stand in files of their own."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import slips_of_batches
from attnlib.checks.course.lesson_03.heads import SelfHeads, but, causal
from attnlib.checks.course.lesson_03.mistakes_around import layer_mistakes, projection_mistakes, result_mistakes
from attnlib.checks.course.lesson_03.mistakes_inside import axes_mistakes, dropout_mistakes, scores_mistakes
from attnlib.checks.course.lesson_03.two_mistakes import two_mistakes
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise, Inputs

LESSON = "03_multi_head_attention"


class MultiHeadSelfAttention(attnlib.MultiHeadAttention):
    """The contract's form: the weights are always returned, and there is no memory."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, bias=bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _inputs(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[tuple, tuple[Tensor]]:
    """The width of a head is d_model / num_heads."""
    d_model = h * draw.d_head(d)
    return (d_model, h), (draw.normal(b, n, d_model),)


def _without_bias(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[tuple, tuple[Tensor]]:
    d_model = h * draw.d_head(d)
    return (d_model, h, None, False), (draw.normal(b, n, d_model),)


def _free_width(draw: Draw, *, b: int, n: int, d_model: int, h: int, d: int, bias: bool = True) -> tuple[tuple, tuple]:
    """The width of a head is given, and h·d is not d_model."""
    return (d_model, h, draw.d_head(d), bias), (draw.normal(b, n, d_model),)


def _indivisible(draw: Draw, *, b: int, n: int, d_model: int, h: int) -> tuple[tuple, tuple[Tensor]]:
    return (d_model, h), (draw.normal(b, n, d_model),)


def _only_built(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Never calls the module: what it refuses is refused by the constructor."""
    return inputs[0], inputs[0]


def _any_width(self: Any, d_model: int, num_heads: int, d_head: int | None) -> int:
    self.fits = d_head is not None or d_model % num_heads == 0
    return d_head or d_model // num_heads


def _refused_late(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    if not self.fits:
        raise ValueError("num_heads does not divide d_model")
    return SelfHeads.attend(self, x, memory)


def _without_itself(self: Any, scores: Tensor, allowed: Tensor | None) -> Tensor:
    itself = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    return scores.masked_fill(itself, -torch.inf).softmax(dim=-1)


def _chained(self: Any, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q = self.w_q(x)
    return q, self.w_k(q), self.w_v(q)


MULTI_HEAD_SELF_ATTENTION = Exercise(
    name="MultiHeadSelfAttention",
    lesson=LESSON,
    contract="MultiHeadSelfAttention(d_model, num_heads, d_head=None, bias=True), "
    "forward: (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 4, "options": 1, "error": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=MultiHeadSelfAttention,
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
            inputs=partial(_indivisible, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
        ),
        Case(
            name="3 heads and a d_model of 14, nothing but the constructor",
            inputs=partial(_indivisible, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
            probe=_only_built,
        ),
        Case(
            name="2 heads and a d_model of 7",
            inputs=partial(_indivisible, b=2, n=3, d_model=7, h=2),
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
    misconceptions=(
        *scores_mistakes(SelfHeads),
        wrong(
            "scaled_by_root_n",
            "Scaled by the number of words",
            "The scale depends on how wide a head's queries are, d, not on how many words there are.",
            but(SelfHeads, scale=lambda self, x, memory: x.shape[-2] ** -0.5),
        ),
        wrong(
            "causal",
            "Words see only what stands before them",
            "A causal mask belongs to networks that guess the next word (lesson 05). Here every word looks at the "
            "whole sentence, its end included.",
            but(SelfHeads, share=causal),
        ),
        wrong(
            "itself_blocked",
            "A word may not look at itself",
            "The diagonal of the scores is blocked. Nothing here forbids a word its own position: every word meets "
            "every word, itself included.",
            but(SelfHeads, share=_without_itself),
        ),
        wrong(
            "overwritten_by_queries",
            "Keys and values are computed from the queries",
            "k and v were computed from q: was x overwritten by the queries? All three are projections of the same x.",
            but(SelfHeads, project=_chained),
        ),
        wrong(
            "input_detached",
            "x is cut from the gradient",
            "The numbers are right, and the layers can learn. But what made x cannot: no gradient reaches it. Do not "
            "detach what you are given.",
            but(SelfHeads, project=lambda self, x, memory: SelfHeads.project(self, x.detach(), memory.detach())),
        ),
        wrong(
            "refused_too_late",
            "The error comes only when the module is called",
            "A module that cannot work should not be made: raise the ValueError in `__init__`, not in `forward`.",
            but(SelfHeads, width_of_a_head=_any_width, attend=_refused_late),
        ),
        *axes_mistakes(SelfHeads),
        *projection_mistakes(SelfHeads),
        *result_mistakes(SelfHeads, "n, n"),
        *layer_mistakes(SelfHeads),
        *dropout_mistakes(SelfHeads),
        *two_mistakes(SelfHeads),
        *slips_of_batches(SelfHeads),
        *usual_misconceptions(SelfHeads),
    ),
)
