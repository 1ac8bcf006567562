"""The exercise `mend_self_attention` of lesson 02."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import slips
from attnlib.checks.course.lesson_02.attention_scores import causal, scaled
from attnlib.checks.course.usual import as_given, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


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
        "1/√b": x.shape[0] ** -0.5,
        "1/√4": 4**-0.5,
        "1/√8": 8**-0.5,
        "1/8": 1 / 8,
        "1/√d_k·1/√d_model": (k.shape[-1] * x.shape[-1]) ** -0.5,
        "1/d_model": 1 / x.shape[-1],
        "√d_model": x.shape[-1] ** 0.5,
        "1/d_k": 1 / k.shape[-1],
        "√d_k": k.shape[-1] ** 0.5,
        "1": 1.0,
    }
    weights = torch.softmax(q @ k.transpose(-2, -1) * factors[factor], dim=axis)
    return weights @ v, weights


def _around(change: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """The mended function around another middle: `change(q, k, v)` in place of attention."""
    return lambda x, w_q, w_k, w_v: change(x @ w_q, x @ w_k, x @ w_v)


def _attend(scores: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def _over_everything(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = scaled(q, k)
    weights = scores.flatten(1).softmax(dim=-1).reshape(scores.shape)
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
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="a batch of sentences", inputs=_sentences(2, 5, 13, 3, 7), mutation=True),
        Case(name="more words than features", inputs=_sentences(3, 11, 7, 5, 2), gradient=True),
        Case(name="float64", inputs=_sentences(2, 7, 5, 3, 11), dtype=torch.float64, gradient=True),
        Case(name="all axes of one length", inputs=_sentences(3, 3, 3, 3, 3)),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 7, 11)),
        Case(name="d_k larger than d_model", inputs=_sentences(5, 3, 7, 13, 2), hidden=True),
    ),
    misconceptions=(
        as_given(partial(_attend_with, factor="1/√d_model", axis=-2)),
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
        wrong(
            "scaled_by_batch",
            "Scaled by the number of sentences",
            "Axis 0 is the batch. A dot product is a sum over the entries of one query: d_k, the last axis of k.",
            partial(_attend_with, factor="1/√b"),
        ),
        wrong(
            "scaled_by_d_model_itself",
            "Divided by d_model",
            "The axis is right. The scores have to be divided by the standard deviation of q · k, and that is √d_k.",
            partial(_attend_with, factor="1/d_model"),
        ),
        wrong(
            "multiplied_by_root_d_model",
            "Multiplied by √d_model",
            "The scores are multiplied where they should be divided, and by the width of the words: 1/√d_k is wanted.",
            partial(_attend_with, factor="√d_model"),
        ),
        wrong(
            "scaled_twice",
            "Scaled by √d_model as well",
            "The scores are divided by √d_k now, but the old √d_model is still there. The first is enough.",
            partial(_attend_with, factor="1/√d_k·1/√d_model"),
        ),
        *(
            wrong(
                f"fixed_scale_{name}",
                "The scale is a fixed number",
                "The scores are divided by the same number, however wide the queries are. Take the width from the "
                "tensor: k.shape[-1] ** -0.5.",
                partial(_attend_with, factor=factor),
            )
            for name, factor in (("of_root_4", "1/√4"), ("of_root_8", "1/√8"), ("of_8", "1/8"))
        ),
        *(
            wrong(
                f"{where}_{how}",
                f"{title}, and {also}",
                "Two mistakes are left. The weights have to add up to 1 along the last axis, the keys: dim=-1. And the "
                "scores are divided by √d_k, the root of the number of terms in q · k.",
                partial(_attend_with, factor=factor, axis=axis),
            )
            for where, title, axis in (
                ("queries", "Each key is shared out among the queries", -2),
                ("sentences", "Softmax over the batch", 0),
            )
            for how, also, factor in (
                ("unscaled", "the scale is gone", "1"),
                ("by_d", "divided by d_k instead of its root", "1/d_k"),
                ("by_d_v", "scaled by the width of the values", "1/√d_v"),
                ("by_length", "scaled by the number of words", "1/√n"),
                ("by_d_model", "scaled by the width of the words", "1/√d_model"),
            )
            if (where, how) != ("queries", "by_d_model")  # that is how it was
        ),
        wrong(
            "over_everything",
            "One softmax for the whole table",
            "All weights of a sentence together add up to 1. Each query has to share out exactly 1 among the keys.",
            _around(_over_everything),
        ),
        wrong(
            "divided_afterwards",
            "Each key is shared out among the queries",
            "The rows add up to 1 only because they are divided by their sum afterwards. The softmax still runs over "
            "the queries: let it run over the last axis, and nothing has to be repaired.",
            _around(
                lambda q, k, v: (
                    (w := (s := scaled(q, k).softmax(dim=-2)) / s.sum(dim=-1, keepdim=True)) @ v,
                    w,
                )
            ),
        ),
        *(
            wrong(
                f"softmax_twice_{name}",
                "The softmax is taken twice",
                "The softmax of weights between 0 and 1 is nearly the same for all keys. Take it once, of the scores, "
                "over the last axis.",
                _around(lambda q, k, v, axis=axis: _attend(scaled(q, k).softmax(dim=axis), v)),
            )
            for name, axis in (("over_keys", -1), ("over_both", -2))
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "The queries are compared with the values, and the keys are averaged. They were right: change the scale "
            "and the axis alone.",
            _around(lambda q, k, v: _attend(scaled(q, v), k)),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k, and the values are never used. It was right: weights @ v.",
            _around(lambda q, k, v: ((w := scaled(q, k).softmax(dim=-1)) @ k, w)),
        ),
        wrong(
            "causal",
            "Later words are hidden",
            "A causal mask comes in lesson 05. Here every word meets every word.",
            _around(lambda q, k, v: _attend(causal(scaled(q, k)), v)),
        ),
        wrong(
            "values_to_keys",
            "Each key is shared out among the queries",
            "Transposing the weights before they meet the values does not mend the softmax: it still runs over the "
            "queries. The axis to share out is the last one.",
            _around(lambda q, k, v: ((w := scaled(q, k).softmax(dim=-2)).mT @ v, w)),
        ),
        wrong(
            "exchanged",
            "Queries and keys are exchanged",
            "Softmax over axis 1, and then a transpose: each row adds up to 1 now, but it is the row of a key. Leave q "
            "and k where they were, and change the axis of the softmax.",
            _around(lambda q, k, v: _attend(scaled(k, q), v)),
        ),
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "The transpose was right. `reshape` (or `view`) keeps the numbers in their order in memory, so that the "
            "columns are no longer the keys.",
            _around(lambda q, k, v: _attend(q @ k.reshape(k.shape[0], k.shape[2], -1) / k.shape[-1] ** 0.5, v)),
        ),
        wrong(
            "all_axes_reversed",
            "`.T` on a tensor with a batch",
            "The transpose was right. `.T` reverses *all* axes, the batch among them.",
            _around(lambda q, k, v: _attend(q @ k.permute(2, 1, 0) / k.shape[-1] ** 0.5, v)),
        ),
        wrong(
            "not_transposed",
            "The transpose is missing",
            "It was right: the keys are the rows of k, and have to become columns for the product.",
            _around(lambda q, k, v: _attend(q @ k / k.shape[-1] ** 0.5, v)),
        ),
        wrong(
            "scale_after_softmax",
            "Scaled after the softmax",
            "The weights are divided by √d_k, so that a row adds up to 1/√d_k. The scale belongs to the scores, before "
            "the softmax.",
            _around(lambda q, k, v: ((w := (q @ k.mT).softmax(dim=-1) / k.shape[-1] ** 0.5) @ v, w)),
        ),
        wrong(
            "no_softmax",
            "The softmax is gone",
            "The values are added up with the raw scores as weights: some are negative, and no row adds up to 1.",
            _around(lambda q, k, v: (scaled(q, k) @ v, scaled(q, k))),
        ),
        wrong(
            "returns_scores",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            _around(lambda q, k, v: (_attend(scaled(q, k), v)[0], scaled(q, k))),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            _around(lambda q, k, v: _attend(scaled(q, k), v)[::-1]),
        ),
        wrong(
            "weights_transposed",
            "The weights are transposed before they meet the values",
            "Axis and scale are right now. weights @ v adds up over the keys; transposed, it adds up over the queries.",
            _around(lambda q, k, v: ((w := scaled(q, k).softmax(dim=-1)).mT @ v, w)),
        ),
        wrong(
            "detached",
            "The gradient is cut off",
            "`.detach()`, `.data`, `torch.no_grad()` or `torch.tensor(...)` around a result copies the numbers and "
            "forgets how they came about. Nothing before that point could learn.",
            _around(lambda q, k, v: tuple(t.detach() for t in _attend(scaled(q, k), v))),
        ),
        *slips(_attend_with, outputs=2),
    ),
)
