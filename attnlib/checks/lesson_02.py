"""Exercises of lesson 02: scaled dot-product attention."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.watch import ATTENTION, SOFTMAX

LESSON = "02_scaled_dot_product_attention"


def _queries_keys(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    d = draw.d_head(d)
    return draw.normal(*lead, q, d), draw.normal(*lead, k, d)


def _small_queries_keys() -> tuple[Tensor, Tensor]:
    return torch.tensor([[2.0, 0, 0, 0], [0, 2.0, 0, 2.0]]), torch.tensor(
        [[3.0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 4.0]]
    )


def _scaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


ATTENTION_SCORES = Exercise(
    name="attention_scores",
    lesson=LESSON,
    contract="(…, q, d), (…, k, d) -> (…, q, k), scaled by 1/√d",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.attention_scores,
    forbidden=("attnlib.attention_scores", *ATTENTION),
    cases=usual_cases(
        _queries_keys,
        {"lead": (2,), "q": 5, "k": 7, "d": 3},
        one={"lead": (1, 3), "q": 3, "k": 2, "d": 5},
        more=[
            {"lead": (2, 3), "q": 5, "k": 11, "d": 7},
            {"lead": (), "q": 13, "k": 3, "d": 11},
            {"lead": (3,), "q": 7, "k": 7, "d": 7},
            {"lead": (2, 1, 3), "q": 1, "k": 5, "d": 2},
        ],
    ),
    example=_small_queries_keys,
    misconceptions=(
        wrong(
            "no_scale",
            "The scale is missing",
            "The dot products are right, but not divided by √d. A sum of d products grows with √d, and the softmax "
            "that follows would give nearly all the weight to one key, with hardly a gradient for the others.",
            lambda q, k: q @ k.mT,
        ),
        wrong(
            "scaled_by_d",
            "Divided by d instead of √d",
            "The *variance* of a dot product grows with d, its standard deviation with √d. Dividing by d makes the "
            "scores too small: every key would get nearly the same weight.",
            lambda q, k: q @ k.mT / q.shape[-1],
        ),
        wrong(
            "scaled_twice",
            "Scaled twice",
            "The result is divided by √d two times over (or each of q and k by √d): that is d in all. If you scale "
            "both, each gets the fourth root.",
            lambda q, k: (q / q.shape[-1] ** 0.5) @ (k / k.shape[-1] ** 0.5).mT,
            same_as="scaled_by_d",
        ),
        wrong(
            "multiplied_by_root_d",
            "Multiplied by √d instead of divided",
            "The scores have become larger where they should become smaller. The scale is 1/√d.",
            lambda q, k: q @ k.mT * q.shape[-1] ** 0.5,
        ),
        wrong(
            "scaled_by_root_k",
            "Divided by the root of the number of keys",
            "The scale depends on the *width* d of the vectors, the length of the sum in one dot product. How many "
            "keys there are does not matter: q.shape[-1], not k.shape[-2].",
            lambda q, k: q @ k.mT / k.shape[-2] ** 0.5,
        ),
        wrong(
            "scaled_by_root_q",
            "Divided by the root of the number of queries",
            "The scale depends on the *width* d of the vectors, the last axis: q.shape[-1], not q.shape[-2].",
            lambda q, k: q @ k.mT / q.shape[-2] ** 0.5,
        ),
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "Row i belongs to query i: (q, k). Yours has the keys as rows. With as many queries as keys, nothing but "
            "the numbers would tell.",
            lambda q, k: k @ q.mT / q.shape[-1] ** 0.5,
        ),
        wrong(
            "reshaped",
            "reshape where a transpose was needed",
            "`reshape` (or `view`) keeps the numbers in their order in memory, so that the columns are no longer the "
            "keys. To exchange the last two axes, use `.mT` or `transpose(-2, -1)`.",
            lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "cosine",
            "Cosine similarity instead of the dot product",
            "The vectors are brought to length 1 first. The dot product is wanted as it is: a long key may speak "
            "louder.",
            lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT,
        ),
        wrong(
            "softmax_already",
            "The softmax is taken already",
            "The rows add up to 1: these are weights, not scores. The softmax is the next exercise.",
            lambda q, k: (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1),
        ),
        wrong(
            "all_axes_reversed",
            "`.T` on a tensor with a batch",
            "`.T` reverses *all* axes, the batch among them. `.mT` or `transpose(-2, -1)` exchanges the last two only.",
            lambda q, k: q @ k.permute(*range(k.dim() - 1, -1, -1)) / q.shape[-1] ** 0.5,
        ),
        wrong(
            "first_batch_only",
            "All queries meet the keys of the first batch entry",
            "With a batch of one nobody notices. Each entry of the batch has its own keys.",
            lambda q, k: q @ (k[:1] if k.dim() > 2 else k).mT / q.shape[-1] ** 0.5,
        ),
        *usual_misconceptions(_scaled),
    ),
)


def _scores(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (draw.normal(*shape, scale=1.5, shift=0.5),)


def _large_scores(draw: Draw) -> tuple[Tensor]:
    small = draw.normal(3, 5)
    return (torch.stack([small + 1e4, small - 1e4, small]).to(draw.dtype),)


def _uneven_rows(draw: Draw) -> tuple[Tensor]:
    return (draw.normal(2, 3, 5) + torch.tensor([-1e4, 0.0, 1e4], dtype=draw.dtype).reshape(3, 1),)


def _exponentials(scores: Tensor) -> Tensor:
    return torch.exp(scores - scores.amax(dim=-1, keepdim=True))


def _softmax(scores: Tensor, axis: int = -1) -> Tensor:
    """Right, and without torch's softmax, which the exercise forbids."""
    exponentials = torch.exp(scores - scores.amax(dim=axis, keepdim=True))
    return exponentials / exponentials.sum(dim=axis, keepdim=True)


