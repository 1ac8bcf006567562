"""The exercise `QKVProjection` of lesson 01."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course.lesson_00.slips import slips
from attnlib.checks.course.lesson_01.three_layers import (
    chained_projections,
    mistakes_before_and_after,
    mistakes_in_three_layers,
    mistakes_of_order,
    scaled_projections,
)
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

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


class _NoBiasByDefault(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = False) -> None:
        super().__init__(d_model, d_k, d_v, bias)


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


class _BiasArgumentMissing(_Right):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)


def _forward(compute):
    """A module with the right layers whose forward pass is `compute(module, x)`."""

    class Wrong(_Right):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return compute(self, x)

    return Wrong


def _around(compute):
    return _forward(lambda m, x: compute(x, m.w_q, m.w_k, m.w_v))


def _reordered(order):
    return _forward(lambda m, x: tuple((m.w_q, m.w_k, m.w_v)[i](x) for i in order))


def _layers(make):
    """A module whose layers by name are `make(d_model, d_k, d_v, bias)`."""

    class Wrong(_Right):
        def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
            nn.Module.__init__(self)
            for name, layer in make(d_model, d_k, d_v, bias).items():
                setattr(self, name, layer)

    return Wrong


def _sized(widths, *, biased=lambda bias: (bias, bias, bias)):
    """Layers of the right names, from and to `widths(d_model, d_k, d_v)`."""
    return _layers(
        lambda d_model, d_k, d_v, bias: {
            name: nn.Linear(size[0], size[1], bias=with_bias)
            for name, size, with_bias in zip(
                ("w_q", "w_k", "w_v"), widths(d_model, d_k, d_v), biased(bias), strict=True
            )
        }
    )


def _right_widths(d_model: int, d_k: int, d_v: int) -> tuple[tuple[int, int], ...]:
    return (d_model, d_k), (d_model, d_k), (d_model, d_v)


def _chained(module: _Right, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q = module.w_q(x)
    k = module.w_k(q)
    return q, k, module.w_v(k)


def _weight_reshaped(module: _Right, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(
        x @ layer.weight.reshape(layer.in_features, layer.out_features) + (0 if layer.bias is None else layer.bias)
        for layer in (module.w_q, module.w_k, module.w_v)
    )


def _bias_twice(module: _Right, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(layer(x) + (0 if layer.bias is None else layer.bias) for layer in (module.w_q, module.w_k, module.w_v))


def _weights_detached(module: _Right, x: Tensor) -> tuple[Tensor, ...]:
    return tuple(
        F.linear(x, layer.weight.detach(), None if layer.bias is None else layer.bias.detach())
        for layer in (module.w_q, module.w_k, module.w_v)
    )


QKV_PROJECTION = Exercise(
    name="QKVProjection",
    lesson="01_qkv_projections",
    contract="QKVProjection(d_model, d_k, d_v, bias=True), forward: (b, n, d_model) -> q, k, v",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=QKVProjection,
    outputs=QKV,
    forbidden=("attnlib.QKVProjection.forward",),
    cases=(
        *usual_cases(
            _module_inputs,
            {"b": 2, "n": 5, "sizes": (7, 3, 11)},
            one={"b": 1, "n": 3, "sizes": (5, 2, 7, False)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5, 2, True)},
                {"b": 5, "n": 2, "sizes": (3, 3, 3)},
                {"b": 2, "n": 7, "sizes": (5, 7, 3, False)},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_module_inputs, b=3, n=3, sizes=(3, 3, 3))),
        Case(name="bias=True is said", inputs=partial(_module_inputs, b=2, n=5, sizes=(7, 3, 11, True))),
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
            "scaled_by_root_d_model",
            "The projections are scaled",
            "All three are divided by the root of d_model. A projection is a matrix product and a bias, nothing else.",
            _forward(lambda m, x: tuple(layer(x) / x.shape[-1] ** 0.5 for layer in (m.w_q, m.w_k, m.w_v))),
        ),
        wrong(
            "scaled_both",
            "Queries and keys are scaled",
            "q and k are each divided by the root of d_k. The scale has its place in lesson 02, once.",
            _forward(lambda m, x: (*(layer(x) / m.w_q.out_features**0.5 for layer in (m.w_q, m.w_k)), m.w_v(x))),
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
            "At least w_q has a bias although bias=False was asked for. Pass the argument on to all three: "
            "nn.Linear(…, bias=bias).",
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
            "weight_reshaped",
            "A layer's weight is reshaped",
            "`reshape` (or `view`) keeps the numbers in their order in memory and draws the lines elsewhere: no column "
            "is what it was. To turn a weight, use .T; calling the layer does it for you: self.w_q(x).",
            _forward(_weight_reshaped),
        ),
        wrong(
            "bias_twice",
            "The bias is added twice",
            "A layer adds its bias itself: self.w_q(x) is the product and the bias.",
            _forward(_bias_twice),
        ),
        wrong(
            "new_layers",
            "New layers have weights of their own",
            "Layers that forward makes start with random numbers at every call, and what they learn is lost. Make them "
            "in __init__, once, and call those: self.w_q(x).",
            _forward(
                lambda m, x: tuple(nn.Linear(x.shape[-1], layer.out_features)(x) for layer in (m.w_q, m.w_k, m.w_v))
            ),
        ),
        wrong(
            "init_forgotten",
            "super().__init__() is missing",
            "nn.Module keeps a list of its layers, and makes that list in its own __init__. Call super().__init__() "
            "before the first layer.",
            _InitForgotten,
        ),
        wrong(
            "chained",
            "Each projection starts from the one before",
            "k was computed from q, and v from k. All three layers take the same x.",
            _forward(_chained),
        ),
        wrong(
            "all_from_w_k",
            "Queries and keys come from the same layer",
            "q is computed with w_k; w_q exists and is never used, so it would never learn.",
            _forward(lambda m, x: (m.w_k(x), m.w_k(x), m.w_v(x))),
        ),
        wrong(
            "values_with_w_k",
            "The values are computed with the keys' layer",
            "v is computed with w_k; w_v exists and is never used, so it would never learn.",
            _forward(lambda m, x: (m.w_q(x), m.w_k(x), m.w_k(x))),
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "The three come back as q, v, k. Here it is q, k, v.",
            _forward(lambda m, x: (m.w_q(x), m.w_v(x), m.w_k(x))),
        ),
        wrong(
            "exchanged_and_scaled",
            "Queries and keys are exchanged, and the query is scaled",
            "Two things at once: q comes from w_q and k from w_k, and the root of d_k has its place in lesson 02.",
            _forward(lambda m, x: (m.w_k(x) / m.w_k.out_features**0.5, m.w_q(x), m.w_v(x))),
        ),
        wrong(
            "axes_exchanged",
            "Token and feature axes are exchanged",
            "q, k and v came back as (b, d, n). Leave the tokens where they are: (b, n, d).",
            _forward(lambda m, x: (m.w_q(x).mT, m.w_k(x).mT, m.w_v(x).mT)),
        ),
        wrong(
            "layers_returned",
            "The layers are returned, not what they compute",
            "`self.w_q` is a layer. Call it with the input: self.w_q(x).",
            _forward(lambda m, x: (m.w_q, m.w_k, m.w_v)),
        ),
        wrong(
            "matrices_returned",
            "The weights are returned, not what they compute",
            "`self.w_q.weight` is the layer's matrix. Call the layer with the input: self.w_q(x).",
            _forward(lambda m, x: (m.w_q.weight, m.w_k.weight, m.w_v.weight)),
        ),
        wrong(
            "weights_detached",
            "The gradient does not reach the weights",
            "`.data` or `.detach()` cuts the weights off, so that the layers would never learn. Call the layer: "
            "self.w_q(x).",
            _forward(_weights_detached),
        ),
        *(
            wrong(
                f"bias_of_{name}",
                f"`bias=False` does not reach {name}",
                f"{name} has a bias although bias=False was asked for. Pass the argument on to all three: "
                "nn.Linear(…, bias=bias).",
                _sized(_right_widths, biased=biased),
            )
            for name, biased in (
                ("w_k", lambda bias: (bias, True, True)),
                ("w_v", lambda bias: (bias, bias, True)),
            )
        ),
        *(
            wrong(
                f"no_bias_of_{'_and_'.join(names)}",
                f"`bias=True` does not reach {' and '.join(names)}",
                f"There is no bias in {' and '.join(names)}, whatever is asked for. Pass the argument on to all three: "
                "nn.Linear(…, bias=bias).",
                _sized(
                    _right_widths,
                    biased=lambda bias, names=names: tuple(
                        bias and name not in names for name in ("w_q", "w_k", "w_v")
                    ),
                ),
            )
            for names in (("w_q",), ("w_k",), ("w_v",), ("w_q", "w_k"), ("w_k", "w_v"), ("w_q", "w_v"))
        ),
        wrong(
            "no_bias_by_default",
            "`bias` is False where nothing is said",
            "The contract is QKVProjection(d_model, d_k, d_v, bias=True): who does not speak of a bias gets one.",
            _NoBiasByDefault,
        ),
        wrong(
            "bias_turned_round",
            "The bias is there when it should not be",
            "With bias=True the layers have none, with bias=False they have one. Pass the argument on as it is.",
            _sized(_right_widths, biased=lambda bias: (not bias,) * 3),
        ),
        wrong(
            "bias_argument_missing",
            "The constructor does not take `bias`",
            "The contract is QKVProjection(d_model, d_k, d_v, bias=True). Add the argument, and pass it on.",
            _BiasArgumentMissing,
        ),
        *mistakes_in_three_layers(_sized, _layers, nn.Linear),
        wrong(
            "one_layer_for_all",
            "One layer in place of three",
            "Fused weights are the exercise before. Here three layers are asked for, w_q, w_k and w_v.",
            _layers(lambda d_model, d_k, d_v, bias: {"w_qkv": nn.Linear(d_model, 2 * d_k + d_v, bias=bias)}),
        ),
        wrong(
            "layers_in_a_module_list",
            "The layers have numbers in place of names",
            "In an nn.ModuleList the layers are called 0, 1 and 2. They have to be w_q, w_k and w_v.",
            _layers(
                lambda d_model, d_k, d_v, bias: {
                    "layers": nn.ModuleList(nn.Linear(d_model, d, bias=bias) for d in (d_k, d_k, d_v))
                }
            ),
        ),
        wrong(
            "output_layer_added",
            "There is a fourth layer, w_o",
            "Multi-head attention has one, and it comes in lesson 03. Here there are three: w_q, w_k and w_v.",
            _layers(
                lambda d_model, d_k, d_v, bias: {
                    **dict(_Right(d_model, d_k, d_v, bias).named_children()),
                    "w_o": nn.Linear(d_v, d_model, bias=bias),
                }
            ),
        ),
        *mistakes_of_order(_reordered, "k_q_v", "q_v_k", "v_k_q", "q_q_v", "q_k_k", "k_k_v"),
        *mistakes_before_and_after(_around),
        *chained_projections(_around),
        *scaled_projections(_around),
        *slips(_Right, outputs=3),
        *usual_misconceptions(_Right),
    ),
)
