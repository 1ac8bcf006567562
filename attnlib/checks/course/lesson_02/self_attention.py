"""The exercise `SelfAttention` of lesson 02."""

from functools import partial

import torch
from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.lesson_00.slips import slips
from attnlib.checks.course.lesson_01.three_layers import (
    chained_projections,
    mistakes_before_and_after,
    mistakes_in_three_layers,
)
from attnlib.checks.course.lesson_02.attention_scores import scaled
from attnlib.checks.course.lesson_02.scaled_dot_product_attention import (
    attend,
    attention_misconceptions,
    more_attention_misconceptions,
    weighted,
)
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, without, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


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


def _around(compute):
    """A module that attends with `compute(x, w_q, w_k, w_v)`."""
    return _self_attention(lambda s, x, q, k, v: attend(*compute(x, s.w_q, s.w_k, s.w_v)))


def _without_itself(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), -torch.inf)


class _WithBias(SelfAttention):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)
        self.w_q, self.w_k, self.w_v = nn.Linear(d_model, d_k), nn.Linear(d_model, d_k), nn.Linear(d_model, d_v)


class _Right(SelfAttention):
    """The same without attnlib's forward, for the mistakes below to change."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return attend(self.w_q(x), self.w_k(x), self.w_v(x))


def _layers(make):
    """A module whose layers by name are `make(d_model, d_k, d_v)`."""

    class Wrong(_Right):
        def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
            nn.Module.__init__(self)
            for name, layer in make(d_model, d_k, d_v).items():
                setattr(self, name, layer)

    return Wrong


def _sized(widths):
    """Layers of the right names, from and to `widths(d_model, d_k, d_v)`."""
    return _layers(
        lambda d_model, d_k, d_v: {
            name: nn.Linear(size[0], size[1], bias=False)
            for name, size in zip(("w_q", "w_k", "w_v"), widths(d_model, d_k, d_v), strict=True)
        }
    )


class _BiasOfValues(SelfAttention):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)
        self.w_v = nn.Linear(d_model, d_v)


class _OutputLayer(SelfAttention):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)
        self.w_o = nn.Linear(d_v, d_model, bias=False)


class _InitForgotten(SelfAttention):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        self.w_q = nn.Linear(d_model, d_k, bias=False)


def _first_entry(outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return outputs[0][0], outputs[1][0]


SELF_ATTENTION = Exercise(
    name="SelfAttention",
    lesson="02_scaled_dot_product_attention",
    contract="SelfAttention(d_model, d_k, d_v), forward: (b, n, d_model) -> output (b, n, d_v), weights (b, n, n)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    reference=SelfAttention,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _module_inputs,
            {"b": 2, "n": 5, "sizes": (7, 3, 11)},
            one={"b": 1, "n": 3, "sizes": (5, 2, 7)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5, 2)},
                {"b": 5, "n": 2, "sizes": (3, 3, 3)},
                {"b": 2, "n": 7, "sizes": (7, 7, 7)},
            ],
        ),
        # where nothing raises an error, the numbers tell what was multiplied with what
        Case(name="all axes of one length", inputs=partial(_module_inputs, b=3, n=3, sizes=(3, 3, 3))),
    ),
    misconceptions=(
        *(
            wrong(m.id, m.title, m.explanation, _self_attention(lambda s, x, q, k, v, f=m.implementation: f(q, k, v)))
            for m in (*attention_misconceptions(), *more_attention_misconceptions())
            if m.id not in ("keys_for_values", "three_axes_only", "over_heads", "scaled_by_root_q")
        ),
        wrong(
            "scaled_by_root_d_model",
            "Scaled by √d_model",
            "The scores are sums of d_k products, because queries and keys are d_k wide. d_model, the width of x, "
            "takes no part.",
            _self_attention(lambda s, x, q, k, v: weighted((q @ k.mT / x.shape[-1] ** 0.5).softmax(dim=-1), v)),
        ),
        wrong(
            "q_k_exchanged",
            "Queries and keys are exchanged",
            "The queries come from w_k and the keys from w_q: every row of scores has become a column. Each token "
            "then listens to those that look for it, not to those that it looks for.",
            _self_attention(lambda s, x, q, k, v: attend(k, q, v)),
        ),
        wrong(
            "keys_for_values",
            "The keys are averaged in place of the values",
            "The output is weights @ k: w_v is never used. A key is what is matched, a value what is brought back.",
            _self_attention(lambda s, x, q, k, v: weighted(attend(q, k, v)[1], k)),
        ),
        wrong(
            "value_is_x",
            "x is averaged in place of the values",
            "The output is weights @ x: w_v is never used.",
            _self_attention(lambda s, x, q, k, v: weighted(attend(q, k, v)[1], x)),
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
            _self_attention(lambda s, x, q, k, v: (attend(q, k, v)[0] + x, attend(q, k, v)[1])),
        ),
        wrong(
            "weights_forgotten",
            "Only the output is returned",
            "The contract is (output, weights): you will want to look at the weights.",
            _self_attention(lambda s, x, q, k, v: attend(q, k, v)[0]),
        ),
        wrong(
            "scores_of_x",
            "Queries and keys are x itself",
            "The scores come from x with x, so w_q and w_k do nothing. A word asks with its query and is found by its "
            "key: project first.",
            _self_attention(lambda module, x, q, k, v: attend(x, x * (x.shape[-1] / q.shape[-1]) ** 0.5, v)),
        ),
        wrong(
            "scores_of_x_by_d_model",
            "Queries and keys are x itself",
            "The scores come from x with x, so w_q and w_k do nothing. A word asks with its query and is found by its "
            "key: project first.",
            _self_attention(lambda s, x, q, k, v: attend(x, x, v)),
        ),
        wrong(
            "batches_mixed",
            "The sentences are mixed",
            "The scores run over every pair of sentences and are added up. Each sentence is a world of its own: the "
            "letter b has to stand in both inputs and in the output.",
            _self_attention(
                lambda s, x, q, k, v: weighted(
                    (torch.einsum("b q d, c k d -> b q k", q, k) / q.shape[-1] ** 0.5).softmax(dim=-1), v
                )
            ),
        ),
        wrong(
            "queries_twice",
            "Queries and keys come from the same layer",
            "The queries are compared with themselves, and w_k is never used. Every word then finds itself best.",
            _self_attention(lambda s, x, q, k, v: attend(q, q, v)),
        ),
        wrong(
            "keys_twice",
            "Queries and keys come from the same layer",
            "The keys are compared with themselves, and w_q is never used. Every word then finds itself best.",
            _self_attention(lambda s, x, q, k, v: attend(k, k, v)),
        ),
        wrong(
            "keys_values_exchanged",
            "Keys and values are exchanged",
            "The queries are compared with the values, and the keys are averaged. A key is what is matched, a value "
            "what is brought back.",
            _self_attention(lambda s, x, q, k, v: attend(q, v, k)),
        ),
        wrong(
            "nothing_projected",
            "The layers are not used",
            "Scores and mixture are made of x itself. Project first: self.w_q(x), self.w_k(x), self.w_v(x).",
            _self_attention(lambda s, x, q, k, v: attend(x, x, x)),
        ),
        wrong(
            "chained",
            "Each projection starts from the one before",
            "k was computed from q, and v from k. All three layers take the same x.",
            _self_attention(lambda s, x, q, k, v: attend(q, s.w_k(q), s.w_v(s.w_k(q)))),
        ),
        wrong(
            "weight_not_transposed",
            "A layer's weight has the widths the other way round",
            "The weight of nn.Linear is (d_out, d_in), so the product is x @ weight.T. Calling the layer does it: "
            "self.w_q(x).",
            _self_attention(lambda s, x, q, k, v: attend(x @ s.w_q.weight, x @ s.w_k.weight, x @ s.w_v.weight)),
        ),
        wrong(
            "words_and_features_exchanged",
            "The words and their features have changed places",
            "x came into the layers as (b, d_model, n). A layer works on the last axis, and that has to be d_model.",
            _self_attention(lambda s, x, q, k, v: attend(s.w_q(x.mT), s.w_k(x.mT), s.w_v(x.mT))),
        ),
        wrong(
            "unscaled_exchanged",
            "Queries and keys are exchanged, and the scale is missing",
            "Two things at once: the rows of the scores belong to the queries, and the scores are divided by √d_k.",
            _self_attention(lambda s, x, q, k, v: weighted((k @ q.mT).softmax(dim=-1), v)),
        ),
        wrong(
            "scaled_twice_over",
            "Scaled by √d_model as well",
            "The scores are divided by √d_k and by √d_model. The first is enough.",
            _self_attention(lambda s, x, q, k, v: attend(q / x.shape[-1] ** 0.5, k, v)),
        ),
        wrong(
            "bias_of_w_v",
            "w_v has a bias",
            "nn.Linear adds a bias unless it is told not to. All three projections are plain matrices: bias=False.",
            _BiasOfValues,
        ),
        wrong(
            "output_layer_added",
            "There is a fourth layer, w_o",
            "Multi-head attention has one, and it comes in lesson 03. Here there are three: w_q, w_k and w_v.",
            _OutputLayer,
        ),
        wrong(
            "init_forgotten",
            "super().__init__() is missing",
            "nn.Module keeps a list of its layers, and makes that list in its own __init__. Call super().__init__() "
            "before the first layer.",
            _InitForgotten,
        ),
        wrong(
            "value_width",
            "w_v has the width of the keys",
            "w_v maps to d_k. Values may have a width of their own, d_v: they never meet the keys in a dot product.",
            _sized(lambda d_model, d_k, d_v: ((d_model, d_k),) * 3),
        ),
        *mistakes_in_three_layers(_sized, _layers, partial(nn.Linear, bias=False)),
        wrong(
            "one_layer_for_all",
            "One layer in place of three",
            "Fused weights are an exercise of lesson 01. Here three layers are asked for, w_q, w_k and w_v.",
            _layers(lambda d_model, d_k, d_v: {"w_qkv": nn.Linear(d_model, 2 * d_k + d_v, bias=False)}),
        ),
        wrong(
            "words_averaged",
            "One vector for the whole sentence",
            "The outputs of the words are averaged. Every word keeps an output of its own: (b, n, d_v).",
            _self_attention(lambda s, x, q, k, v: (attend(q, k, v)[0].mean(dim=1), attend(q, k, v)[1])),
        ),
        *mistakes_before_and_after(_around),
        *chained_projections(_around),
        *(
            wrong(
                f"by_root_d_model_{name}",
                f"Scaled by √d_model, and {also}",
                f"Two things at once: the scores are divided by √d_k, the width of the queries, and {rather}.",
                _self_attention(lambda s, x, q, k, v, change=change: change(q @ k.mT * x.shape[-1] ** -0.5, v)),
            )
            for name, also, rather, change in (
                (
                    "over_queries",
                    "the softmax runs over the queries",
                    "the softmax runs over the keys, dim=-1",
                    lambda scores, v: weighted(scores.softmax(dim=-2), v),
                ),
                (
                    "over_first_axis",
                    "the softmax runs over the batch",
                    "the softmax runs over the keys, dim=-1",
                    lambda scores, v: weighted(scores.softmax(dim=0), v),
                ),
                (
                    "order_returned",
                    "the weights come first",
                    "the contract is (output, weights)",
                    lambda scores, v: weighted(scores.softmax(dim=-1), v)[::-1],
                ),
            )
        ),
        wrong(
            "itself_blocked",
            "A word may not look at itself",
            "The diagonal of the scores is blocked. Nothing here forbids a word its own position: every word meets "
            "every word, itself included.",
            _self_attention(lambda s, x, q, k, v: weighted(_without_itself(scaled(q, k)).softmax(dim=-1), v)),
        ),
        wrong(
            "itself_zeroed",
            "A word may not look at itself",
            "The diagonal of the weights is set to 0, and the rows add up to less than 1. Nothing here forbids a word "
            "its own position.",
            _self_attention(
                lambda s, x, q, k, v: weighted(
                    (w := scaled(q, k).softmax(dim=-1)) - w.diagonal(dim1=-2, dim2=-1).diag_embed(), v
                )
            ),
        ),
        *(
            wrong(name, title, explanation, _around(compute))
            for name, title, explanation, compute in (
                (
                    "queries_for_values",
                    "The queries are averaged in place of the values",
                    "The output is weights @ q: w_v is never used. A query asks; a value is what is brought back.",
                    lambda x, to_q, to_k, to_v: (to_q(x), to_k(x), to_q(x)),
                ),
                (
                    "values_for_keys",
                    "The values stand in for the keys",
                    "The queries are compared with the values, and w_k is never used. A key is what is matched.",
                    lambda x, to_q, to_k, to_v: (to_q(x), to_v(x), to_v(x)),
                ),
                (
                    "queries_values_exchanged",
                    "Queries and values are exchanged",
                    "The values are compared with the keys, and the queries are averaged. A query asks; a value is "
                    "what is brought back.",
                    lambda x, to_q, to_k, to_v: (to_v(x), to_k(x), to_q(x)),
                ),
            )
        ),
        wrong(
            "weights_averaged",
            "The weights are averaged over the batch",
            "Every sentence has weights of its own: (b, n, n).",
            _self_attention(lambda s, x, q, k, v: (attend(q, k, v)[0], attend(q, k, v)[1].mean(dim=0))),
        ),
        *without(slips(_Right, outputs=2), "one_tensor"),  # that is weights_forgotten
        *usual_misconceptions(_Right),
    ),
)
