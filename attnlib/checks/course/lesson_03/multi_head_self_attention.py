"""Exercise `MultiHeadSelfAttention`: the module; its mistakes stand in files of their own."""

from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import LEADING_AXES, Compare, Mix
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
from attnlib.checks.course.slips.projections import OfItself
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

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


MULTI_HEAD_SELF_ATTENTION = CourseExercise(
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
        "residual_added",
    ),
    without=(
        *LEADING_AXES,
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "one_length_only",
        "one_width_only",
        "values_first",
        "error_in_forward",
        "one_tensor",
    ),
)
