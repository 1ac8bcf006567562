"""The exercise `softmax` of lesson 02."""

import math

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import SOFTMAX
from attnlib.checks.course.lesson_00.slips import slips
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


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


def _exponentials(scores: Tensor) -> Tensor:
    return torch.exp(scores - scores.amax(dim=-1, keepdim=True))


def _shifted(scores: Tensor, shift: Tensor) -> Tensor:
    exponentials = torch.exp(scores - shift)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def _softmax(scores: Tensor, axis: int = -1) -> Tensor:
    """Right, and without torch's softmax, which the exercise forbids."""
    exponentials = torch.exp(scores - scores.amax(dim=axis, keepdim=True))
    return exponentials / exponentials.sum(dim=axis, keepdim=True)


def _example() -> tuple[Tensor, ...]:
    return (torch.tensor([[0.0, math.log(2), math.log(5)], [1.0, 1.0, 1.0]]),)


def _without_keepdim(scores: Tensor) -> Tensor:
    exponentials = torch.exp(scores - scores.amax(dim=-1))
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


SOFTMAX_EXERCISE = Exercise(
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
            "exp(1e4) is larger than any float: inf / inf is NaN. Subtract each row's largest score first (the score, "
            "not its index): the result is the same, because numerator and denominator shrink by the same factor, and "
            "exp never sees a positive number.",
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
            "mean_subtracted",
            "The mean is subtracted, not the maximum",
            "Any number may be subtracted from a row, but only the largest score keeps exp from overflowing. In a row "
            "that goes from -1e4 to 1e4 the mean is near 0, and exp(1e4) is still infinite. Subtract amax(dim=-1, "
            "keepdim=True).",
            lambda scores: _shifted(scores, scores.mean(dim=-1, keepdim=True)),
        ),
        wrong(
            "minimum_subtracted",
            "The smallest score is subtracted, not the largest",
            "Every exponent is positive then, and the largest one overflows where the scores of a row lie far apart. "
            "Subtract the largest, and exp never sees a positive number.",
            lambda scores: _shifted(scores, scores.amin(dim=-1, keepdim=True)),
        ),
        wrong(
            "clamped",
            "The scores are cut off",
            "Clamping keeps exp finite and changes the answer: all scores beyond the limit look equal. Subtract the "
            "maximum.",
            lambda scores: _softmax(scores.clamp(-50, 50)),
        ),
        *(
            wrong(
                f"clamped_at_{limit}",
                "The scores are cut off",
                "Clamping keeps exp finite and changes the answer: all scores beyond the limit look equal. "
                "Subtract the maximum.",
                lambda scores, limit=limit: _shifted(scores.clamp(-limit, limit), scores.new_zeros(())),
            )
            for limit in (20, 30, 80)
        ),
        *(
            wrong(
                f"clamped_above_at_{limit}",
                "The scores are cut off",
                "Clamping keeps exp finite and changes the answer: all scores above the limit look equal, and a row "
                "far below zero is still 0 / 0. Subtract the maximum.",
                lambda scores, limit=limit: _shifted(scores.clamp(max=limit), scores.new_zeros(())),
            )
            for limit in (20, 30, 50)
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
        wrong(
            "maximum_without_axis",
            "The largest scores have lost an axis",
            "Without keepdim=True the maxima have one axis fewer than the scores, and broadcasting lines them up with "
            "the columns instead of the rows: an error, or a wrong number in every row.",
            _without_keepdim,
        ),
        wrong(
            "sum_without_axis",
            "The sums have lost an axis",
            "Without keepdim=True the sums have one axis fewer than the scores, and broadcasting lines them up with "
            "the columns instead of the rows: an error, or a wrong number in every row.",
            lambda scores: _exponentials(scores) / _exponentials(scores).sum(dim=-1),
        ),
        wrong(
            "sum_without_axis_unshifted",
            "The sums have lost an axis",
            "Without keepdim=True the sums have one axis fewer than the scores, and broadcasting lines them up with "
            "the columns instead of the rows. The exponentials overflow, too: exp(1e4) is inf.",
            lambda scores: torch.exp(scores) / torch.exp(scores).sum(dim=-1),
        ),
        wrong(
            "both_without_axis",
            "The largest scores and the sums have lost an axis",
            "Without keepdim=True both have one axis fewer than the scores, and broadcasting lines them up with "
            "the columns instead of the rows: an error, or a wrong number in every row.",
            lambda scores: (e := torch.exp(scores - scores.amax(dim=-1))) / e.sum(dim=-1),
        ),
        wrong(
            "pair_subtracted",
            "`max` over an axis gives two results",
            "With `dim`, torch.max gives back the largest values *and* where they stand. Subtract the values alone: "
            "scores.max(dim=-1, keepdim=True).values, or amax.",
            lambda scores: torch.exp(scores - scores.max(dim=-1, keepdim=True)),
        ),
        wrong(
            "over_axis_one",
            "The softmax runs over axis 1",
            "Axis 1 is the last one of a matrix only. Whatever comes before it, a row lies on the last axis: dim=-1.",
            lambda scores: _softmax(scores, 1),
        ),
        wrong(
            "over_axis_one_unshifted",
            "The softmax runs over axis 1, and exp overflows",
            "Axis 1 is the last one of a matrix only: dim=-1. And the largest score has to be subtracted first.",
            lambda scores: torch.exp(scores) / torch.exp(scores).sum(dim=1, keepdim=True),
        ),
        *(
            wrong(
                f"shifted_by_axis_{name}",
                "The maximum is taken over another axis",
                "The largest score of each *column* is subtracted, a different number from each score of a row, which "
                "changes the weights. One number is subtracted from a whole row: amax(dim=-1, keepdim=True).",
                lambda scores, axis=axis: _shifted(scores, scores.amax(dim=axis, keepdim=True)),
            )
            for name, axis in (("zero", 0), ("one", 1), ("before_last", -2))
        ),
        *(
            wrong(
                f"summed_over_axis_{name}",
                "The sum is taken over another axis",
                "The largest score is that of the row, but the exponentials are added up down the columns, so that the "
                "rows do not add up to 1: sum(dim=-1, keepdim=True).",
                lambda scores, axis=axis: _exponentials(scores) / _exponentials(scores).sum(dim=axis, keepdim=True),
            )
            for name, axis in (("zero", 0), ("one", 1), ("before_last", -2))
        ),
        wrong(
            "sum_of_everything",
            "One sum for the whole tensor",
            "All numbers together add up to 1, instead of each row. Sum over the last axis only, with keepdim=True.",
            lambda scores: _exponentials(scores) / _exponentials(scores).sum(),
        ),
        wrong(
            "over_each_entry",
            "One softmax for each entry of the first axis",
            "The loop goes over the first axis, and what it meets there is not a row yet unless the scores are a "
            "matrix. A row lies along the last axis: dim=-1, with no loop.",
            lambda scores: _softmax(scores.reshape(len(scores), -1)).reshape(scores.shape),
        ),
        wrong(
            "clamped_above",
            "The scores are cut off",
            "Clamping keeps exp finite and changes the answer: all scores above the limit look equal, and a row far "
            "below zero is still 0 / 0. Subtract the maximum.",
            lambda scores: torch.exp(scores.clamp(max=80)) / torch.exp(scores.clamp(max=80)).sum(-1, keepdim=True),
        ),
        *(
            wrong(
                f"epsilon_{digits}",
                "Something is added to the sum",
                "The rows then add up to a little less than 1. Once the maximum is subtracted, the sum is at least 1, "
                "and nothing has to be kept from zero.",
                lambda scores, digits=digits: (
                    _exponentials(scores) / (_exponentials(scores).sum(dim=-1, keepdim=True) + 10.0**-digits)
                ),
            )
            for digits in (3, 5, 6, 8, 9)
        ),
        wrong(
            "one_added",
            "1 is added to the sum",
            "The rows then add up to less than 1, as if there were one more key whose weight is thrown away. Divide "
            "by the plain sum.",
            lambda scores: _exponentials(scores) / (1 + _exponentials(scores).sum(dim=-1, keepdim=True)),
        ),
        wrong(
            "shifted_too_late",
            "The maximum is subtracted behind the exp",
            "exp has overflowed by then, and a difference of exponentials is another weight. Subtract from the scores, "
            "before exp sees them.",
            lambda scores: (e := scores.exp() - scores.exp().amax(-1, keepdim=True)) / e.sum(-1, keepdim=True),
        ),
        wrong(
            "squares",
            "Squares in place of exp",
            "A square is positive, but a very bad fit counts as much as a very good one then. exp keeps the order.",
            lambda scores: scores**2 / (scores**2).sum(dim=-1, keepdim=True),
        ),
        wrong(
            "epsilon_unshifted",
            "exp overflows",
            "A small number in the denominator does not help: exp(1e4) is larger than any float, and inf / inf is NaN. "
            "Subtract each row's largest score first.",
            lambda scores: torch.exp(scores) / (torch.exp(scores).sum(dim=-1, keepdim=True) + 1e-9),
        ),
        wrong(
            "shifted_above_only",
            "The maximum is subtracted above the line only",
            "Numerator and denominator have to shrink by the same factor. Keep the exponentials of the shifted scores, "
            "and add *those* up.",
            lambda scores: _exponentials(scores) / torch.exp(scores).sum(dim=-1, keepdim=True),
        ),
        wrong(
            "maximum_added",
            "The maximum is added, not subtracted",
            "exp then sees numbers twice as large, and overflows all the sooner: scores - amax.",
            lambda scores: _shifted(scores, -scores.amax(dim=-1, keepdim=True)),
        ),
        wrong(
            "divided_by_maximum",
            "Divided by the maximum, not shifted by it",
            "Dividing changes the distances between the scores, and with them the weights. Only a number that is "
            "subtracted from the whole row cancels.",
            lambda scores: _softmax(scores / scores.amax(dim=-1, keepdim=True)),
        ),
        wrong(
            "absolute_maximum",
            "The largest absolute value is subtracted",
            "In a row of large negative scores that is far above all of them: every exp is 0, and 0 / 0 is NaN. "
            "Subtract the largest score itself.",
            lambda scores: _shifted(scores, scores.abs().amax(dim=-1, keepdim=True)),
        ),
        wrong(
            "fixed_shift",
            "A fixed number is subtracted",
            "Whatever number you choose, there are scores for which it is too small, and others for which it is too "
            "large. Subtract each row's own largest score.",
            lambda scores: _shifted(scores, torch.tensor(100.0, dtype=scores.dtype)),
        ),
        wrong(
            "divided_by_mean",
            "Divided by the mean, not by the sum",
            "The rows add up to the number of keys. Divide by the sum, and they add up to 1.",
            lambda scores: _softmax(scores) * scores.shape[-1],
        ),
        wrong(
            "unit_length",
            "The rows have length 1, not sum 1",
            "`norm` and `F.normalize` take the root of the sum of squares. Weights are divided by their plain sum.",
            lambda scores: _exponentials(scores) / _exponentials(scores).norm(dim=-1, keepdim=True),
        ),
        wrong(
            "winner_takes_all",
            "Only the largest score gets a weight",
            "That is argmax, which has no gradient. A softmax gives every key its share: exp, then divide by the sum.",
            lambda scores: torch.nn.functional.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype),
        ),
        wrong(
            "no_exponential_shifted",
            "Divided by the sum without exp",
            "The smallest score is subtracted, so nothing is negative, but there is no exp: a difference between two "
            "scores has to become a *ratio* of two weights.",
            lambda scores: (s := scores - scores.amin(dim=-1, keepdim=True)) / s.sum(dim=-1, keepdim=True),
        ),
        wrong(
            "absolute_scores",
            "Divided by the sum without exp",
            "The sign of the scores is dropped, so a very bad fit counts as much as a very good one. exp makes every "
            "number positive and keeps the order.",
            lambda scores: scores.abs() / scores.abs().sum(dim=-1, keepdim=True),
        ),
        wrong(
            "sigmoid_shared",
            "Sigmoid instead of exp",
            "The numbers of a row add up to 1, but sigmoid flattens large scores. Use torch.exp.",
            lambda scores: torch.sigmoid(scores) / torch.sigmoid(scores).sum(dim=-1, keepdim=True),
        ),
        wrong(
            "scaled_by_root_k",
            "The scores are scaled here",
            "The scores are divided by the root of their number. The scale is that of attention_scores, √d, and is in "
            "the scores already.",
            lambda scores: _softmax(scores / scores.shape[-1] ** 0.5),
        ),
        wrong(
            "sum_detached",
            "The gradient does not flow through the sum",
            "The values are right. But when one weight grows, the others shrink, and a detached sum hides that from "
            "autograd.",
            lambda scores: _exponentials(scores) / _exponentials(scores).sum(dim=-1, keepdim=True).detach(),
        ),
        *slips(_softmax, batch=False),
        *usual_misconceptions(_softmax, example=_example),
    ),
)
