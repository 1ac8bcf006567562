"""The exercise `scaled_dot_product_attention` of lesson 02."""

import math
from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import Compare, Give, Mix, Scale, Share
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def _qkv(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    d_k = draw.d_head(d_k)
    return draw.normal(*lead, q, d_k), draw.normal(*lead, k, d_k), draw.normal(*lead, k, d_v)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The contract's form: the weights are always returned."""
    output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    return output, weights


def _small_attention() -> tuple[Tensor, Tensor, Tensor]:
    root = 2**0.5
    q = torch.tensor([[math.log(2) * root, 0.0], [0.0, math.log(3) * root], [0.0, 0.0]])
    return q, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([[4.0], [8.0], [0.0]])


SCALED_DOT_PRODUCT_ATTENTION = CourseExercise(
    name="scaled_dot_product_attention",
    lesson="02_scaled_dot_product_attention",
    contract="(…, q, d_k), (…, k, d_k), (…, k, d_v) -> output (…, q, d_v), weights (…, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=attention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _qkv,
            {"lead": (2, 3), "q": 5, "k": 7, "d_k": 11, "d_v": 13},
            one={"lead": (1,), "q": 3, "k": 2, "d_k": 5, "d_v": 7},
            more=[
                {"lead": (3,), "q": 5, "k": 11, "d_k": 7, "d_v": 2},
                {"lead": (), "q": 13, "k": 3, "d_k": 11, "d_v": 5},
                {"lead": (3,), "q": 7, "k": 7, "d_k": 7, "d_v": 7},
                {"lead": (2, 1, 3), "q": 1, "k": 5, "d_k": 2, "d_v": 3},
            ],
        ),
        # where lengths or widths agree, more mistakes run, and the numbers tell which one it is
        Case(name="as many keys as queries", inputs=partial(_qkv, lead=(2,), q=5, k=5, d_k=7, d_v=3)),
        Case(name="values as wide as keys", inputs=partial(_qkv, lead=(2,), q=5, k=3, d_k=7, d_v=7)),
        Case(name="no leading axis", inputs=partial(_qkv, lead=(), q=7, k=5, d_k=3, d_v=2)),
        Case(name="all axes of one length", inputs=partial(_qkv, lead=(3,), q=3, k=3, d_k=3, d_v=3)),
        Case(name="every width is 1", inputs=partial(_qkv, lead=(2,), q=5, k=7, d_k=1, d_v=1)),
    ),
    example=_small_attention,
    made_of=(Compare, Scale, Share, Mix, Give),
    pairs=(
        "no_scale",
        "scaled_by_d",
        "multiplied_by_root_d",
        "scaled_by_root_d_v",
        "scaled_by_root_k",
        "over_queries",
        "over_first_axis",
        "over_axis_one",
        "no_softmax",
        "weights_transposed",
        "order_returned",
    ),
)
