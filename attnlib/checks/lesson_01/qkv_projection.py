"""The exercise `QKVProjection` of lesson 01."""

import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong

QKV = ("q", "k", "v")


class QKVProjection(attnlib.QKVProjection):
    """The contract's signature: `bias` by position."""

    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias=bias)


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple) -> tuple[tuple, tuple[Tensor]]:
    return sizes, (draw.normal(b, n, sizes[0]),)


class _Right(QKVProjection):
    """The same without attnlib's forward, for the mistakes below to change."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), self.w_v(x)


class _BiasForgotten(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x @ self.w_q.weight.T, x @ self.w_k.weight.T, x @ self.w_v.weight.T


class _OneForBoth(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_q(x), self.w_v(x)


class _QKExchanged(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_k(x), self.w_q(x), self.w_v(x)


class _OrderReturned(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_v(x), self.w_k(x), self.w_q(x)


class _Nonlinear(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return F.relu(self.w_q(x)), F.relu(self.w_k(x)), F.relu(self.w_v(x))


class _ScaledQuery(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x) / self.w_q.out_features**0.5, self.w_k(x), self.w_v(x)


class _ValueIsX(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), x


class _AlwaysBias(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v)


class _NeverBias(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, False)


class _ValueWidth(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__(d_model, d_k, d_v, bias)
        self.w_v = nn.Linear(d_model, d_k, bias=bias)


class _WeightNotTransposed(_Right):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x @ self.w_q.weight, x @ self.w_k.weight, x @ self.w_v.weight


class _InitForgotten(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        self.w_q = nn.Linear(d_model, d_k, bias=bias)


QKV_PROJECTION = Exercise(
    name="QKVProjection",
    lesson="01_qkv_projections",
    contract="QKVProjection(d_model, d_k, d_v, bias=True), forward: (b, n, d_model) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=QKVProjection,
    outputs=QKV,
    forbidden=("attnlib.QKVProjection.forward",),
    cases=usual_cases(
        _module_inputs,
        {"b": 2, "n": 5, "sizes": (7, 3, 11)},
        one={"b": 1, "n": 3, "sizes": (5, 2, 7, False)},
        more=[
            {"b": 3, "n": 11, "sizes": (13, 5, 2, True)},
            {"b": 5, "n": 2, "sizes": (3, 3, 3)},
            {"b": 2, "n": 7, "sizes": (5, 7, 3, False)},
        ],
    ),
    misconceptions=(
        wrong(
            "bias_forgotten",
            "The bias is not added",
            "The layers have a bias, but only their weight is used. Call the layer, `self.w_q(x)`, and it adds it for "
            "you.",
            _BiasForgotten,
        ),
        wrong(
            "all_from_w_q",
            "Queries and keys come from the same layer",
            "k is computed with w_q; w_k exists and is never used, so it would never learn.",
            _OneForBoth,
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "q is computed with w_k, and k with w_q. The shapes cannot tell, the meaning can.",
            _QKExchanged,
        ),
        wrong(
            "order_returned",
            "Returned in another order",
            "The three come back as v, k, q. Some codebases pass them in that order; here it is q, k, v.",
            _OrderReturned,
        ),
        wrong(
            "nonlinear",
            "A nonlinearity after the projection",
            "The negative numbers have become zero. A projection is a matrix product and a bias, nothing else.",
            _Nonlinear,
        ),
        wrong(
            "scaled_query",
            "The query is scaled",
            "q is divided by the root of d_k. Many libraries hide the scale there; here it has its place in lesson 02.",
            _ScaledQuery,
        ),
        wrong(
            "value_is_x",
            "The value is x itself",
            "w_v is not used. What a word brings along is the part of its vector that w_v picks out.",
            _ValueIsX,
        ),
        wrong(
            "always_bias",
            "`bias=False` is not passed on",
            "The layers have a bias although bias=False was asked for. Pass the argument on: nn.Linear(…, bias=bias).",
            _AlwaysBias,
        ),
        wrong(
            "never_bias",
            "The layers never have a bias",
            "bias=True is the default here, but your layers were made with bias=False.",
            _NeverBias,
        ),
        wrong(
            "value_width",
            "w_v has the width of the keys",
            "w_v maps to d_k. Values may have a width of their own, d_v: they never meet the keys in a dot product.",
            _ValueWidth,
        ),
        wrong(
            "weight_not_transposed",
            "A layer's weight has the widths the other way round",
            "The weight of nn.Linear is (d_out, d_in), so the product is x @ weight.T, and then comes the bias. "
            "Calling the layer does both: self.w_q(x).",
            _WeightNotTransposed,
        ),
        wrong(
            "init_forgotten",
            "super().__init__() is missing",
            "nn.Module keeps a list of its layers, and makes that list in its own __init__. Call super().__init__() "
            "before the first layer.",
            _InitForgotten,
        ),
        *usual_misconceptions(_Right),
    ),
)
