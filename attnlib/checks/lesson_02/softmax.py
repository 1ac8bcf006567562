"""The exercise `softmax` of lesson 02."""

import math

import torch
from torch import Tensor

import attnlib
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.watch import SOFTMAX


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
            name="a row with scores from -60 to 60",
            inputs=lambda draw: (wide_rows(draw, span=60.0),),
            part="large scores",
            magnitude=60.0,
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
        *usual_misconceptions(_softmax, example=_example),
    ),
)
