"""The exercise `mend_squared_distances` of lesson 00."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attnlib.checks.course.lesson_00.pairwise_dot import two_sets
from attnlib.checks.course.lesson_00.slips import slips, slips_with_floats
from attnlib.checks.course.usual import as_given, usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise


def _one_in_both(draw: Draw) -> tuple[Tensor, ...]:
    x, y = two_sets(draw, b=2, q=5, k=7, d=3)
    y[:, 2] = x[:, 1]
    return x, y


def _squared_distances(x: Tensor, y: Tensor) -> Tensor:
    return ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(dim=-1)


def _lengths(x: Tensor) -> Tensor:
    return (x**2).sum(dim=-1, keepdim=True)


def _lengths_on_rows(x: Tensor, y: Tensor) -> Tensor:
    return _lengths(x) + _lengths(y) - 2 * x @ y.mT


def _assembled(
    x: Tensor, y: Tensor, x_length: Tensor, y_length: Tensor, *, dots: Callable[[int], float] = lambda d: 2
) -> Tensor:
    """|x|² + |y|² − 2 x·y out of these lengths, (b, q, 1) and (b, 1, k); `dots(d)` is put in place of the 2."""
    return x_length + y_length - dots(x.shape[-1]) * x @ y.mT


def _example() -> tuple[Tensor, ...]:
    return torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [3.0, 1.0]]])


MEND_SQUARED_DISTANCES = Exercise(
    name="mend_squared_distances",
    lesson="00_start_here",
    contract="(b, q, d), (b, k, d) -> (b, q, k), squared distances",
    parts={"values": 1, "gradient": 1, "robustness": 1},
    reference=_squared_distances,
    cases=(
        *usual_cases(
            two_sets,
            {"b": 2, "q": 5, "k": 7, "d": 3},
            one={"b": 1, "q": 7, "k": 7, "d": 2},
            more=[
                {"b": 3, "q": 2, "k": 11, "d": 7},
                {"b": 5, "q": 13, "k": 3, "d": 2},
                {"b": 3, "q": 7, "k": 7, "d": 7},
            ],
        ),
        # the fault raises an error for other sizes; among so many wrong distances some are below zero for sure
        Case(name="as many x as y", inputs=partial(two_sets, b=3, q=11, k=11, d=2)),
        Case(name="all axes of one length", inputs=partial(two_sets, b=3, q=3, k=3, d=3)),
        Case(
            name="gradients where a distance is zero",
            inputs=_one_in_both,
            dtype=torch.float64,
            gradient=True,
            part="gradient",
        ),
    ),
    example=_example,
    misconceptions=(
        wrong(
            "root_squared",
            "The root is taken, and then squared",
            "The numbers are right. But the slope of a root at 0 is infinite: the gradient of √d² is 0 · ∞ = NaN where "
            "two vectors are equal. Leave out both, the root and the square.",
            lambda x, y: _squared_distances(x, y).sqrt() ** 2,
        ),
        as_given(_lengths_on_rows),
        wrong(
            "both_moved",
            "The length of x varies along the columns",
            "Row i belongs to x[i], so `x_squared` was right as (b, q, 1). The lengths of x and y have changed "
            "places: look at y instead.",
            lambda x, y: _lengths(x).mT + _lengths(y) - 2 * x @ y.mT,
        ),
        wrong(
            "clamped",
            "The symptom is hidden, the fault is still there",
            "Nothing is below zero any more, but the other numbers are as wrong as before. Ask where the negative "
            "number came from: whose length was added in its column?",
            lambda x, y: _lengths_on_rows(x, y).clamp(min=0),
        ),
        wrong(
            "absolute",
            "The symptom is hidden, the fault is still there",
            "The sign is gone, but a wrong number without its sign is still wrong. Ask where the negative number "
            "came from: whose length was added in its column?",
            lambda x, y: _lengths_on_rows(x, y).abs(),
        ),
        wrong(
            "x_twice",
            "The length of y is not used",
            "The length of x was added twice. That is right only on the diagonal of a comparison of x with itself.",
            lambda x, y: 2 * _lengths(x) - 2 * x @ y.mT,
        ),
        wrong(
            "not_doubled",
            "The factor 2 is missing",
            "(x − y)² = x² + y² − 2xy. With one dot product instead of two, not even the distance of a vector to "
            "itself is 0.",
            lambda x, y: _lengths(x) + _lengths(y).mT - x @ y.mT,
        ),
        wrong(
            "sum_squared",
            "The sign of the dot product is wrong",
            "With a plus you get |x + y|². The dot product says how well two vectors agree, and the more they "
            "agree, the nearer they are.",
            lambda x, y: _lengths(x) + _lengths(y).mT + 2 * x @ y.mT,
        ),
        wrong(
            "root_taken",
            "The root was taken",
            "These are distances. The squared distance is asked for, which has no root.",
            lambda x, y: torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),
        ),
        wrong(
            "y_without_axis",
            "The length of y has lost an axis",
            "Without keepdim the lengths of y have shape (b, k), and broadcasting takes their first axis, the batch, "
            "for the rows. With keepdim=True they are (b, k, 1); transposed, (b, 1, k), they vary along the columns.",
            lambda x, y: _lengths(x) + _lengths(y).squeeze(-1) - 2 * x @ y.mT,
        ),
        wrong(
            "both_on_columns",
            "The length of x varies along the columns, too",
            "y is right now, but row i belongs to x[i], so `x_squared` was right as (b, q, 1). Only one of the two has "
            "to move.",
            lambda x, y: _lengths(x).mT + _lengths(y).mT - 2 * x @ y.mT,
        ),
        wrong(
            "exchanged",
            "Rows and columns are exchanged",
            "The distances are right, in the wrong place: row i has to belong to x[i], (b, q, k), not to y[i].",
            lambda x, y: _squared_distances(x, y).mT,
        ),
        wrong(
            "dots_scaled",
            "The dot products are scaled",
            "Without scale=1.0, `attention_scores` divides by the root of d. The formula has the plain dot product.",
            lambda x, y: _lengths(x) + _lengths(y).mT - 2 * x @ y.mT / x.shape[-1] ** 0.5,
        ),
        wrong(
            "y_over_positions",
            "The length of y is summed over the wrong axis",
            "With (b, 1, d) the squares were added up over the vectors of y, and d is left. The length of one vector "
            "is the sum over its own numbers, d: what is left is (b, 1, k).",
            lambda x, y: _lengths(x) + (y**2).sum(dim=1, keepdim=True) - 2 * x @ y.mT,
        ),
        wrong(
            "y_over_everything",
            "All vectors of y share one length",
            "With (b, 1, 1) the squares of the whole sequence were added up, and every column got the same number. "
            "Each y[j] has a length of its own: (b, 1, k).",
            lambda x, y: _lengths(x) + (y**2).sum(dim=(1, 2), keepdim=True) - 2 * x @ y.mT,
        ),
        wrong(
            "y_over_batch",
            "The lengths of y are added up over the batch",
            "Without b after the arrow, the vectors at the same position in all sequences share one length. Keep the "
            "batch: (b, 1, k).",
            lambda x, y: _lengths(x) + (y**2).sum(dim=(0, 2)) - 2 * x @ y.mT,
        ),
        wrong(
            "y_not_squared",
            "The numbers of y are not squared",
            "The squared length of y is the sum of its *squared* numbers: reduce(y**2, ...).",
            lambda x, y: _lengths(x) + y.sum(dim=-1).unsqueeze(1) - 2 * x @ y.mT,
        ),
        wrong(
            "neither_squared",
            "The numbers are not squared",
            "The squared length of a vector is the sum of its *squared* numbers: reduce(x**2, ...), reduce(y**2, ...).",
            lambda x, y: x.sum(dim=-1, keepdim=True) + y.sum(dim=-1).unsqueeze(1) - 2 * x @ y.mT,
        ),
        wrong(
            "lengths_with_root",
            "The lengths are not squared",
            "`norm` takes the root of the sum of squares. The formula has the *squared* lengths: reduce(x**2, ...), "
            "reduce(y**2, ...), without a root.",
            lambda x, y: x.norm(dim=-1, keepdim=True) + y.norm(dim=-1).unsqueeze(1) - 2 * x @ y.mT,
        ),
        wrong(
            "lengths_squared_too_late",
            "Squared after the sum",
            "The numbers of a vector were added up first, and the sum was squared. Square each number, then add: "
            "reduce(x**2, ...), not reduce(x, ...) ** 2.",
            lambda x, y: x.sum(dim=-1, keepdim=True) ** 2 + y.sum(dim=-1).unsqueeze(1) ** 2 - 2 * x @ y.mT,
        ),
        wrong(
            "same_set",
            "x is compared with itself",
            "The second set of vectors is never used: the result holds the distances of x to x, of shape (b, q, q).",
            lambda x, y: _squared_distances(x, x),
        ),
        wrong(
            "not_summed",
            "The squares are not added up",
            "Each pair still has d squares instead of one number: the result has a fourth axis, d. Sum over it.",
            lambda x, y: (x.unsqueeze(2) - y.unsqueeze(1)) ** 2,
        ),
        wrong(
            "both_over_batch",
            "The lengths are added up over the batch",
            "Without b after the arrow, the vectors at the same position in all sequences share one length. Keep the "
            "batch: (b, q, 1) and (b, 1, k).",
            lambda x, y: (x**2).sum(dim=(0, 2)).unsqueeze(1) + (y**2).sum(dim=(0, 2)) - 2 * x @ y.mT,
        ),
        wrong(
            "averaged",
            "A mean where a sum was needed",
            "The squares are averaged over d, which makes the distance d times too small.",
            lambda x, y: _squared_distances(x, y) / x.shape[-1],
        ),
        wrong(
            "lengths_averaged",
            "The lengths are means instead of sums",
            "The squares of x and of y are averaged over d, the dot product is a sum: they do not fit together. Use "
            "sums in all three.",
            lambda x, y: (_lengths(x) + _lengths(y).mT) / x.shape[-1] - 2 * x @ y.mT,
        ),
        wrong(
            "absolute_differences",
            "Absolute differences instead of squares",
            "The differences are added up without their sign. Here each one is squared first.",
            lambda x, y: (x.unsqueeze(2) - y.unsqueeze(1)).abs().sum(dim=-1),
        ),
        wrong(
            "squared_too_late",
            "Squared after the sum",
            "The differences were added up first, where they cancel one another, and the sum was squared. Square each "
            "difference, then add.",
            lambda x, y: (x.unsqueeze(2) - y.unsqueeze(1)).sum(dim=-1) ** 2,
        ),
        wrong(
            "y_left_out",
            "The length of y is missing",
            "The formula has three terms: |x|² + |y|² − 2 x·y. Yours lacks |y|², along the columns.",
            lambda x, y: _lengths(x) - 2 * x @ y.mT,
        ),
        wrong(
            "x_left_out",
            "The length of x is missing",
            "The formula has three terms: |x|² + |y|² − 2 x·y. Yours lacks |x|², along the rows.",
            lambda x, y: _lengths(y).mT - 2 * x @ y.mT,
        ),
        wrong(
            "x_twice_moved",
            "The length of y is not used",
            "The length of x was added twice, along the rows and along the columns. The columns belong to y.",
            lambda x, y: _lengths(x) + _lengths(x).mT - 2 * x @ y.mT,
        ),
        wrong(
            "root_of_the_fault",
            "The root was taken, and the fault is still there",
            "The length of y still varies along the rows, (b, k, 1), where it has to vary along the columns. And the "
            "squared distance is asked for: no root.",
            lambda x, y: _lengths_on_rows(x, y).clamp(min=0).sqrt(),
        ),
        wrong(
            "same_position_only",
            "Each x meets one y only",
            "`((x - y) ** 2).sum(-1)` pairs x[i] with y[i]. All pairs are asked for: a table of (q, k).",
            lambda x, y: ((x - y) ** 2).sum(dim=-1),
        ),
        *(
            wrong(
                f"{whose}_of_{which}_sequence",
                f"The lengths of {whose} are those of one sequence, for the whole batch",
                f"`{whose}[{index}]` is one sequence, and its lengths were added in all of them. With a batch of one "
                "nobody notices; each sequence has lengths of its own.",
                implementation,
            )
            for whose, which, index, implementation in (
                ("y", "first", 0, lambda x, y: _assembled(x, y, _lengths(x), _lengths(y[:1]).mT)),
                ("x", "first", 0, lambda x, y: _assembled(x, y, _lengths(x[:1]), _lengths(y).mT)),
                ("y", "last", -1, lambda x, y: _assembled(x, y, _lengths(x), _lengths(y[-1:]).mT)),
            )
        ),
        *(
            wrong(
                f"{name}_detached",
                f"No gradient reaches {whose}",
                "The numbers are right. But `.detach()`, `.data` or torch.no_grad() cuts one term of the formula off, "
                "and its part of the gradient is lost.",
                implementation,
            )
            for name, whose, implementation in (
                (
                    "lengths",
                    "x and y by way of their lengths",
                    lambda x, y: _assembled(x, y, _lengths(x).detach(), _lengths(y).mT.detach()),
                ),
                (
                    "x_length",
                    "x by way of its length",
                    lambda x, y: _assembled(x, y, _lengths(x).detach(), _lengths(y).mT),
                ),
                (
                    "y_length",
                    "y by way of its length",
                    lambda x, y: _assembled(x, y, _lengths(x), _lengths(y).mT.detach()),
                ),
                (
                    "dots",
                    "x and y by way of the dot products",
                    lambda x, y: _lengths(x) + _lengths(y).mT - 2 * (x @ y.mT).detach(),
                ),
            )
        ),
        *(
            wrong(
                f"fault_and_{name}",
                f"The fault is still there, and {also}",
                "The length of y still varies along the rows, (b, k, 1), where it has to vary along the columns, "
                "(b, 1, k). And the dot products were right as they stood: take them twice, and subtract them.",
                lambda x, y, dots=dots: _assembled(x, y, _lengths(x), _lengths(y), dots=dots),
            )
            for name, also, dots in (
                ("not_doubled", "the factor 2 is missing", lambda d: 1),
                ("added", "the sign of the dot product is wrong", lambda d: -2),
                ("dots_scaled", "the dot products are scaled", lambda d: 2 / d**0.5),
            )
        ),
        wrong(
            "lengths_averaged_not_doubled",
            "The lengths are means instead of sums, and the factor 2 is missing",
            "Two things at once: the squares of x and of y are added up over d, as the products are; and "
            "(x − y)² = x² + y² − 2xy has twice the dot product.",
            lambda x, y: _assembled(x, y, _lengths(x) / x.shape[-1], _lengths(y).mT / x.shape[-1], dots=lambda d: 1),
        ),
        *(
            wrong(
                f"length_of_{whose}_averaged",
                f"The length of {whose} is a mean instead of a sum",
                f"The squares of {whose} are averaged over d, the other two terms are sums: they do not fit together. "
                "Use sums in all three.",
                implementation,
            )
            for whose, implementation in (
                ("x", lambda x, y: _assembled(x, y, _lengths(x) / x.shape[-1], _lengths(y).mT)),
                ("y", lambda x, y: _assembled(x, y, _lengths(x), _lengths(y).mT / x.shape[-1])),
            )
        ),
        wrong(
            "same_set_of_y",
            "y is compared with itself",
            "The first set of vectors is never used: the result holds the distances of y to y, of shape (b, k, k).",
            lambda x, y: _squared_distances(y, y),
        ),
        *slips(_squared_distances),
        *slips_with_floats(_squared_distances),
        *usual_misconceptions(_squared_distances, example=_example),
    ),
)
