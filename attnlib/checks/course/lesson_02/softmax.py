"""The exercise `softmax` of lesson 02."""

import math

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import SOFTMAX
from attnlib.checks.course.slips.attention import Share
from attnlib.checks.course.steps import CourseExercise, Step, along_with, each, spells
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case


def _scores(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (draw.normal(*shape, scale=1.5, shift=0.5),)


def _large_scores(draw: Draw) -> tuple[Tensor]:
    small = draw.normal(3, 5)
    return (torch.stack([small + 1e4, small - 1e4, small]).to(draw.dtype),)


def _uneven_rows(draw: Draw) -> tuple[Tensor]:
    return (draw.normal(2, 3, 5) + torch.tensor([-1e4, 0.0, 1e4], dtype=draw.dtype).reshape(3, 1),)


def wide_rows(draw: Draw, *, span: float) -> Tensor:
    """Rows whose scores go from -span to span, in any order."""
    order = draw.normal(2, 5, 7).argsort(dim=-1)
    return draw.normal(2, 5, 7) + torch.linspace(-span, span, 7, dtype=draw.dtype)[order]


def _example() -> tuple[Tensor, ...]:
    return (torch.tensor([[0.0, math.log(2), math.log(5)], [1.0, 1.0, 1.0]]),)


class Shift(Step):
    """Each row's largest score is subtracted."""

    makes = ("shifted",)

    def right(self, scores: Tensor) -> Tensor:
        return scores - scores.amax(dim=-1, keepdim=True)

    def no_shift(self, scores: Tensor) -> Tensor:
        """exp overflows.

        exp(1e4) is larger than any float: inf / inf is NaN. Subtract each row's largest score first (the score, not its
        index): the result is the same, because numerator and denominator shrink by the same factor, and exp never sees
        a positive number.
        """
        return scores

    def global_shift(self, scores: Tensor) -> Tensor:
        """One maximum for the whole tensor.

        The largest score of *all* rows is subtracted. In a row far below it, every exp is 0, and 0 / 0 is NaN. Each row
        needs its own maximum: amax(dim=-1, keepdim=True).
        """
        return scores - scores.max()

    def mean_subtracted(self, scores: Tensor) -> Tensor:
        """The mean is subtracted, not the maximum.

        Any number may be subtracted from a row, but only the largest score keeps exp from overflowing. In a row that
        goes from -1e4 to 1e4 the mean is near 0, and exp(1e4) is still infinite. Subtract amax(dim=-1, keepdim=True).
        """
        return scores - scores.mean(dim=-1, keepdim=True)

    def minimum_subtracted(self, scores: Tensor) -> Tensor:
        """The smallest score is subtracted, not the largest.

        Every exponent is positive then, and the largest one overflows where the scores of a row are far apart. Subtract
        the largest, and exp never sees a positive number.
        """
        return scores - scores.amin(dim=-1, keepdim=True)

    def absolute_maximum(self, scores: Tensor) -> Tensor:
        """The largest absolute value is subtracted.

        In a row of large negative scores that is far above all of them: every exp is 0, and 0 / 0 is NaN. Subtract the
        largest score itself.
        """
        return scores - scores.abs().amax(dim=-1, keepdim=True)

    def maximum_added(self, scores: Tensor) -> Tensor:
        """The maximum is added, not subtracted.

        exp then sees numbers twice as large, and overflows all the sooner: scores - amax.
        """
        return scores + scores.amax(dim=-1, keepdim=True)

    def divided_by_maximum(self, scores: Tensor) -> Tensor:
        """Divided by the maximum, not shifted by it.

        Dividing changes the distances between the scores, and with them the weights. Only a number that is subtracted
        from the whole row cancels.
        """
        return self.right(scores / scores.amax(dim=-1, keepdim=True))

    def fixed_shift(self, scores: Tensor) -> Tensor:
        """A fixed number is subtracted.

        Whatever number you choose, there are scores for which it is too small, and others for which it is too large.
        Subtract each row's own largest score.
        """
        return scores - 100

    @each(limit=(50, 20, 30, 80))
    def clamped(self, scores: Tensor, limit: int) -> Tensor:
        """The scores are cut off.

        Clamping keeps exp finite and changes the answer: all scores beyond the limit look equal. Subtract the maximum
        instead.
        """
        return scores.clamp(-limit, limit)

    @each(limit=(80, 20, 30, 50))
    def clamped_above(self, scores: Tensor, limit: int) -> Tensor:
        """The scores are cut off above.

        Clamping keeps exp finite and changes the answer: all scores above the limit look equal, and a row far below
        zero is still 0 / 0. Subtract the maximum instead.
        """
        return scores.clamp(max=limit)

    def maximum_without_axis(self, scores: Tensor) -> Tensor:
        """The largest scores have lost an axis.

        Without keepdim=True the maxima have one axis fewer than the scores, and broadcasting lines them up with the
        columns instead of the rows: an error, or a wrong number in every row.
        """
        return scores - scores.amax(dim=-1)

    def pair_subtracted(self, scores: Tensor) -> Tensor:
        """`max` over an axis gives two results.

        With `dim`, torch.max gives back the largest values *and* their indices. Subtract the values alone:
        scores.max(dim=-1, keepdim=True).values, or amax.
        """
        return scores - scores.max(dim=-1, keepdim=True)  # type: ignore[operator]

    @each(axis=(-2, 0, 1))
    def shifted_by_axis(self, scores: Tensor, axis: int) -> Tensor:
        """The maximum is taken over another axis.

        The largest score of each *column* is subtracted, a different number from each score of a row, which changes the
        weights. One number is subtracted from a whole row: amax(dim=-1, keepdim=True).
        """
        return scores - scores.amax(dim=axis, keepdim=True)

    def scaled_by_root_k(self, scores: Tensor) -> Tensor:
        """The scores are scaled here.

        The scores are divided by the root of their number. The scale is that of attention_scores, √d, and is in the
        scores already.
        """
        return self.right(scores / scores.shape[-1] ** 0.5)

    def sign_turned(self, scores: Tensor) -> Tensor:
        """The smallest score wins.

        The sign of the exponent is turned: exp(max - s) instead of exp(s - max).
        """
        return self.right(-scores)


class Powers(Step):
    """e to the power of each."""

    makes = ("powers",)

    def right(self, shifted: Tensor) -> Tensor:
        return shifted.exp()

    def base_two(self, shifted: Tensor) -> Tensor:
        """Powers of 2 instead of e.

        2 ** s grows more slowly than e ** s, so that the weights come out flatter. Use torch.exp.
        """
        return 2**shifted

    def shifted_too_late(self, scores: Tensor) -> Tensor:
        """The maximum is subtracted after the exp.

        exp has overflowed by then, and a difference of exponentials is another weight. Subtract from the scores, before
        exp sees them.
        """
        return scores.exp() - scores.exp().amax(dim=-1, keepdim=True)

    def no_exponential(self, scores: Tensor) -> Tensor:
        """Divided by the sum without exp.

        There is no exp. Scores divided by their sum are negative where scores are, and the sum may be zero; squares and
        absolute values count a very bad fit as a very good one. exp makes every number positive and keeps the order.
        """
        return scores

    @spells(no_exponential)
    def no_exponential_shifted(self, scores: Tensor) -> Tensor:
        return scores - scores.amin(dim=-1, keepdim=True)

    @spells(no_exponential)
    def absolute_scores(self, scores: Tensor) -> Tensor:
        return scores.abs()

    @spells(no_exponential)
    def squares(self, scores: Tensor) -> Tensor:
        return scores**2

    def sigmoid_shared(self, scores: Tensor) -> Tensor:
        """Sigmoid instead of exp.

        The numbers of a row add up to 1, but sigmoid flattens large scores. Use torch.exp.
        """
        return scores.sigmoid()


class Sums(Step):
    """The sum of each row."""

    makes = ("sums",)

    def right(self, powers: Tensor) -> Tensor:
        return powers.sum(dim=-1, keepdim=True)

    @each(axis=(1, 0, -2))
    def summed_over_axis(self, powers: Tensor, axis: int) -> Tensor:
        """The sum is taken over another axis.

        The exponentials are added up down the columns, so that the rows do not add up to 1: sum(dim=-1, keepdim=True).
        """
        return powers.sum(dim=axis, keepdim=True)

    def sum_of_everything(self, powers: Tensor) -> Tensor:
        """One sum for the whole tensor.

        All numbers together add up to 1, instead of each row. Sum over the last axis only, with keepdim=True.
        """
        return powers.sum()

    @each(digits=(9, 3, 5, 6, 8))
    def epsilon(self, powers: Tensor, digits: int) -> Tensor:
        """Something is added to the sum.

        The rows then add up to a little less than 1. Once the maximum is subtracted, the sum is at least 1, and nothing
        has to be kept from zero.
        """
        return self.right(powers) + 10.0**-digits

    def one_added(self, powers: Tensor) -> Tensor:
        """1 is added to the sum.

        The rows then add up to less than 1, as if there were one more key whose weight is thrown away. Divide by the
        plain sum.
        """
        return self.right(powers) + 1

    def shifted_above_only(self, scores: Tensor) -> Tensor:
        """The maximum is subtracted in the numerator only.

        Numerator and denominator have to shrink by the same factor. Keep the exponentials of the shifted scores, and
        add *those* up.
        """
        return self.right(scores.exp())

    def divided_by_mean(self, powers: Tensor) -> Tensor:
        """Divided by the mean, not by the sum.

        The rows add up to the number of keys. Divide by the sum, and they add up to 1.
        """
        return powers.mean(dim=-1, keepdim=True)

    def unit_length(self, powers: Tensor) -> Tensor:
        """The rows have length 1, not sum 1.

        `norm` and `F.normalize` take the root of the sum of squares. Weights are divided by their plain sum.
        """
        length: Tensor = powers.norm(dim=-1, keepdim=True)
        return length

    def sum_detached(self, powers: Tensor) -> Tensor:
        """The gradient does not flow through the sum.

        The values are right. But when one weight grows, the others shrink, and a detached sum hides that from autograd.
        """
        return self.right(powers).detach()


class Divide(Share):
    """Each row, divided by its sum. What goes wrong with a softmax anywhere goes wrong here, too."""

    def right(self, powers: Tensor, sums: Tensor) -> Tensor:  # type: ignore[override]
        return powers / sums

    def _among(self, scores: Tensor, allowed: Tensor | None = None, dim: int = -1) -> Tensor:
        """Without torch's softmax, which the exercise forbids."""
        powers = (scores - scores.amax(dim=dim, keepdim=True)).exp()
        return powers / powers.sum(dim=dim, keepdim=True)

    def sum_without_axis(self, powers: Tensor) -> Tensor:
        return powers / powers.sum(dim=-1)

    def not_normalised(self, powers: Tensor) -> Tensor:
        return powers

    def logarithm(self, scores: Tensor) -> Tensor:
        return self._among(scores).log()

    def equal_weights(self, scores: Tensor) -> Tensor:
        return self._among(scores * 0)

    def axis_of_softmax_left_out(self, scores: Tensor) -> Tensor:
        return self._among(scores, dim=0 if scores.dim() in (0, 1, 3) else 1)

    def over_each_entry(self, scores: Tensor) -> Tensor:
        """One softmax for each entry of the first axis.

        The loop goes over the first axis, and what it meets there is not a row yet unless the scores are a matrix. A
        row is the last axis: dim=-1, with no loop.
        """
        return self._among(scores.reshape(len(scores), -1)).reshape(scores.shape)

    @along_with("no_shift")
    def nan_to_zero(self, powers: Tensor, sums: Tensor) -> Tensor:
        """NaN is swept under the carpet.

        Where exp overflowed, NaN has been replaced, and the row no longer adds up to 1. Subtract the maximum, and there
        is no NaN.
        """
        return torch.nan_to_num(powers / sums)


SOFTMAX_EXERCISE = CourseExercise(
    name="softmax",
    lesson="02_scaled_dot_product_attention",
    contract="(…, k) -> (…, k), rows of positive numbers that add up to 1; finite for scores of ±1e4",
    parts={"values": 2, "large scores": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.softmax,
    forbidden=("attnlib.softmax", "attnlib.masked_softmax", SOFTMAX),
    cases=(
        *usual_cases(
            _scores,
            {"shape": (2, 5, 7)},
            one={"shape": (1, 2, 3, 5)},
            word={"shape": (2, 1, 1)},
            more=[{"shape": (3, 2, 5, 11)}, {"shape": (13,)}, {"shape": (7, 3)}, {"shape": (2, 3, 1)}],
        ),
        # where a lost axis raises no error, the numbers tell which one it was
        Case(name="as many rows as columns", inputs=lambda draw: _scores(draw, shape=(5, 5))),
        Case(
            name="scores near 10000 and -10000",
            inputs=_large_scores,
            part="large scores",
            magnitude=1e4,
            dtype=torch.float64,
        ),
        Case(name="rows far apart from one another", inputs=_uneven_rows, part="large scores", magnitude=1e4),
        Case(
            name="a row with scores from -60 to 60",
            inputs=lambda draw: (wide_rows(draw, span=60.0),),
            part="large scores",
            magnitude=60.0,
        ),
        Case(
            name="scores near 65",  # where exp is large and finite, and a limit below it makes all scores equal
            inputs=lambda draw: (draw.normal(2, 3, 5, shift=65.0),),
            part="large scores",
            magnitude=65.0,
        ),
        Case(
            name="a row with scores from -10000 to 10000",
            inputs=lambda draw: (wide_rows(draw, span=1e4),),
            part="large scores",
            magnitude=1e4,
        ),
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
    example=_example,
    made_of=(Shift, Powers, Sums, Divide),
    pairs=("no_shift", "maximum_without_axis", "sum_without_axis", "summed_over_axis", "epsilon"),
    without=(
        "over_heads",
        "no_softmax",
        "causal",
        "softmax_in_float32",
        "exp_overflows",
        "maximum_without_axis_and_epsilon",
        "sum_without_axis_and_summed_over_axis",
        "sum_without_axis_and_epsilon",
    ),
)
