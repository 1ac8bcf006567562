"""The exercise `mend_self_attention` of lesson 02."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import LEADING_AXES, Compare, Give, Mix, Scale, Share
from attnlib.checks.course.slips.projections import Matrices, Multiply, OfItself, Project
from attnlib.checks.course.steps import CourseExercise, spells
from attnlib.checks.course.usual import as_given
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def _attend(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5, dim=-1)
    return weights @ v, weights


def _given(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(q @ k.transpose(-2, -1) * x.shape[-1] ** -0.5, dim=-2)
    return weights @ v, weights


def _sentences(b: int, n: int, d_model: int, d_k: int, d_v: int) -> Callable[[Draw], tuple[Tensor, ...]]:
    """Words and matrices for `mend_self_attention`, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor, ...]:
        width, grow = draw.d_head(d_k), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, d, scale=grow) for d in (width, width, d_v)]
        return (draw.normal(b, n, d_model), *projections)

    return inputs


class MendedScale(Scale):
    """The given code takes the width of the words for that of the queries."""

    @spells(Scale.scaled_by_root_d_model)
    def scaled_by_d_model(self, products: Tensor, x: Tensor) -> Tensor:
        return products / x.shape[-1]

    @spells(Scale.scaled_by_root_d_model)
    def multiplied_by_root_d_model(self, products: Tensor, x: Tensor) -> Tensor:
        return products * math.sqrt(x.shape[-1])

    @spells(Scale.fixed_scale)
    def divided_by_8(self, products: Tensor) -> Tensor:
        return products / 8


class MendedShare(Share):
    """The given code has its softmax over the queries."""

    def divided_afterwards(self, scores: Tensor) -> Tensor:
        """Each key is shared out among the queries.

        The rows add up to 1 only because they are divided by their sum afterwards. The softmax still runs over the
        queries: let it run over the last axis, and nothing has to be repaired.
        """
        shared = scores.softmax(dim=-2)
        return shared / shared.sum(dim=-1, keepdim=True)

    @spells(Share.softmax_twice)
    def softmax_twice_over_both(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-2).softmax(dim=-1)


MEND_SELF_ATTENTION = CourseExercise(
    name="mend_self_attention",
    lesson="02_scaled_dot_product_attention",
    contract="(b,n,d_model), (d_model,d_k), (d_model,d_k), (d_model,d_v) → output (b,n,d_v), weights (b,n,n)",
    parts={"values": 2},
    reference=_attend,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="a batch of sentences", inputs=_sentences(2, 5, 13, 3, 7), mutation=True),
        Case(name="more words than features", inputs=_sentences(3, 11, 7, 5, 2), gradient=True),
        Case(name="float64", inputs=_sentences(2, 7, 5, 3, 11), dtype=torch.float64, gradient=True),
        Case(name="all axes of one length", inputs=_sentences(3, 3, 3, 3, 3)),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 7, 11)),
        Case(name="every width is 1", inputs=_sentences(2, 5, 1, 1, 1)),
        Case(name="d_k larger than d_model", inputs=_sentences(5, 3, 7, 13, 2), hidden=True),
    ),
    made_of=(Multiply, Matrices, OfItself, Project, Compare, MendedScale, MendedShare, Mix, Give),
    pairs=(
        "no_scale",
        "scaled_by_d",
        "scaled_by_root_d_v",
        "scaled_by_root_k",
        "scaled_by_root_d_model",
        "over_queries",
        "over_first_axis",
        "weights_transposed",
    ),
    without=(
        *LEADING_AXES,
        "scaled_by_root_d_model_and_over_queries",  # that is how the code is given
        "over_heads",
        "scaled_by_root_q",
        "one_length_only",
    ),
    own=(as_given(_given),),
)