SOFTMAX_EXERCISE = Exercise(
    name="softmax",
    lesson=LESSON,
    contract="(…, k) -> (…, k), rows of positive numbers that add up to 1; finite for scores of ±1e4",
    parts={"values": 2, "large scores": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.softmax,
    forbidden=("attnlib.softmax", "attnlib.masked_softmax", *SOFTMAX),
    cases=(
        *usual_cases(
            _scores,
            {"shape": (2, 5, 7)},
            one={"shape": (1, 3, 5)},
            more=[{"shape": (3, 2, 5, 11)}, {"shape": (13,)}, {"shape": (7, 3)}, {"shape": (2, 3, 1)}],
        ),
        Case(
            name="scores near 10000 and -10000",
            inputs=_large_scores,
            part="large scores",
            magnitude=1e4,
            dtype=torch.float64,
        ),
        Case(name="rows far apart from one another", inputs=_uneven_rows, part="large scores", magnitude=1e4),
        Case(
            name="scores near 10000 and -10000, float32",
            inputs=_large_scores,
            part="large scores",
            magnitude=1e4,
            hidden=True,
        ),
        Case(
            name="gradients for large scores",
            inputs=_large_scores,
            part="large scores",
            gradient=True,
            dtype=torch.float64,
            magnitude=1e4,
            hidden=True,
        ),
    ),
    example=lambda: (torch.tensor([[0.0, math.log(2), math.log(5)], [1.0, 1.0, 1.0]]),),
    misconceptions=(
        wrong(
            "over_queries",
            "The softmax runs down the columns",
            "Your columns add up to 1; the rows have to. A row belongs to one query, and that query shares its "
            "attention among the keys: dim=-1.",
            lambda scores: _softmax(scores, -2 if scores.dim() > 1 else -1),
        ),
        wrong(
            "over_first_axis",
            "The softmax runs over the first axis",
            "The numbers add up to 1 over the batch. Entries of a batch have nothing to do with one another: dim=-1.",
            lambda scores: _softmax(scores, 0),
        ),
        wrong(
            "over_everything",
            "One softmax over the whole tensor",
            "All numbers together add up to 1, instead of each row. Sum over the last axis only, with keepdim=True.",
            lambda scores: _softmax(scores.reshape(-1)).reshape(scores.shape),
        ),
        wrong(
            "no_shift",
            "exp overflows",
            "exp(1e4) is larger than any float: inf / inf is NaN. Subtract each row's largest score first: the result "
            "is the same, because numerator and denominator shrink by the same factor, and exp never sees a positive "
            "number.",
            lambda scores: torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True),
        ),
        wrong(
            "global_shift",
            "One maximum for the whole tensor",
            "The largest score of *all* rows is subtracted. In a row far below it, every exp is 0, and 0 / 0 is NaN. "
            "Each row needs its own maximum: amax(dim=-1, keepdim=True).",
            lambda scores: (
                torch.exp(scores - scores.max()) / torch.exp(scores - scores.max()).sum(dim=-1, keepdim=True)
            ),
        ),
        wrong(
            "clamped",
            "The scores are cut off",
            "Clamping keeps exp finite and changes the answer: all scores beyond the limit look equal. Subtract the "
            "maximum.",
            lambda scores: _softmax(scores.clamp(-50, 50)),
        ),
        wrong(
            "nan_to_zero",
            "NaN is swept under the carpet",
            "Where exp overflowed, NaN has been replaced, and the row no longer adds up to 1. Subtract the maximum, "
            "and no NaN comes up.",
            lambda scores: torch.nan_to_num(torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)),
        ),
        wrong(
            "not_normalised",
            "Not divided by the sum",
            "The exponentials are there, but the rows do not add up to 1.",
            _exponentials,
        ),
        wrong(
            "no_exponential",
            "Divided by the sum without exp",
            "Dividing the scores themselves by their sum gives negative weights where scores are negative, and "
            "divides by zero where they cancel. exp makes every number positive first.",
            lambda scores: scores / scores.sum(dim=-1, keepdim=True),
        ),
        wrong(
            "logarithm",
            "The logarithm of the softmax",
            "The numbers are negative: this is log-softmax, which losses use. Attention needs the weights themselves.",
            lambda scores: _softmax(scores).log(),
        ),
        wrong(
            "sigmoid",
            "Sigmoid instead of softmax",
            "Each score is squeezed into (0, 1) on its own. In a softmax the scores of a row compete: they share 1.",
            torch.sigmoid,
        ),
        wrong(
            "base_two",
            "Powers of 2 instead of e",
            "2 ** s grows more slowly than e ** s, so that the weights come out flatter. Use torch.exp.",
            lambda scores: _softmax(scores * math.log(2)),
        ),
        wrong(
            "sign_turned",
            "The smallest score wins",
            "The sign of the exponent is turned: exp(max - s) instead of exp(s - max).",
            lambda scores: _softmax(-scores),
        ),
        *usual_misconceptions(_softmax),
    ),
)


