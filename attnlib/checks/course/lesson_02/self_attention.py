"""The exercise `SelfAttention` of lesson 02."""

from functools import partial

from torch import Tensor, nn

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import LEADING_AXES, Compare, Give, Mix, Scale, Share
from attnlib.checks.course.slips.projections import Layers, OfItself, ProjectWithLayers, ThreeLayers
from attnlib.checks.course.steps import CourseExercise, spells
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Inputs


class SelfAttention(attnlib.SelfAttention):
    """The contract's form: the weights are always returned."""

    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _module_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, int, int]) -> tuple[Inputs, Inputs]:
    d_model, d_k, d_v = sizes
    return (d_model, draw.d_head(d_k), d_v), (draw.normal(b, n, d_model),)


class PlainLayers(ThreeLayers):
    """The module's projections are plain matrices, without a bias."""

    def with_bias(self, d_model: int, d_k: int, d_v: int) -> Layers:
        """The layers have a bias.

        nn.Linear adds a bias unless it is told not to. This module's projections are plain matrices: bias=False.
        """
        return self.right(d_model, d_k, d_v, bias=True)

    @spells(with_bias)
    def bias_of_w_v(self, d_model: int, d_k: int, d_v: int) -> Layers:
        return *self.right(d_model, d_k, d_v)[:2], nn.Linear(d_model, d_v)


class CompareSentences(Compare):
    """Sentences of a batch are compared one by one."""


class GiveSentences(Give):
    """Each sentence has weights of its own, and each word an output."""

    def weights_averaged(self, output: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """The weights are averaged over the batch.

        Every sentence has weights of its own: (b, n, n).
        """
        return output, weights.mean(dim=0)


SELF_ATTENTION = CourseExercise(
    name="SelfAttention",
    lesson="02_scaled_dot_product_attention",
    contract="SelfAttention(d_model, d_k, d_v), forward: (b, n, d_model) -> output (b, n, d_v), weights (b, n, n)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    reference=SelfAttention,
    attends=True,
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
        Case(name="every width is 1", inputs=partial(_module_inputs, b=2, n=5, sizes=(1, 1, 1))),
    ),
    made_of=(PlainLayers, OfItself, ProjectWithLayers, CompareSentences, Scale, Share, Mix, GiveSentences),
    pairs=(
        "exchanged",
        "no_scale",
        "scaled_by_d",
        "scaled_by_root_d_model",
        "scaled_by_root_k",
        "over_queries",
        "over_first_axis",
        "no_softmax",
        "order_returned",
    ),
    without=(*LEADING_AXES, "over_heads", "scaled_by_root_q", "one_length_only", "biases_unused"),
)
