"""renormalised_causal_weights(scores): softmax first, then the triangle, then the rows again."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise

LESSON = "05_causal_attention"


def _scores(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor]:
    return (draw.normal(*shape, scale=1.3, shift=0.4),)


def _triangle(scores: Tensor, further: int = 0) -> Tensor:
    """1 where query i may see key j, aligned at the last query and the last key."""
    return torch.ones_like(scores).tril(scores.shape[-1] - scores.shape[-2] + further)


def _shares(weights: Tensor, axis: int | tuple[int, int] = -1) -> Tensor:
    return weights / weights.sum(dim=axis, keepdim=True)


def _kept(triangle: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Softmax, times the triangle, rows divided by what is left."""
    return lambda scores: _shares(scores.softmax(dim=-1) * triangle(scores))


def _square(scores: Tensor) -> Tensor:
    n = scores.shape[-2]
    return torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()


def _two_axes_unpacked(scores: Tensor) -> Tensor:
    _q, _k = scores.shape
    return _shares(scores.softmax(dim=-1) * _triangle(scores))


def _three_axes_unpacked(scores: Tensor) -> Tensor:
    _b, _q, _k = scores.shape
    return _shares(scores.softmax(dim=-1) * _triangle(scores))


def _four_axes_unpacked(scores: Tensor) -> Tensor:
    _b, _h, _q, _k = scores.shape
    return _shares(scores.softmax(dim=-1) * _triangle(scores))


def _overwritten(scores: Tensor) -> Tensor:
    weights = scores.softmax(dim=-1)
    weights.tril_(scores.shape[-1] - scores.shape[-2])
    return _shares(weights)


_right = _kept(_triangle)


def _example() -> tuple[Tensor, ...]:
    return (torch.tensor([[0.0, math.log(3), math.log(4)], [0.0, math.log(3), 0.0], [0.0, 0.0, math.log(2)]]),)