def _qkv(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    d_k = draw.d_head(d_k)
    return draw.normal(*lead, q, d_k), draw.normal(*lead, k, d_k), draw.normal(*lead, k, d_v)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The contract's form: the weights are always returned."""
    output, weights = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)
    return output, weights


def _weighted(weights: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return weights @ v, weights


def _with_scale(scale):
    return lambda q, k, v: _weighted((q @ k.mT * scale(q, k, v)).softmax(dim=-1), v)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return _weighted(_scaled(q, k).softmax(dim=-1), v)


def _small_attention() -> tuple[Tensor, Tensor, Tensor]:
    root = 2**0.5
    q = torch.tensor([[math.log(2) * root, 0.0], [0.0, math.log(3) * root], [0.0, 0.0]])
    return q, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), torch.tensor([[4.0], [8.0], [0.0]])


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
            lambda q, k, v: _weighted((q @ k.mT).softmax(dim=-1) / q.shape[-1] ** 0.5, v),
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "Your columns add up to 1; the rows have to. Each query shares its attention among the keys: dim=-1.",
            lambda q, k, v: _weighted(_scaled(q, k).softmax(dim=-2), v),
        ),
        wrong(
            "over_first_axis",
            "The softmax runs over the batch (or the heads)",
            "The numbers add up to 1 over the first axis. Entries of a batch, and heads, have nothing to do with one "
            "another: dim=-1.",
            lambda q, k, v: _weighted(_scaled(q, k).softmax(dim=0 if q.dim() > 2 else -1), v),
        ),
        wrong(
            "over_heads",
            "The softmax runs over the axis before the queries",
            "The numbers add up to 1 over the heads. Each head attends for itself: dim=-1.",
            lambda q, k, v: _weighted(_scaled(q, k).softmax(dim=-3 if q.dim() > 2 else -1), v),
        ),
        wrong(
            "no_softmax",
            "The softmax is missing",
            "The values are added up with the raw scores as weights: some are negative, and a row does not add up to "
            "1.",
            lambda q, k, v: _weighted(_scaled(q, k), v),
        ),
        wrong(
            "returns_scores",
            "The scores are returned in place of the weights",
            "The output is right, but the second result holds the scores before the softmax.",
            lambda q, k, v: (_scaled(q, k).softmax(dim=-1) @ v, _scaled(q, k)),
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The weights came first. The contract is (output, weights).",
            lambda q, k, v: (_scaled(q, k).softmax(dim=-1), _scaled(q, k).softmax(dim=-1) @ v),
        ),
        wrong(
            "keys_reshaped",
            "reshape where a transpose was needed",
            "`reshape` (or `view`) keeps the numbers in their order in memory, so that the columns are no longer the "
            "keys. To exchange the last two axes, use `.mT` or `transpose(-2, -1)`.",
            lambda q, k, v: _weighted(
                (q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / q.shape[-1] ** 0.5).softmax(dim=-1), v
            ),
        ),
        wrong(
            "all_axes_reversed",
            "`.T` on a tensor with a batch",
            "`.T` reverses *all* axes, the batch among them. `.mT` or `transpose(-2, -1)` exchanges the last two only.",
            lambda q, k, v: _weighted(
                (q @ k.permute(*range(k.dim() - 1, -1, -1)) / q.shape[-1] ** 0.5).softmax(dim=-1), v
            ),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k: the values are never used. A key is what is matched, a value what is brought "
            "back.",
            lambda q, k, v: _weighted(_scaled(q, k).softmax(dim=-1), k),
        ),
        wrong(
            "three_axes_only",
            "It works for three axes only",
            "torch.bmm, and einsum with its letters spelled out, want exactly (b, n, d). `@` and einsum with `...` "
            "take any leading axes: heads will need a fourth.",
            lambda q, k, v: _weighted((torch.bmm(q, k.mT) / q.shape[-1] ** 0.5).softmax(dim=-1), v),
        ),
    )


