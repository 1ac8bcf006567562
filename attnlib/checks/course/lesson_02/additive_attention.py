"""The stretch exercise `AdditiveAttention` of lesson 02: the score that came before the dot product."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import Give, Mix, Share
from attnlib.checks.course.slips.projections import Layers, three_layers
from attnlib.checks.course.steps import CourseExercise, Step
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case

Layer = Callable[[Tensor], Tensor]


class AdditiveAttention(nn.Module):
    """A small network judges each pair: tanh(W_1 q + W_2 k) · u."""

    def __init__(self, d_q: int, d_k: int, d_hidden: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_q, d_hidden, bias=False)
        self.w_2 = nn.Linear(d_k, d_hidden, bias=False)
        self.u = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.tanh(self.w_1(q).unsqueeze(-2) + self.w_2(k).unsqueeze(-3))
        weights = self.u(pairs).squeeze(-1).softmax(dim=-1)
        return weights @ v, weights


def _inputs(
    draw: Draw, *, b: int, q: int, k: int, sizes: tuple[int, int, int], d_v: int
) -> tuple[tuple[int, int, int], tuple[Tensor, Tensor, Tensor]]:
    d_q, d_k, _ = sizes
    return sizes, (draw.normal(b, q, d_q), draw.normal(b, k, d_k), draw.normal(b, k, d_v))


class Layers3(Step):
    """Two matrices that bring queries and keys to one width, and a vector that judges."""

    makes = ("w_1", "w_2", "u")
    in_constructor = True

    def right(self, d_q: int, d_k: int, d_hidden: int) -> Layers:
        return three_layers((d_q, d_hidden), (d_k, d_hidden), (d_hidden, 1), bias=False)

    def with_bias(self, d_q: int, d_k: int, d_hidden: int) -> Layers:
        """The layers have a bias.

        nn.Linear adds a bias unless it is told not to. Here all three are plain matrices: bias=False.
        """
        return three_layers((d_q, d_hidden), (d_k, d_hidden), (d_hidden, 1), bias=True)

    def judge_as_wide_as_hidden(self, d_q: int, d_k: int, d_hidden: int) -> Layers:
        """u does not end in one number.

        A score is one number for each pair: u goes from d_hidden to 1, nn.Linear(d_hidden, 1, bias=False).
        """
        return three_layers((d_q, d_hidden), (d_k, d_hidden), (d_hidden, d_hidden), bias=False)

    def one_width_for_both(self, d_q: int, d_hidden: int) -> Layers:
        """Queries and keys are taken to be equally wide.

        w_2 reads keys, which are d_k wide. Only after w_1 and w_2 do both have one width, d_hidden.
        """
        return three_layers((d_q, d_hidden), (d_q, d_hidden), (d_hidden, 1), bias=False)


class ShareOfScores(Share):
    """Who gets how much of each query's attention."""

    def over_an_axis_of_one(self, scores: Tensor) -> Tensor:
        """The softmax runs over an axis of length 1.

        u ends in one number, and until that axis is squeezed away it is the last one. A softmax over a single number
        is 1, so every weight is 1. Squeeze first: then the last axis is that of the keys.
        """
        return scores.unsqueeze(-1).softmax(dim=-1).squeeze(-1)


