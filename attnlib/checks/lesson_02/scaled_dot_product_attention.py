"""The exercise `scaled_dot_product_attention` of lesson 02."""

import math
from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise, Misconception
from attnlib.checks.lesson_02.attention_scores import scaled
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.watch import ATTENTION


def _qkv(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    d_k = draw.d_head(d_k)
    return draw.normal(*lead, q, d_k), draw.normal(*lead, k, d_k), draw.normal(*lead, k, d_v)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The contract's form: the weights are always returned."""
    output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    return output, weights


def weighted(weights: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ v, weights


def _with_scale(scale):
    return lambda q, k, v: weighted((q @ k.mT * scale(q, k, v)).softmax(dim=-1), v)


def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return weighted(scaled(q, k).softmax(dim=-1), v)


def _small_attention() -> tuple[Tensor, Tensor, Tensor]:
    root = 2**0.5
    q = torch.tensor([[math.log(2) * root, 0.0], [0.0, math.log(3) * root], [0.0, 0.0]])
    return q, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([[4.0], [8.0], [0.0]])


def _one_length_only(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    n = q.shape[-2]
    return weighted(scaled(q, k).reshape(*q.shape[:-1], n).softmax(dim=-1), v)


def _one_width_only(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attend(q, k, v)
    return output.reshape(q.shape), weights


def _mistakes_of_the_function() -> tuple[Misconception, ...]:
    """Mistakes that a module cannot make: lengths, widths or the number of axes differ, or a result is left out."""
    return (
        wrong(
            "one_length_only",
            "It works only for as many keys as queries",
            "Somewhere the number of queries stands in for the number of keys: (…, q, q) instead of (…, q, k). In "
            "self-attention they are equal; in cross-attention, and with a cache, they are not. Take it from k.shape.",
            _one_length_only,
        ),
        wrong(
            "one_width_only",
            "It works only for values as wide as the keys",
            "The output is given the shape of q. Its width is that of the values, d_v, and that need not be d_k.",
            _one_width_only,
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "The queries are compared with the values, and the keys are averaged. A key is what is matched, a value "
            "what is brought back: softmax(q kᵀ / √d_k) v.",
            lambda q, k, v: attend(q, v, k),
        ),
        wrong(
            "output_alone",
            "The weights are not returned",
            "Two results are asked for, the output and the weights: return output, weights.",
            lambda q, k, v: attention(q, k, v)[0],
        ),
        wrong(
            "over_axis_one",
            "The softmax runs over axis 1",
            "Axis 1 counts the queries of (b, q, k), and the heads of (b, h, q, k). Each query shares its attention "
            "among the keys, which stand last however many axes come before: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=1 if q.dim() > 2 else -1), v),
        ),
    )


def attention_misconceptions():
    """The mistakes that are made in attention itself, whatever the exercise around it."""
    return (
        wrong(
            "no_scale",
            "The scale is missing",
            "The scores go into the softmax without being divided by √d_k. A sum of d_k products grows with √d_k, so "
            "the softmax gives nearly everything to one key: the rows of your weights are too sharp.",
            _with_scale(lambda q, k, v: 1.0),
        ),
        wrong(
            "scaled_by_d",
            "Divided by d_k instead of √d_k",
            "The standard deviation of a dot product grows with √d_k. Dividing by d_k makes the scores too small, and "
            "the weights too even.",
            _with_scale(lambda q, k, v: 1 / q.shape[-1]),
        ),
        wrong(
            "scaled_by_root_d_v",
            "Scaled by the width of the values",
            "The scale is there because of the length of the sum in q · k, and that is d_k. The values take no part "
            "in it; here they have another width.",
            _with_scale(lambda q, k, v: v.shape[-1] ** -0.5),
        ),
        wrong(
            "scaled_by_root_k",
            "Scaled by the number of keys",
            "The scale depends on the width of the vectors, q.shape[-1], not on how many keys there are (k.shape[-2]).",
            _with_scale(lambda q, k, v: k.shape[-2] ** -0.5),
        ),
        wrong(
            "multiplied_by_root_d",
            "Multiplied by √d_k instead of divided",
            "The scores have become larger where they should become smaller. The scale is 1/√d_k.",
            _with_scale(lambda q, k, v: q.shape[-1] ** 0.5),
        ),
        wrong(
            "scale_after_softmax",
            "Scaled after the softmax",
            "The weights are divided by √d_k, so that a row adds up to 1/√d_k. The scale belongs to the scores, "
            "before the softmax.",
            lambda q, k, v: weighted((q @ k.mT).softmax(dim=-1) / q.shape[-1] ** 0.5, v),
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "Your columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=-2), v),
        ),
        wrong(
            "over_first_axis",
            "The softmax runs over the batch (or the heads)",
            "The numbers add up to 1 over the first axis. Entries of a batch, and heads, have nothing to do with one "
            "another: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=0 if q.dim() > 2 else -1), v),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the axis before the queries",
            "The numbers add up to 1 over the heads. Each head attends for itself: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=-3 if q.dim() > 2 else -1), v),
        ),
        wrong(
            "no_softmax",
            "The softmax is missing",
            "The values are added up with the raw scores as weights: some are negative, and a row does not add up to "
            "1.",
            lambda q, k, v: weighted(scaled(q, k), v),
        ),
        wrong(
            "returns_scores",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            lambda q, k, v: (scaled(q, k).softmax(dim=-1) @ v, scaled(q, k)),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            lambda q, k, v: (scaled(q, k).softmax(dim=-1), scaled(q, k).softmax(dim=-1) @ v),
        ),
        wrong(
            "keys_reshaped",
            "reshape where a transpose was needed",
            "`reshape` (or `view`) keeps the numbers in their order in memory, so that the columns are no longer the "
            "keys. To exchange the last two axes, use `.mT` or `transpose(-2, -1)`.",
            lambda q, k, v: weighted(
                (q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / q.shape[-1] ** 0.5).softmax(dim=-1), v
            ),
        ),
        wrong(
            "all_axes_reversed",
            "`.T` on a tensor with a batch",
            "`.T` reverses *all* axes, the batch among them. `.mT` or `transpose(-2, -1)` exchanges the last two only.",
            lambda q, k, v: weighted(
                (q @ k.permute(*range(k.dim() - 1, -1, -1)) / q.shape[-1] ** 0.5).softmax(dim=-1), v
            ),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k: the values are never used. A key is what is matched, a value what is brought "
            "back.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=-1), k),
        ),
        wrong(
            "three_axes_only",
            "It works for three axes only",
            "torch.bmm, and einsum with its letters spelled out, want exactly (b, n, d). `@` and einsum with `...` "
            "take any leading axes: heads will need a fourth.",
            lambda q, k, v: weighted((torch.bmm(q, k.mT) / q.shape[-1] ** 0.5).softmax(dim=-1), v),
        ),
    )


SCALED_DOT_PRODUCT_ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    lesson="02_scaled_dot_product_attention",
    contract="(…, q, d_k), (…, k, d_k), (…, k, d_v) -> output (…, q, d_v), weights (…, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=attention,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=ATTENTION,
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
    ),
    example=_small_attention,
    misconceptions=(
        *attention_misconceptions(),
        *_mistakes_of_the_function(),
        *usual_misconceptions(attend, example=_small_attention),
    ),
)