SCALED_DOT_PRODUCT_ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    lesson=LESSON,
    contract="(…, q, d_k), (…, k, d_k), (…, k, d_v) -> output (…, q, d_v), weights (…, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=attention,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=ATTENTION,
    cases=usual_cases(
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
    example=_small_attention,
    misconceptions=(*attention_misconceptions(), *usual_misconceptions(_attend)),
)


class SelfAttention(attnlib.SelfAttention):
    """The contract's form: the weights are always returned."""

    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, int, int]) -> tuple[tuple, tuple[Tensor]]:
    d_model, d_k, d_v = sizes
    return (d_model, draw.d_head(d_k), d_v), (draw.normal(b, n, d_model),)


def _self_attention(forward):
    """A module whose forward pass is `forward(module, x, q, k, v)`."""

    class Wrong(SelfAttention):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return forward(self, x, self.w_q(x), self.w_k(x), self.w_v(x))

    return Wrong


class _WithBias(SelfAttention):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)
        self.w_q, self.w_k, self.w_v = nn.Linear(d_model, d_k), nn.Linear(d_model, d_k), nn.Linear(d_model, d_v)


SELF_ATTENTION = Exercise(
    name="SelfAttention",
    lesson=LESSON,
    contract="SelfAttention(d_model, d_k, d_v), forward: (b, n, d_model) -> output (b, n, d_v), weights (b, n, n)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    reference=SelfAttention,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=ATTENTION,
    weight_scale=1.2,
    cases=usual_cases(
        _module_inputs,
        {"b": 2, "n": 5, "sizes": (7, 3, 11)},
        one={"b": 1, "n": 3, "sizes": (5, 2, 7)},
        more=[
            {"b": 3, "n": 11, "sizes": (13, 5, 2)},
            {"b": 5, "n": 2, "sizes": (3, 3, 3)},
            {"b": 2, "n": 7, "sizes": (7, 7, 7)},
        ],
    ),
    misconceptions=(
        *(
            wrong(m.id, m.title, m.explanation, _self_attention(lambda s, x, q, k, v, f=m.implementation: f(q, k, v)))
            for m in attention_misconceptions()
            if m.id not in ("keys_for_values", "three_axes_only", "over_heads")
        ),
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model",
            "The scores are sums of d_k products, because queries and keys are d_k wide. d_model, the width of x, "
            "takes no part.",
            _self_attention(lambda s, x, q, k, v: _weighted((q @ k.mT / x.shape[-1] ** 0.5).softmax(dim=-1), v)),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "The queries come from w_k and the keys from w_q: every row of scores has become a column. Each token "
            "then listens to those that look for it, not to those that it looks for.",
            _self_attention(lambda s, x, q, k, v: _attend(k, q, v)),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k: w_v is never used. A key is what is matched, a value what is brought back.",
            _self_attention(lambda s, x, q, k, v: _weighted(_attend(q, k, v)[1], k)),
        ),
        wrong(
            "value_is_x",
            "x is averaged in place of the values",
            "The output is weights @ x: w_v is never used.",
            _self_attention(lambda s, x, q, k, v: _weighted(_attend(q, k, v)[1], x)),
        ),
        wrong(
            "with_bias",
            "The layers have a bias",
            "nn.Linear adds a bias unless it is told not to. This module's projections are plain matrices: bias=False.",
            _WithBias,
        ),
        wrong(
            "residual_added",
            "The input is added to the output",
            "A residual connection belongs to the block around attention (lesson 06), not to attention itself. With "
            "d_v ≠ d_model the shapes would not even fit.",
            _self_attention(lambda s, x, q, k, v: (_attend(q, k, v)[0] + x, _attend(q, k, v)[1])),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to look at the weights.",
            _self_attention(lambda s, x, q, k, v: _attend(q, k, v)[0]),
        ),
        *usual_misconceptions(_self_attention(lambda s, x, q, k, v: _attend(q, k, v))),
    ),
)


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


