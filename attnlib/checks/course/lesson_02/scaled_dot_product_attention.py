"""The exercise `scaled_dot_product_attention` of lesson 02."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.handling import dropout_left_on, fixed_scales
from attnlib.checks.course.lesson_02.attention_scores import scaled
from attnlib.checks.course.slips.attention import Compare, Give, Mix, Scale, Share
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Misconception


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


def _causal(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = scaled(q, k)
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return weighted(scores.masked_fill(later, -torch.inf).softmax(dim=-1), v)


def more_attention_misconceptions() -> tuple[Misconception, ...]:
    """Rarer mistakes in attention, and two at once."""
    return (
        wrong(
            "scaled_by_root_q",
            "Scaled by the number of queries",
            "The scale depends on the width of the vectors, q.shape[-1], not on how many queries there are "
            "(q.shape[-2]).",
            _with_scale(lambda q, k, v: q.shape[-2] ** -0.5),
        ),
        wrong(
            "scaled_by_axis_zero",
            "Scaled by the first axis",
            "len(q), or q.shape[0], is the batch. The scale depends on the width of the vectors, q.shape[-1].",
            _with_scale(lambda q, k, v: q.shape[0] ** -0.5),
        ),
        wrong(
            "divided_by_half_d",
            "Divided by d_k / 2 instead of √d_k",
            "`d ** 1/2` is (d ** 1) / 2 in Python, because powers come before division. Write d ** 0.5.",
            _with_scale(lambda q, k, v: 2 / q.shape[-1]),
        ),
        *fixed_scales(lambda factor: _with_scale(lambda q, k, v: factor)),
        wrong(
            "scale_on_output",
            "The output is scaled, not the scores",
            "The output is divided by √d_k, and the weights are as sharp as without a scale. It belongs to the scores, "
            "before the softmax.",
            lambda q, k, v: ((w := (q @ k.mT).softmax(dim=-1)) @ v / q.shape[-1] ** 0.5, w),
        ),
        wrong(
            "scores_mixed",
            "The scores mix the values, not the weights",
            "The weights are right, and are not used: the output is scores @ v, without the softmax. It is the weights "
            "that add up to 1: weights @ v.",
            lambda q, k, v: (scaled(q, k) @ v, attend(q, k, v)[1]),
        ),
        wrong(
            "scaled_by_fourth_root",
            "Divided by the fourth root of d_k",
            "If only one of q and k is divided by d ** 0.25, half of the scale is missing: divide both, or the product "
            "by d ** 0.5.",
            _with_scale(lambda q, k, v: q.shape[-1] ** -0.25),
        ),
        wrong(
            "over_everything",
            "One softmax for the whole table",
            "All weights together add up to 1. Each query has to share out exactly 1 among the keys: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).flatten().softmax(dim=0).reshape(*q.shape[:-1], k.shape[-2]), v),
        ),
        *dropout_left_on(
            lambda p: {
                "returned": lambda q, k, v: weighted(F.dropout(attend(q, k, v)[1], p), v),
                "used": lambda q, k, v: (F.dropout(attend(q, k, v)[1], p) @ v, attend(q, k, v)[1]),
            }
        ),
        wrong(
            "cosine",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1 first. The dot product is wanted, over √d_k: a long key may speak "
            "louder.",
            lambda q, k, v: weighted((F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT).softmax(dim=-1), v),
        ),
        wrong(
            "cosine_scaled",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1, and then divided by √d_k as well. The dot product is wanted, over "
            "√d_k.",
            lambda q, k, v: attend(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v),
        ),
        wrong(
            "not_summed",
            "The weighted values are not added up",
            "Each query still has one vector for each key: the output has an axis too many, k. `weights @ v` adds up "
            "over the keys as it multiplies.",
            lambda q, k, v: ((w := attend(q, k, v)[1]).unsqueeze(-1) * v.unsqueeze(-3), w),
        ),
        wrong(
            "softmax_twice",
            "The softmax is taken twice",
            "The softmax of weights between 0 and 1 is nearly the same for all keys. Take it once, of the scores.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=-1).softmax(dim=-1), v),
        ),
        wrong(
            "returns_unscaled_scores",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the dot products before scale and softmax.",
            lambda q, k, v: (attend(q, k, v)[0], q @ k.mT),
        ),
        wrong(
            "weights_transposed",
            "The weights are transposed before they meet the values",
            "weights @ v adds up over the keys. With the weights transposed, it adds up over the queries.",
            lambda q, k, v: ((w := attend(q, k, v)[1]).mT @ v, w),
        ),
        wrong(
            "weights_returned_transposed",
            "The weights are returned with rows and columns exchanged",
            "The output is right. Row i of the weights has to belong to query i: (…, q, k).",
            lambda q, k, v: ((o := attend(q, k, v))[0], o[1].mT),
        ),
        wrong(
            "values_first",
            "The values stand before the weights",
            "A row of weights mixes the rows of v, so the weights come first: weights @ v.",
            lambda q, k, v: (v @ (w := attend(q, k, v)[1]), w),
        ),
        wrong(
            "output_transposed",
            "The output has rows and columns exchanged",
            "Every query gets a row: (…, q, d_v). Yours has them as columns.",
            lambda q, k, v: ((o := attend(q, k, v))[0].mT, o[1]),
        ),
        wrong(
            "not_transposed",
            "The transpose is missing",
            "`q @ k` multiplies the rows of q with the *columns* of k. The keys are its rows: q @ k.mT.",
            lambda q, k, v: weighted((q @ k / q.shape[-1] ** 0.5).softmax(dim=-1), v),
        ),
        wrong(
            "causal",
            "Later keys are hidden",
            "A causal mask comes in lesson 05. Here every query meets every key.",
            _causal,
        ),
        wrong(
            "winner_takes_all",
            "Only the best key gets a weight",
            "That is argmax, through which no gradient flows. The softmax gives every key its share.",
            lambda q, k, v: weighted(torch.nn.functional.one_hot(scaled(q, k).argmax(-1), k.shape[-2]).to(q.dtype), v),
        ),
        wrong(
            "sigmoid",
            "Sigmoid instead of softmax",
            "Each score is squeezed into (0, 1) on its own. In a softmax the keys compete: their weights add up to 1.",
            lambda q, k, v: weighted(scaled(q, k).sigmoid(), v),
        ),
        wrong(
            "logarithm",
            "The logarithm of the softmax",
            "The numbers are negative: this is log-softmax, which losses use. Attention needs the weights themselves.",
            lambda q, k, v: weighted(scaled(q, k).log_softmax(dim=-1), v),
        ),
        wrong(
            "sum_without_axis",
            "The sums have lost an axis",
            "Without keepdim=True the sums of the exponentials have one axis fewer, and broadcasting lines them up "
            "with the columns instead of the rows.",
            lambda q, k, v: weighted(scaled(q, k).exp() / scaled(q, k).exp().sum(dim=-1), v),
        ),
        wrong(
            "not_normalised",
            "The weights are not divided by their sum",
            "exp makes every score positive, but a row adds up to 1 only after division by its sum.",
            lambda q, k, v: weighted(scaled(q, k).exp(), v),
        ),
        wrong(
            "averaged",
            "The values are averaged over the keys once more",
            "The weights add up to 1 already: their products with the values are added, not averaged.",
            lambda q, k, v: (attend(q, k, v)[0] / k.shape[-2], attend(q, k, v)[1]),
        ),
        wrong(
            "equal_weights",
            "All keys have the same weight",
            "The output is the plain mean of the values, whatever the queries ask. Their scores decide how the values "
            "are mixed.",
            lambda q, k, v: weighted(torch.softmax(q @ k.mT * 0, dim=-1), v),
        ),
        wrong(
            "weights_detached",
            "The weights are cut off from the output",
            "The output is made with detached weights, so that no gradient reaches queries and keys, and they would "
            "never learn. Detach what you return, if you like, not what you use.",
            lambda q, k, v: weighted(attend(q, k, v)[1].detach(), v),
        ),
        *(
            wrong(
                f"normalised_{whose}",
                f"Only the {whose} are brought to length 1",
                f"The {whose} were divided by their lengths first. The dot product is wanted, over √d_k: a long vector "
                "may speak louder.",
                implementation,
            )
            for whose, implementation in (
                ("queries", lambda q, k, v: attend(F.normalize(q, dim=-1), k, v)),
                ("keys", lambda q, k, v: attend(q, F.normalize(k, dim=-1), v)),
            )
        ),
        *two_mistakes_of_attention(),
    )


SCALES = {
    "unscaled": ("The scale is missing", lambda q, k, v: 1.0),
    "by_d": ("Divided by d_k instead of √d_k", lambda q, k, v: 1 / q.shape[-1]),
    "multiplied": ("Multiplied by √d_k instead of divided", lambda q, k, v: q.shape[-1] ** 0.5),
    "by_root_d_v": ("Scaled by the width of the values", lambda q, k, v: v.shape[-1] ** -0.5),
    "by_root_k": ("Scaled by the number of keys", lambda q, k, v: k.shape[-2] ** -0.5),
}


def two_mistakes_of_attention(scales: Mapping[str, tuple[str, Any]] = SCALES) -> tuple[Misconception, ...]:
    """One of these scales, by (q, k, v), and something else."""
    others: tuple[tuple[str, str, str, Callable[[Tensor, Tensor], Any]], ...] = (
        (
            "over_queries",
            "the softmax runs over the queries",
            "the softmax runs over the keys, dim=-1",
            lambda scores, v: weighted(scores.softmax(dim=-2), v),
        ),
        (
            "over_first_axis",
            "the softmax runs over the first axis",
            "the softmax runs over the keys, dim=-1",
            lambda scores, v: weighted(scores.softmax(dim=0), v),
        ),
        (
            "without_softmax",
            "the softmax is missing",
            "the softmax makes shares of them",
            lambda scores, v: weighted(scores, v),
        ),
        (
            "order_returned",
            "the weights come first",
            "the contract is (output, weights)",
            lambda scores, v: weighted(scores.softmax(dim=-1), v)[::-1],
        ),
        (
            "weights_transposed",
            "the weights are transposed before they meet the values",
            "a row of weights mixes the values: weights @ v",
            lambda scores, v: ((w := scores.softmax(dim=-1)).mT @ v, w),
        ),
    )
    return tuple(
        wrong(
            f"{how}_{name}",
            f"{title}, and {also}",
            f"Two things at once: the scores are divided by √d_k before the softmax, and {rather}.",
            lambda q, k, v, scale=scale, change=change: change(q @ k.mT * scale(q, k, v), v),
        )
        for how, (title, scale) in scales.items()
        for name, also, rather, change in others
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
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=0), v),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the axis before the queries",
            "The numbers add up to 1 over the heads. Each head attends for itself: dim=-1.",
            lambda q, k, v: weighted(scaled(q, k).softmax(dim=-3), v),
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


SCALED_DOT_PRODUCT_ATTENTION = CourseExercise(
    name="scaled_dot_product_attention",
    lesson="02_scaled_dot_product_attention",
    contract="(…, q, d_k), (…, k, d_k), (…, k, d_v) -> output (…, q, d_v), weights (…, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=attention,
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
    without=("one_tensor",),
)