class Judge(Step):
    """One number for each query and key."""

    makes = ("scores",)

    def right(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        return u(torch.tanh(self._sums(q, k, w_1, w_2))).squeeze(-1)

    def _sums(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer) -> Tensor:
        return w_1(q).unsqueeze(-2) + w_2(k).unsqueeze(-3)

    def no_tanh(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """The tanh is missing.

        Without it the score is a sum of one number for the query and one for the key. The query's number is the same
        all along its row, so the softmax cancels it: every query looks at the same keys.
        """
        return u(self._sums(q, k, w_1, w_2)).squeeze(-1)

    def tanh_of_each(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """The tanh comes before the sum.

        tanh(W_1 q) + tanh(W_2 k) is again one number for the query plus one for the key, once u has judged it, and the
        softmax cancels the query's. Add first: the tanh is where query and key meet.
        """
        return u(torch.tanh(w_1(q)).unsqueeze(-2) + torch.tanh(w_2(k)).unsqueeze(-3)).squeeze(-1)

    def tanh_of_the_score(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """The tanh comes after u.

        It squeezes the finished score between -1 and 1. It belongs around the sum, before u judges: u(tanh(...)).
        """
        return torch.tanh(u(self._sums(q, k, w_1, w_2))).squeeze(-1)

    def relu_for_tanh(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """ReLU in place of tanh.

        It would learn, too, but it is another function. The paper of 2014 has tanh, and so does the formula here.
        """
        return u(F.relu(self._sums(q, k, w_1, w_2))).squeeze(-1)

    def sigmoid_for_tanh(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """A sigmoid in place of tanh.

        The sigmoid goes from 0 to 1, tanh from -1 to 1. The formula has tanh.
        """
        return u(torch.sigmoid(self._sums(q, k, w_1, w_2))).squeeze(-1)

    def multiplied(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """Query and key are multiplied, not added.

        A product of the two is what the dot product does. This attention is called additive because it adds.
        """
        return u(torch.tanh(w_1(q).unsqueeze(-2) * w_2(k).unsqueeze(-3))).squeeze(-1)

    def subtracted(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """Query and key are subtracted.

        The formula has a sum: W_1 q + W_2 k. (Training could turn the sign of W_2; the weights given here are fixed.)
        """
        return u(torch.tanh(w_1(q).unsqueeze(-2) - w_2(k).unsqueeze(-3))).squeeze(-1)

    def judge_left_out(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """u is not used.

        The hidden numbers are added up as they are. u says how much each of them counts, and in which direction.
        """
        return torch.tanh(self._sums(q, k, w_1, w_2)).sum(dim=-1)

    def scaled(self, q: Tensor, k: Tensor, w_1: nn.Linear, w_2: Layer, u: Layer) -> Tensor:
        """The scores are divided by a root.

        √d is the repair of the dot product, whose sum grows with d. Here tanh keeps every term between -1 and 1, and
        the formula has no scale.
        """
        return self.right(q, k, w_1, w_2, u) / math.sqrt(w_1.out_features)

    def scores_turned_round(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """Rows and columns of the scores are exchanged.

        Row i belongs to query i. Give the queries an axis of length 1 for the keys, unsqueeze(-2), and the keys one for
        the queries, unsqueeze(-3).
        """
        return self.right(q, k, w_1, w_2, u).mT

    def layers_exchanged(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """w_1 reads the keys, and w_2 the queries.

        The first matrix belongs to the query, the second to the key. Where both are equally wide, no error tells.
        """
        return self.right(q, k, w_2, w_1, u)

    def position_by_position(self, q: Tensor, k: Tensor, w_1: Layer, w_2: Layer, u: Layer) -> Tensor:
        """Query i meets key i only.

        (b, n, d) plus (b, n, d) adds position by position. Every query has to meet every key: one needs an axis of
        length 1 where the other has its words.
        """
        met = u(torch.tanh(w_1(q) + w_2(k))).squeeze(-1)
        return met.unsqueeze(-2).expand(*met.shape[:-1], q.shape[-2], k.shape[-2])


ADDITIVE_ATTENTION = CourseExercise(
    name="AdditiveAttention",
    lesson="02_scaled_dot_product_attention",
    contract="AdditiveAttention(d_q, d_k, d_hidden), forward: (b, q, d_q), (b, k, d_k), (b, k, d_v) -> output, weights",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    kind="module",
    stretch=True,
    reference=AdditiveAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.5,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "q": 5, "k": 7, "sizes": (11, 13, 3), "d_v": 17},
            one={"b": 1, "q": 3, "k": 2, "sizes": (7, 5, 11), "d_v": 2},
            more=[
                {"b": 3, "q": 2, "k": 11, "sizes": (5, 3, 7), "d_v": 13},
                {"b": 5, "q": 7, "k": 3, "sizes": (2, 11, 5), "d_v": 3},
            ],
        ),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(name="equal widths", inputs=partial(_inputs, b=2, q=3, k=5, sizes=(7, 7, 7), d_v=7)),
        Case(name="all axes of one length", inputs=partial(_inputs, b=3, q=3, k=3, sizes=(3, 3, 3), d_v=3)),
        Case(name="every width is 1", inputs=partial(_inputs, b=2, q=5, k=7, sizes=(1, 1, 1), d_v=1)),
    ),
    made_of=(Layers3, Judge, ShareOfScores, Mix, Give),
    pairs=("no_tanh", "scaled", "over_queries", "no_softmax", "order_returned"),
    few={
        ShareOfScores: ("over_an_axis_of_one", "over_queries", "over_first_axis", "no_softmax", "softmax_twice"),
        Mix: ("weights_transposed", "keys_for_values", "averaged"),
        Give: ("order_returned", "returns_scores"),
    },
)
