"""The exercise `mend_self_attention` of lesson 02."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.usual import wrong
from attnlib.checks.watch import ATTENTION


def _attend_with(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, *, factor: str = "1/√d_k", axis: int = -1
) -> tuple[Tensor, Tensor]:
    """Self-attention with given matrices, and every wrong way of scaling and of sharing out that the lesson knows."""
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    factors = {
        "1/√d_k": k.shape[-1] ** -0.5,
        "1/√d_model": x.shape[-1] ** -0.5,
        "1/√d_v": v.shape[-1] ** -0.5,
        "1/√n": x.shape[-2] ** -0.5,
        "1/d_k": 1 / k.shape[-1],
        "√d_k": k.shape[-1] ** 0.5,
        "1": 1.0,
    }
    weights = torch.softmax(q @ k.transpose(-2, -1) * factors[factor], dim=axis)
    return weights @ v, weights


def _sentences(b: int, n: int, d_model: int, d_k: int, d_v: int) -> Callable[[Draw], tuple[Tensor, ...]]:
    """Words and matrices for `mend_self_attention`, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor, ...]:
        width, grow = draw.d_head(d_k), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, d, scale=grow) for d in (width, width, d_v)]
        return (draw.normal(b, n, d_model), *projections)

    return inputs


MEND_SELF_ATTENTION = Exercise(
    name="mend_self_attention",
    lesson="02_scaled_dot_product_attention",
    contract="(b,n,d_model), (d_model,d_k), (d_model,d_k), (d_model,d_v) → output (b,n,d_v), weights (b,n,n)",
    parts={"values": 2},
    reference=_attend_with,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=ATTENTION,
    cases=(
        Case(name="a batch of sentences", inputs=_sentences(2, 5, 13, 3, 7)),
        Case(name="more words than features", inputs=_sentences(3, 11, 7, 5, 2), gradient=True),
        Case(name="float64", inputs=_sentences(2, 7, 5, 3, 11), dtype=torch.float64, gradient=True),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 7, 11), hidden=True),
        Case(name="d_k larger than d_model", inputs=_sentences(5, 3, 7, 13, 2), hidden=True),
    ),
    misconceptions=(
        wrong(
            "both_faults_left",
            "Both faults are still there",
            "The function computes what it computed before you touched it. Start with weights.sum(dim=-1): each query "
            "has to share out exactly 1 among the keys. Then count the terms of the dot product that is scaled.",
            partial(_attend_with, factor="1/√d_model", axis=-2),
        ),
        wrong(
            "scaled_by_d_model",
            "Scaled by the width of the words, not of the queries",
            "The weights are shared out along the right axis now. The scores are still divided by √d_model, but q · k "
            "has d_k terms, so its variance is d_k. The two only agree where d_model happens to equal d_k.",
            partial(_attend_with, factor="1/√d_model"),
        ),
        wrong(
            "shared_among_queries",
            "Each key is shared out among the queries",
            "The scale is right now. But axis 1 of (b, q, k) holds the queries, so each *column* adds up to 1. A "
            "query's output is then no average of the values: one query may get almost nothing, and another more than "
            "everything.",
            partial(_attend_with, axis=-2),
        ),
        wrong(
            "shared_among_sentences",
            "Softmax over the batch",
            "Axis 0 holds the sentences of the batch. With softmax over it, what one sentence looks at depends on "
            "which other sentences came along. The weights have to add up to 1 over the keys, the last axis.",
            partial(_attend_with, axis=0),
        ),
        wrong(
            "scale_dropped",
            "The scale is gone",
            "The axis is right, but the scores are no longer scaled. The standard deviation of q · k grows with √d_k; "
            "without the division the softmax hardens as the vectors get wider.",
            partial(_attend_with, factor="1"),
        ),
        wrong(
            "scaled_by_d",
            "Divided by d_k instead of its root",
            "You took the right size, but d_k is the *variance* of the dot product. Dividing by it makes the scores "
            "shrink as the vectors get wider, and all weights become alike. Divide by the standard deviation, √d_k.",
            partial(_attend_with, factor="1/d_k"),
        ),
        wrong(
            "scale_upside_down",
            "Multiplied by √d_k",
            "The size and the root are right, but the scores are multiplied where they should be divided. Mind the "
            "sign of the exponent: d ** -0.5 is 1/√d.",
            partial(_attend_with, factor="√d_k"),
        ),
        wrong(
            "scaled_by_d_v",
            "Scaled by the width of the values",
            "The scores come from queries and keys alone, and the values have no part in them. Their width d_v may be "
            "anything; the number of terms in q · k is d_k.",
            partial(_attend_with, factor="1/√d_v"),
        ),
        wrong(
            "scaled_by_length",
            "Scaled by the number of words",
            "A dot product is a sum over the entries of one query, not over the words. Its spread does not depend on "
            "how long the sentence is. In (b, n, d_k), d_k is the last axis, n the one before it.",
            partial(_attend_with, factor="1/√n"),
        ),
    ),
)
