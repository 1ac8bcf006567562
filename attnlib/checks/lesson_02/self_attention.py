"""The exercise `SelfAttention` of lesson 02."""

from torch import Tensor, nn

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise
from attnlib.checks.lesson_02.scaled_dot_product_attention import attend, attention_misconceptions, weighted
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.watch import ATTENTION


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
    lesson="02_scaled_dot_product_attention",
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
        *usual_misconceptions(_self_attention(lambda s, x, q, k, v: attend(q, k, v))),
    ),
)
