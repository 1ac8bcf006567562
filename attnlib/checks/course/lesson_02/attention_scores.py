"""The exercise `attention_scores` of lesson 02."""

import math
from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.slips.attention import Compare, Scale
from attnlib.checks.course.steps import CourseExercise, spells
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def _queries_keys(draw: Draw, *, lead: tuple[int, ...], q: int, k: int, d: int) -> tuple[Tensor, Tensor]:
    d = draw.d_head(d)
    return draw.normal(*lead, q, d), draw.normal(*lead, k, d)


def _small_queries_keys() -> tuple[Tensor, Tensor]:
    return torch.tensor([[2.0, 0, 0, 0], [0, 2.0, 0, 2.0]]), torch.tensor(
        [[3.0, 0, 0, 0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 4.0]]
    )


def scaled(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1])


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)


class Scores(Scale):
    """Here the scores are the answer."""

    def softmax_already(self, products: Tensor, q: Tensor) -> Tensor:
        """The softmax is taken already.

        The rows add up to 1: these are weights, not scores. The softmax is the next exercise.
        """
        return self.right(products, q).softmax(dim=-1)

    @spells(softmax_already)
    def softmax_already_unscaled(self, products: Tensor) -> Tensor:
        return products.softmax(dim=-1)

    def maximum_subtracted(self, products: Tensor, q: Tensor) -> Tensor:
        """The largest score is subtracted already.

        That is the first step of a softmax that does not break, and belongs to the next exercise.
        """
        return self.right(products, q) - self.right(products, q).amax(dim=-1, keepdim=True)

    def later_keys_hidden(self, products: Tensor, q: Tensor) -> Tensor:
        """The scores of later keys are hidden.

        A causal mask comes in lesson 05. Here every query meets every key.
        """
        return causal(self.right(products, q))

    def keys_counted_as_queries(self, products: Tensor, q: Tensor) -> Tensor:
        """It works only for as many keys as queries.

        The number of queries stands in for the number of keys: the result is (…, q, q), or an index is too large. Take
        it from k.shape.
        """
        return torch.stack([self.right(products, q)[..., j] for j in range(q.shape[-2])], -1)


ATTENTION_SCORES = CourseExercise(
    name="attention_scores",
    lesson="02_scaled_dot_product_attention",
    contract="(…, q, d), (…, k, d) -> (…, q, k), scaled by 1/√d",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.attention_scores,
    forbidden=("attnlib.attention_scores", ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _queries_keys,
            {"lead": (2,), "q": 5, "k": 7, "d": 3},
            one={"lead": (1, 7), "q": 3, "k": 2, "d": 5},
            more=[
                {"lead": (2, 3), "q": 5, "k": 11, "d": 7},
                {"lead": (), "q": 13, "k": 3, "d": 11},
                {"lead": (3,), "q": 7, "k": 7, "d": 7},
                {"lead": (2, 1, 3), "q": 1, "k": 5, "d": 2},
            ],
        ),
        Case(name="no leading axis", inputs=partial(_queries_keys, lead=(), q=5, k=7, d=3)),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="all axes of one length", inputs=partial(_queries_keys, lead=(3,), q=3, k=3, d=3)),
        Case(name="queries and keys of one number", inputs=partial(_queries_keys, lead=(2,), q=5, k=7, d=1)),
    ),
    example=_small_queries_keys,
    made_of=(Compare, Scores),
    pairs=("exchanged", "no_scale", "scaled_by_d", "multiplied_by_root_d", "scaled_by_root_k", "scaled_by_root_q"),
)