PREDICT_BLANK_QUERY = Exercise(
    name="predict_blank_query",
    lesson=LESSON,
    contract="the weights of a word whose query is all zeros",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="A query of zeros scores 0 with every key, and e⁰ = 1 for all of them: eleven equal shares of 1/11. A "
    "word that asks for nothing gets the plain average of all values.",
    misconceptions=(
        wrong(
            "zero_score_zero_weight",
            "A score of 0 is not a weight of 0",
            "The scores are all 0, you are right. But softmax takes e to the power of each, and e⁰ is 1. Weights "
            "always add up to 1, so somebody must get them.",
            "A",
        ),
        wrong(
            "default_to_self",
            "Nothing makes a word look at itself",
            "The query of a word and its own key are two different vectors. Their dot product is a score like any "
            "other, and here it is 0, as with all the other keys.",
            "C",
        ),
        wrong(
            "zero_over_zero",
            "The denominator is a sum of exponentials",
            "It would be 0/0 if you divided each score by the sum of the scores. Softmax divides e⁰ = 1 by the sum of "
            "eleven times e⁰, which is 11.",
            "D",
        ),
    ),
)

PREDICT_DOT_SPREAD = Exercise(
    name="predict_dot_spread",
    lesson=LESSON,
    contract="the standard deviation of the dot product of two random vectors with d = 256",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Each of the 256 terms has variance 1, variances of independent terms add up to 256, and the standard "
    "deviation is the root of that: √256 = 16.",
    misconceptions=(
        wrong(
            "terms_cancel",
            "The mean stays 0, the spread does not stay 1",
            "Positive and negative terms cancel on average, which keeps the mean at 0. But they never cancel exactly. "
            "What is left over grows with the number of terms, as in a random walk.",
            "A",
        ),
        wrong(
            "variance_for_deviation",
            "That is the variance",
            "256 terms with variance 1 each give a variance of 256. The standard deviation is its root. All terms "
            "would have to agree in sign for the sum itself to get as large as 256.",
            "C",
        ),
        wrong(
            "depends_on_keys",
            "A dot product knows one query and one key",
            "How many other keys there are does not enter q · k: it is a sum of d terms. The number of keys matters "
            "later, when softmax compares the scores with one another.",
            "D",
        ),
    ),
)

PREDICT_SWAPPED_WORDS = Exercise(
    name="predict_swapped_words",
    lesson=LESSON,
    contract="what self-attention makes of a sentence in which two words are swapped",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Each output is made from one query and the same eleven pairs of keys and values. Their order does "
    "not enter a sum, so every word gets what it got before, at its new place.",
    misconceptions=(
        wrong(
            "neighbours_matter",
            "Attention has no neighbours",
            "A score compares two words wherever they stand; nothing in the formula says what is next to what. The "
            "same eleven words answer in both sentences, so every word hears the same answers.",
            "A",
        ),
        wrong(
            "invariant_not_equivariant",
            "The sum runs over keys, not over queries",
            "You are right that each output is a sum, and that the order of the keys does not matter to it. But there "
            "is one output for each query: when a word moves, its question moves with it, and so does its row of the "
            "output.",
            "C",
        ),
    ),
)

MEND_SELF_ATTENTION = Exercise(
    name="mend_self_attention",
    lesson=LESSON,
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

EXERCISES = (
    PREDICT_BLANK_QUERY,
    ATTENTION_SCORES,
    SOFTMAX_EXERCISE,
    PREDICT_DOT_SPREAD,
    SCALED_DOT_PRODUCT_ATTENTION,
    SELF_ATTENTION,
    PREDICT_SWAPPED_WORDS,
    MEND_SELF_ATTENTION,
)
