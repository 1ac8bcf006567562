"""Exercise `MultiHeadCrossAttention`: the module; its mistakes stand in files of their own."""

from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import slips_of_batches
from attnlib.checks.course.lesson_03.mistakes_around import layer_mistakes, projection_mistakes, result_mistakes
from attnlib.checks.course.lesson_03.mistakes_inside import axes_mistakes, dropout_mistakes, scores_mistakes
from attnlib.checks.course.lesson_03.two_mistakes import two_mistakes
from attnlib.checks.course.lesson_04.mistakes import CrossHeads, own_mistakes
from attnlib.checks.course.lesson_04.mistakes_of_roles import whose_is_whose
from attnlib.checks.course.usual import usual_cases, usual_misconceptions
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "04_cross_attention"


class MultiHeadCrossAttention(attnlib.MultiHeadAttention):
    """The contract's form: there is always a memory, and the weights are always returned."""

    def __init__(
        self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, d_memory=d_memory, bias=bias)

    def forward(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, memory, return_weights=True)
        return output, weights


def _texts(draw: Draw, b: int, q: int, k: int, d_model: int, d_memory: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d_model), draw.normal(b, k, d_memory)


def _inputs(draw: Draw, *, b: int, q: int, k: int, h: int, d: int, d_memory: int | None) -> tuple[tuple, tuple]:
    """The width of a head is d_model / num_heads; without a `d_memory`, the memory is as wide as x."""
    d_model = h * draw.d_head(d)
    d_memory = d_model if d_memory is None else d_memory
    return (d_model, d_memory, h), _texts(draw, b, q, k, d_model, d_memory)


def _free_width(
    draw: Draw, *, b: int, q: int, k: int, d_model: int, d_memory: int, h: int, d: int, bias: bool = True
) -> tuple[tuple, tuple]:
    """The width of a head is given, and h·d is not d_model."""
    return (d_model, d_memory, h, draw.d_head(d), bias), _texts(draw, b, q, k, d_model, d_memory)


def _indivisible(draw: Draw, *, d_model: int, h: int) -> tuple[tuple, tuple]:
    return (d_model, 13, h), _texts(draw, 2, 5, 3, d_model, 13)


MULTI_HEAD_CROSS_ATTENTION = Exercise(
    name="MultiHeadCrossAttention",
    lesson=LESSON,
    contract="MultiHeadCrossAttention(d_model, d_memory, num_heads, d_head=None, bias=True), "
    "forward: (b, q, d_model), (b, k, d_memory) -> output (b, q, d_model), weights (b, h, q, k)",
    parts={"values": 3, "options": 1, "error": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=MultiHeadCrossAttention,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "q": 7, "k": 11, "h": 3, "d": 5, "d_memory": 13},
            one={"b": 1, "q": 5, "k": 3, "h": 2, "d": 7, "d_memory": 11},
            more=[
                {"b": 3, "q": 2, "k": 7, "h": 5, "d": 3, "d_memory": 11},
                {"b": 5, "q": 3, "k": 1, "h": 2, "d": 2, "d_memory": 7},
                {"b": 2, "q": 1, "k": 5, "h": 1, "d": 3, "d_memory": 2},
            ],
        ),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(
            name="two texts of one length and width",
            inputs=partial(_inputs, b=2, q=5, k=5, h=3, d=7, d_memory=None),
        ),
        Case(
            name="a memory of another width that could be shared out, too",
            inputs=partial(_inputs, b=2, q=3, k=5, h=3, d=5, d_memory=12),
        ),
        Case(
            name="d_head is given",
            inputs=partial(_free_width, b=2, q=5, k=3, d_model=11, d_memory=13, h=3, d=7),
            part="options",
        ),
        Case(
            name="d_head is given, where num_heads divides d_model",
            inputs=partial(_free_width, b=2, q=5, k=3, d_model=12, d_memory=13, h=3, d=7),
            part="options",
        ),
        Case(
            name="no bias",
            inputs=partial(_free_width, b=3, q=5, k=7, d_model=13, d_memory=11, h=2, d=3, bias=False),
            part="options",
        ),
        Case(
            name="3 heads and a d_model of 14",
            inputs=partial(_indivisible, d_model=14, h=3),
            part="error",
            raises=True,
        ),
        Case(
            name="2 heads and a d_model of 7",
            inputs=partial(_indivisible, d_model=7, h=2),
            part="error",
            raises=True,
            hidden=True,
        ),
        Case(
            name="d_head is given, gradients",
            inputs=partial(_free_width, b=2, q=3, k=5, d_model=7, d_memory=11, h=5, d=2),
            part="options",
            dtype=torch.float64,
            gradient=True,
            hidden=True,
        ),
    ),
    misconceptions=(
        *whose_is_whose(),
        *own_mistakes(),
        *scores_mistakes(CrossHeads),
        *axes_mistakes(CrossHeads),
        *projection_mistakes(CrossHeads),
        *result_mistakes(CrossHeads, "q, k"),
        *layer_mistakes(CrossHeads),
        *dropout_mistakes(CrossHeads),
        *two_mistakes(CrossHeads),
        *slips_of_batches(CrossHeads),
        *usual_misconceptions(CrossHeads),
    ),
)