RENORMALISED_CAUSAL_WEIGHTS = Exercise(
    name="renormalised_causal_weights",
    lesson=LESSON,
    contract="(…, q, k) -> (…, q, k): softmax, lower triangle, every row divided by what is left of its sum",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.renormalised_causal_weights,
    forbidden=("attnlib.renormalised_causal_weights", "attnlib.masked_softmax"),
    cases=usual_cases(
        _scores,
        {"shape": (2, 3, 5, 7)},
        one={"shape": (1, 3, 3)},
        word={"shape": (2, 3, 1, 1)},
        more=[{"shape": (3, 5, 11)}, {"shape": (7, 7)}, {"shape": (2, 3, 1, 5)}, {"shape": (5, 2, 13)}],
    ),
    example=_example,
    misconceptions=(
        wrong(
            "not_renormalised",
            "The rows are not divided again",
            "What stood above the diagonal is gone, but its share was not given to the others: the rows no longer add "
            "up to 1. And what is left still depends on the future, which sat in the denominator of the softmax.",
            lambda scores: scores.softmax(dim=-1) * _triangle(scores),
        ),
        *(
            wrong(
                f"{name}_not_renormalised",
                f"{title}, and the rows are not divided again",
                "Two things at once: the triangle keeps the diagonal and what is before it, the last query at the last "
                "key; and each row is divided by the sum of what is left in it.",
                lambda scores, kept=kept: scores.softmax(dim=-1) * kept(scores),
            )
            for name, title, kept in (
                ("top_left", "The first query is aligned with the first key", lambda s: torch.ones_like(s).tril()),
                ("strict", "The diagonal is dropped", partial(_triangle, further=-1)),
                ("one_ahead", "One column too many is kept", partial(_triangle, further=1)),
                ("upside_down", "The past is dropped and the future is kept", lambda s: 1 - _triangle(s)),
            )
        ),
        *(
            wrong(
                f"{number}_sizes_unpacked",
                f"It works for {number} axes only",
                f"`{names} = scores.shape` fails for any other number of axes. Take what you need from the end: "
                "q, k = scores.shape[-2:].",
                implementation,
            )
            for number, names, implementation in (
                ("two", "q, k", _two_axes_unpacked),
                ("three", "b, q, k", _three_axes_unpacked),
                ("four", "b, h, q, k", _four_axes_unpacked),
            )
        ),
        wrong(
            "over_heads",
            "The first softmax runs over axis 1",
            "Axis 1 is not the keys: it holds the heads, or the queries where there are none. Each query shares its "
            "attention among the keys: dim=-1.",
            lambda scores: _shares(scores.softmax(dim=1) * _triangle(scores)),
        ),
        wrong(
            "triangle_of_scores",
            "The triangle is taken of the scores",
            "A score of 0 is not a weight of 0: e⁰ is 1, so the blocked keys still get their share. Take the softmax "
            "first and the triangle of the *weights*.",
            lambda scores: (scores * _triangle(scores)).softmax(dim=-1),
        ),
        wrong(
            "second_softmax",
            "A second softmax in place of the division",
            "A softmax of what is left exponentiates the weights, and gives e⁰ = 1 to the zeros. The rows only have to "
            "be divided by their sum.",
            lambda scores: (scores.softmax(dim=-1) * _triangle(scores)).softmax(dim=-1),
        ),
        wrong(
            "second_softmax_of_open",
            "A second softmax in place of the division",
            "A softmax of what is left exponentiates the weights: they come out nearly even. The rows only have to be "
            "divided by their sum.",
            lambda scores: scores.softmax(dim=-1).masked_fill(_triangle(scores) == 0, -torch.inf).softmax(dim=-1),
        ),
        wrong(
            "divided_by_norm",
            "Divided by the length, not by the sum",
            "`norm`, and F.normalize unless you pass p=1, take the root of the sum of squares. A row is to *add up* to "
            "1: divide by its sum.",
            lambda scores: torch.nn.functional.normalize(scores.softmax(dim=-1) * _triangle(scores), dim=-1),
        ),
        wrong(
            "weights_overwritten",
            "The softmax's result is overwritten in place",
            "The numbers are right. But the gradient of the softmax is computed from its own output, and `tril_`, `*=` "
            "or an assignment has written into that. Make a new tensor: tril, *, masked_fill.",
            _overwritten,
        ),
        wrong(
            "square_only",
            "The triangle is made for as many keys as queries",
            "Your triangle is (q, q). The scores are (q, k), and k may be larger: torch.ones(q, k), with the diagonal "
            "shifted by k - q.",
            lambda scores: _shares(scores.softmax(dim=-1) * _square(scores)),
        ),
        wrong(
            "columns_renormalised",
            "The columns are divided, not the rows",
            "Your columns add up to 1. A row belongs to a query, and each query shares out 1: sum over the last axis, "
            "dim=-1.",
            lambda scores: _shares(scores.softmax(dim=-1) * _triangle(scores), -2),
        ),
        wrong(
            "softmax_over_queries",
            "The first softmax runs down the columns",
            "softmax over dim=-2 compares queries with one another. Each query shares its attention among the keys: "
            "dim=-1.",
            lambda scores: _shares(scores.softmax(dim=-2) * _triangle(scores)),
        ),
        wrong(
            "one_sum_for_all",
            "One sum for the whole matrix",
            "All rows are divided by the same number. Each row has lost another share, so each has its own sum: "
            "dim=-1, keepdim=True.",
            lambda scores: _shares(scores.softmax(dim=-1) * _triangle(scores), (-2, -1)),
        ),
        wrong(
            "without_keepdim",
            "The sums have lost their axis",
            "Without keepdim=True the sums of a (q, k) matrix are (q), which broadcasting lines up with the *keys*: an "
            "error, or, with as many queries as keys, each column divided by another row's sum.",
            lambda scores: (
                scores.softmax(dim=-1) * _triangle(scores) / (scores.softmax(dim=-1) * _triangle(scores)).sum(dim=-1)
            ),
        ),
        wrong(
            "upside_down",
            "The past is dropped and the future is kept",
            "True and False are exchanged: each query keeps what it must not see, and the last keeps nothing: 0 / 0.",
            _kept(lambda scores: 1 - _triangle(scores)),
        ),
        wrong(
            "divided_by_total",
            "Divided by the sum of everything",
            "All weights together add up to 1 now. Each *row* has to: sum(dim=-1, keepdim=True).",
            lambda scores: scores.softmax(dim=-1) * _triangle(scores) / (scores.softmax(-1) * _triangle(scores)).sum(),
        ),
        wrong(
            "divisor_detached",
            "The sums are cut from the gradient",
            "The numbers are right. But the sum of what is left depends on the scores, too: do not detach it.",
            lambda scores: (
                scores.softmax(dim=-1)
                * _triangle(scores)
                / (scores.softmax(dim=-1) * _triangle(scores)).sum(dim=-1, keepdim=True).detach()
            ),
        ),
        *(
            wrong(
                name,
                "A small number is added to the sums",
                "The sums are never 0 here, for each query sees at least one key. The small number only bends the "
                "rows: they add up to less than 1.",
                lambda scores, guard=guard: (
                    scores.softmax(dim=-1)
                    * _triangle(scores)
                    / ((scores.softmax(dim=-1) * _triangle(scores)).sum(dim=-1, keepdim=True) + guard)
                ),
            )
            for name, guard in (("small_number", 1e-6), ("smaller_number", 1e-8))
        ),
        wrong(
            "divided_by_count",
            "Divided by the number of open keys",
            "A row is to be divided by the *sum* of what is left in it, not by how many entries are left.",
            lambda scores: scores.softmax(dim=-1) * _triangle(scores) / _triangle(scores).sum(dim=-1, keepdim=True),
        ),
        wrong(
            "divided_by_largest",
            "Divided by the largest weight",
            "The largest entry of each row is 1 now. The *sum* of each row has to be.",
            lambda scores: (
                scores.softmax(dim=-1)
                * _triangle(scores)
                / (scores.softmax(dim=-1) * _triangle(scores)).amax(dim=-1, keepdim=True)
            ),
        ),
        wrong(
            "no_softmax",
            "The softmax is missing",
            "The scores themselves are cut and divided. Scores may be negative, and their sum may be near 0. exp makes "
            "them positive first: that is the softmax's task.",
            lambda scores: _shares(scores * _triangle(scores)),
        ),
        wrong(
            "upper_triangle",
            "The upper triangle is kept",
            "You keep the future and drop the past. `tril` keeps the lower triangle, `triu` the upper one.",
            _kept(lambda scores: torch.ones_like(scores).triu(scores.shape[-1] - scores.shape[-2])),
        ),
        wrong(
            "strict",
            "The diagonal is dropped",
            "A word may look at itself. Without the diagonal the first query has nothing left, and 0 / 0 is NaN.",
            _kept(partial(_triangle, further=-1)),
        ),
        wrong(
            "one_ahead",
            "One column too many is kept",
            "The triangle reaches one key into the future, and that is the token to be guessed.",
            _kept(partial(_triangle, further=1)),
        ),
        wrong(
            "top_left",
            "The first query is aligned with the first key",
            "With more keys than queries the *last* query stands at the last key, as in causal_mask: shift the "
            "diagonal by k - q.",
            _kept(lambda scores: torch.ones_like(scores).tril()),
        ),
        wrong(
            "nothing_blocked",
            "The plain softmax",
            "The triangle is missing: every query still sees its future.",
            lambda scores: scores.softmax(dim=-1),
        ),
        wrong(
            "small_number_added",
            "A small number is added to the denominator",
            "1e-9 against a division by zero makes every row add up to a little less than 1. No row of a causal mask "
            "is empty, so there is nothing to guard against.",
            lambda scores: (
                scores.softmax(dim=-1)
                * _triangle(scores)
                / ((scores.softmax(dim=-1) * _triangle(scores)).sum(dim=-1, keepdim=True) + 1e-9)
            ),
        ),
        *usual_misconceptions(_right, example=_example),
    ),
)
