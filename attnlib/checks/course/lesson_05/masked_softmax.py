"""masked_softmax(scores, mask): shares among the open keys, zeros elsewhere, never NaN."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking import ready_made
from attnlib.checks.course.lesson_02.softmax import wide_rows
from attnlib.checks.course.usual import usual_cases, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "05_causal_attention"


def _inputs(draw: Draw, *, shape: tuple[int, ...], mask: tuple[int, ...], scale: float = 1.3) -> tuple[Tensor, Tensor]:
    """Scores, and a mask with two open keys or more in every row, and one blocked key or more."""
    return draw.normal(*shape, scale=scale, shift=0.4), _some_open(draw, mask)


def _some_open(draw: Draw, shape: tuple[int, ...]) -> Tensor:
    order = draw.normal(*shape).argsort(dim=-1)
    open_keys = draw.integers(2, shape[-1], (*shape[:-1], 1)) if shape[-1] > 2 else 1
    return order < open_keys


def _with_empty_rows(draw: Draw, *, shape: tuple[int, ...], mask: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The same, but no key is open for the first query, and for the last one."""
    scores, open_keys = _inputs(draw, shape=shape, mask=mask)
    rows = torch.arange(mask[-2])[:, None]
    return scores, open_keys & (rows > 0) & (rows < mask[-2] - 1)


def _nothing_open(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return draw.normal(*shape), torch.zeros(shape, dtype=torch.bool)


def _far(draw: Draw, *, blocked: float, open_keys: float) -> tuple[Tensor, Tensor]:
    """Blocked scores around `blocked`, open ones around `open_keys`."""
    scores, mask = _inputs(draw, shape=(2, 5, 7), mask=(5, 7))
    return scores + torch.where(mask, open_keys, blocked).to(scores.dtype), mask


def _lower_than(draw: Draw, *, size: float) -> tuple[Tensor, Tensor]:
    """Open scores of -size and less, so far apart that one of each row gets all; blocked scores near 0."""
    scores, mask = _inputs(draw, shape=(2, 5, 7), mask=(5, 7))
    return torch.where(mask, -size * (1 + scores.abs()), scores), mask


def _wide(draw: Draw, *, span: float) -> tuple[Tensor, Tensor]:
    scores = wide_rows(draw, span=span)
    return scores, _some_open(draw, tuple(scores.shape))


def _uneven(draw: Draw) -> tuple[Tensor, Tensor]:
    scores, mask = _inputs(draw, shape=(2, 3, 7), mask=(3, 7))
    return scores + torch.tensor([[-1e4], [0.0], [1e4]], dtype=scores.dtype), mask


def _large(name: str, blocked: float, open_keys: float, **how: Any) -> Case:
    return Case(name=name, inputs=partial(_far, blocked=blocked, open_keys=open_keys), part="large scores", **how)


def _right(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    empty = ~mask.any(dim=dim, keepdim=True)
    return scores.masked_fill(~(mask | empty), -torch.inf).softmax(dim=dim).masked_fill(empty, 0.0)


def _filled(fill: float, *, zero_after: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    def attempt(scores: Tensor, mask: Tensor) -> Tensor:
        weights = scores.masked_fill(~mask, fill).softmax(dim=-1)
        return weights.masked_fill(~mask, 0.0) if zero_after else weights

    return attempt


def _rows_zeroed(attempt: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: attempt(scores, mask) * mask.any(dim=-1, keepdim=True)


def _added(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, mask: (scores + torch.where(mask, 0.0, number).to(scores.dtype)).softmax(dim=-1)


def _exp_times_mask(scores: Tensor, mask: Tensor, shift: Tensor | float, guard: float = 0.0) -> Tensor:
    kept = (scores - shift).exp() * mask
    total = kept.sum(dim=-1, keepdim=True)
    return kept / (total + guard if guard else torch.where(total > 0, total, 1.0))


def _kept_and_divided(scores: Tensor, mask: Tensor) -> Tensor:
    kept = scores.softmax(dim=-1) * mask
    return kept / kept.sum(dim=-1, keepdim=True)


def _overwritten(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    weights[weights.isnan()] = 0
    return weights


def _asked_once(scores: Tensor, mask: Tensor) -> Tensor:
    return _filled(-torch.inf)(scores, mask) if mask.any() else scores * 0


def _exp_of_open(scores: Tensor, mask: Tensor, *, guarded: bool) -> Tensor:
    kept = scores.exp().masked_fill(~mask, 0.0)
    total = kept.sum(dim=-1, keepdim=True)
    return kept / torch.where(total == 0, 1.0, total) if guarded else kept / total


def _exp_times_mask_divided(scores: Tensor, mask: Tensor, *, guarded: bool) -> Tensor:
    kept = scores.exp() * mask
    total = kept.sum(dim=-1, keepdim=True)
    return kept / torch.where(total == 0, 1.0, total) if guarded else kept / total


def _largest_of_everything(scores: Tensor, mask: Tensor) -> Tensor:
    return _exp_times_mask(scores, mask, scores.amax())


def _down(dim: int, fill: float, *, zeroed: bool = False) -> Callable[[Tensor, Tensor], Tensor]:
    def attempt(scores: Tensor, mask: Tensor) -> Tensor:
        weights = scores.masked_fill(~mask, fill).softmax(dim=dim)
        return weights.masked_fill(~mask, 0.0) if zeroed else weights

    return attempt


def _down_with_empty_rows(scores: Tensor, mask: Tensor) -> Tensor:
    empty = ~mask.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(mask | empty), -torch.inf).softmax(dim=-2).masked_fill(~mask, 0.0)


def _down_with_zeros_in_empty_rows(scores: Tensor, mask: Tensor) -> Tensor:
    empty = ~mask.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0)
    return filled.softmax(dim=-2).masked_fill(~mask, 0.0)


def _mask_as_index(fill: Callable[[Tensor], float], *, zeroed: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def attempt(scores: Tensor, mask: Tensor) -> Tensor:
        filled = scores.clone()
        filled[~mask] = fill(scores)
        weights = filled.softmax(dim=-1)
        return weights.masked_fill(~mask, 0.0) if zeroed else weights

    return attempt


def _empty_columns(scores: Tensor, mask: Tensor) -> Tensor:
    mask = mask.expand(scores.shape)
    empty = ~mask.any(dim=-2, keepdim=True)
    weights = scores.masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)


def _all_open_together(scores: Tensor, mask: Tensor) -> Tensor:
    open_keys = mask.expand(scores.shape)
    return torch.zeros_like(scores).masked_scatter(open_keys, scores[open_keys].softmax(dim=0))


def _kept_and_guarded(guard: float) -> Callable[[Tensor, Tensor], Tensor]:
    def attempt(scores: Tensor, mask: Tensor) -> Tensor:
        kept = scores.softmax(dim=-1) * mask
        return kept / (kept.sum(dim=-1, keepdim=True) + guard)

    return attempt


def _guarded(guard: float) -> Callable[[Tensor, Tensor], Tensor]:
    def attempt(scores: Tensor, mask: Tensor) -> Tensor:
        lowest = torch.finfo(scores.dtype).min
        return _exp_times_mask(scores.masked_fill(~mask, lowest), mask, _open_maximum(scores, mask), guard=guard)

    return attempt


def _open_maximum(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)


def _example() -> tuple[Tensor, ...]:
    return (
        torch.tensor([[0.0, math.log(3), 9.0], [1.0, 2.0, 3.0]]),
        torch.tensor([[True, True, False], [False, False, False]]),
    )


MASKED_SOFTMAX = Exercise(
    name="masked_softmax",
    lesson=LESSON,
    contract="scores (…, k), mask broadcast to them, bool, True = may attend -> weights; a row without True is zero",
    parts={"values": 2, "rows without True": 1, "large scores": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.masked_softmax,
    forbidden=("attnlib.masked_softmax", ready_made.MASKED_SOFTMAX),
    cases=(
        *usual_cases(
            _inputs,
            {"shape": (2, 3, 5, 7), "mask": (5, 7)},
            one={"shape": (1, 5, 3), "mask": (5, 3)},
            word={"shape": (2, 3, 1, 1), "mask": (1, 1)},
            more=[
                {"shape": (3, 2, 5, 11), "mask": (3, 1, 1, 11)},
                {"shape": (5, 13), "mask": (13,)},
                {"shape": (7,), "mask": (7,)},
                {"shape": (2, 7, 7), "mask": (2, 7, 7)},
            ],
            magnitude=1.0,
        ),
        Case(name="a mask for each sentence", inputs=partial(_inputs, shape=(2, 3, 5, 7), mask=(2, 1, 1, 7))),
        Case(
            name="the first and the last query see nothing",
            inputs=partial(_with_empty_rows, shape=(2, 5, 7), mask=(5, 7)),
            part="rows without True",
        ),
        Case(name="no query sees anything", inputs=partial(_nothing_open, shape=(2, 3, 5)), part="rows without True"),
        Case(
            name="gradients where a query sees nothing",
            inputs=partial(_with_empty_rows, shape=(2, 5, 7), mask=(2, 5, 7)),
            dtype=torch.float64,
            gradient=True,
            part="rows without True",
        ),
        Case(
            name="rows without True, other sizes",
            inputs=partial(_with_empty_rows, shape=(3, 2, 7, 5), mask=(3, 1, 7, 5)),
            gradient=True,
            part="rows without True",
            hidden=True,
        ),
        Case(
            name="rows without True, and memory that is not contiguous",
            inputs=partial(_with_empty_rows, shape=(2, 5, 7), mask=(2, 5, 7)),
            part="robustness",
            strided=True,
            mutation=True,
        ),
        _large("blocked scores of 10000, open ones near 0", 1e4, 0.0),
        _large("open scores of -10¹², blocked ones near 0", 0.0, -1e12, dtype=torch.float64, magnitude=1e12),
        Case(name="open scores below -10³⁰", inputs=partial(_lower_than, size=1e30), part="large scores"),
        _large("all scores near 10000", 1e4, 1e4, dtype=torch.float64, magnitude=1e4),
        _large("all scores near -10000", -1e4, -1e4, dtype=torch.float64, magnitude=1e4),
        Case(name="rows far apart from one another", inputs=_uneven, part="large scores", magnitude=1e4),
        Case(
            name="rows with scores from -10000 to 10000",
            inputs=partial(_wide, span=1e4),
            part="large scores",
            magnitude=1e4,
        ),
        _large("gradients, blocked scores far larger", 1e4, 0.0, dtype=torch.float64, gradient=True, hidden=True),
        _large("blocked scores of 10³⁰", 1e30, 0.0),
    ),
    example=_example,
    misconceptions=(
        wrong(
            "upside_down",
            "The mask is taken the other way round",
            "You block what is True. Here True = may attend, so the fill goes where the mask is False: `~mask`.",
            lambda scores, mask: _right(scores, ~mask),
        ),
        wrong(
            "mask_ignored",
            "The mask has no effect",
            "These are the weights of the plain softmax. `masked_fill` returns a new tensor and leaves the old one as "
            "it is: use what it returns.",
            lambda scores, mask: scores.softmax(dim=-1),
        ),
        wrong(
            "mask_after_softmax",
            "Blocked after the softmax, and not divided again",
            "The blocked weights are 0, but the rows add up to less than 1, and the others still depend on the blocked "
            "scores through the denominator. Block the *scores*, before the softmax.",
            lambda scores, mask: scores.softmax(dim=-1) * mask,
        ),
        wrong(
            "kept_and_divided",
            "Softmax, mask, divide: 0 / 0 in some rows",
            "Dividing the rows again is right on paper. But a row without any True adds up to 0, and 0 / 0 is NaN; and "
            "where a blocked score is far the largest, the softmax has rounded the others to 0 before you keep them.",
            _kept_and_divided,
        ),
        wrong(
            "scores_times_mask",
            "Blocked scores become 0",
            "Multiplying by the mask, or filling with 0, makes the blocked scores 0, and e⁰ = 1 is a good share of "
            "attention. A blocked score has to be so low that exp makes it 0: -inf.",
            lambda scores, mask: (scores * mask).softmax(dim=-1),
        ),
        wrong(
            "scores_times_mask_zeroed",
            "Blocked scores become 0 before the softmax",
            "e⁰ = 1 is a good share: it stays in the sum even if the blocked weights are set to 0 afterwards, and the "
            "rows add up to less than 1. A blocked score has to be so low that exp makes it 0: -inf.",
            lambda scores, mask: (scores * mask).softmax(dim=-1) * mask,
        ),
        wrong(
            "mask_added_zeroed",
            "The mask itself is added to the scores",
            "True counts as 1, so blocked keys stay in the sum, and setting their weights to 0 afterwards leaves rows "
            "that add up to less than 1. What is added has to be 0 for open and -inf for blocked keys.",
            lambda scores, mask: (scores + mask).softmax(dim=-1) * mask,
        ),
        wrong(
            "empty_columns",
            "It is asked which columns are empty, not which rows",
            "mask.any(dim=-2) says of each key whether any query may see it. A query sees nothing where its *row* has "
            "no True: mask.any(dim=-1, keepdim=True).",
            _empty_columns,
        ),
        wrong(
            "all_open_together",
            "One softmax for all open entries",
            "scores[mask] is one long list of all open entries, of every row. Together they add up to 1; each *row* "
            "has to. Keep the shape, and fill the blocked entries instead.",
            _all_open_together,
        ),
        wrong(
            "softmax_twice",
            "The softmax is taken twice",
            "The weights went through a second softmax, which makes them nearly even and gives blocked keys a share "
            "again. Once is enough.",
            lambda scores, mask: _right(scores, mask).softmax(dim=-1),
        ),
        wrong(
            "mask_added",
            "The mask itself is added to the scores",
            "True counts as 1, so open keys get a bonus of 1 and blocked ones stay in. What is added has to be 0 for "
            "open and -inf for blocked keys.",
            lambda scores, mask: (scores + mask).softmax(dim=-1),
        ),
        wrong(
            "multiplied_by_fill",
            "An additive mask is multiplied",
            "The scores are multiplied by a large negative number where they are blocked. A negative score times a "
            "negative number is a huge positive one, so exactly the wrong keys win. A mask of that kind is *added*.",
            lambda scores, mask: (scores * torch.where(mask, 1.0, -1e9).to(scores.dtype)).softmax(dim=-1),
        ),
        wrong(
            "empty_rows_nan",
            "A row without any True becomes NaN",
            "Blocking with -inf is right. But the softmax of a row that is -inf throughout is 0 / 0. Treat these rows "
            "apart: leave their scores in for the softmax, and set their weights to 0 afterwards.",
            _filled(-torch.inf),
        ),
        wrong(
            "nan_swept_forward",
            "The NaN is swept away, but comes back in the gradient",
            "Forward all is right: nan_to_num (or torch.where) has put 0 in place of NaN. Backward, the softmax of the "
            "row of -inf multiplies by its own NaN output, and 0 times NaN is NaN. Fill the blocked scores "
            "(masked_fill passes no gradient back to them) instead of adding -inf, or keep such rows out of the "
            "softmax.",
            lambda scores, mask: (
                (scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)).softmax(dim=-1).nan_to_num(0.0)
            ),
        ),
        wrong(
            "minus_1e9",
            "-1e9 in place of -inf",
            "A row without any True is -1e9 throughout, and the softmax of equal numbers is 1/k for all: the query "
            "attends to what it must not see. And a score of -10¹² is legal; next to it, -1e9 is the best offer. Use "
            "-inf, and treat empty rows apart.",
            _filled(-1e9),
        ),
        wrong(
            "minus_1e20",
            "A large negative number in place of -inf",
            "A row without any True is that number throughout, and the softmax of equal numbers is 1/k for all: the "
            "query attends to what it must not see. And scores below -10³⁰ are legal, in float32, too; next to them, "
            "your number is the best offer. Use -inf, and treat empty rows apart.",
            _filled(-1e20),
        ),
        *(
            wrong(
                f"{fill}_{how}",
                "The fill is not low enough for all scores",
                "Rows without any True are treated well. But open scores may lie below the number that you fill in, "
                "even below -10³⁰, and then the blocked keys win the softmax. -inf is lower than any score.",
                attempt,
            )
            for fill, how, attempt in (
                ("minus_1e20", "zeroed", _filled(-1e20, zero_after=True)),
                ("minus_1e20", "rows_zeroed", _rows_zeroed(_filled(-1e20))),
                ("minus_1e4", "rows_zeroed", _rows_zeroed(_filled(-1e4))),
                ("minus_1e20_added", "zeroed", lambda scores, mask: _added(-1e20)(scores, mask) * mask),
                ("minus_1e4_added", "zeroed", lambda scores, mask: _added(-1e4)(scores, mask) * mask),
            )
        ),
        wrong(
            "minus_1e4",
            "-1e4 in place of -inf",
            "A row without any True is -1e4 throughout, and each of its keys gets 1/k. And -1e4 is no infinity: next "
            "to an open score of -10000 or less, a blocked key is the best offer. Use -inf, and treat empty rows "
            "apart.",
            _filled(-1e4),
        ),
        wrong(
            "minus_1e4_zeroed",
            "The fill is not low enough for all scores",
            "Rows without any True are treated well. But open scores may lie below the -1e4 that you fill in, and then "
            "the blocked keys win the softmax. -inf is lower than any score.",
            _filled(-1e4, zero_after=True),
        ),
        wrong(
            "minus_1e4_added",
            "-1e4 is added to blocked scores",
            "Adding keeps the differences *among* the blocked keys, so a row without any True gets their ordinary "
            "softmax. And a blocked score far above the others is not low enough even then.",
            _added(-1e4),
        ),
        wrong(
            "lowest_number",
            "Equal weights in a row without any True",
            "A fill of torch.finfo(dtype).min, say, is low enough to block next to open keys. But in a row without any "
            "True all entries are equal, and each gets 1/k: zeros are wanted. Set blocked weights to 0 after the "
            "softmax, too.",
            lambda scores, mask: scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1),
        ),
        wrong(
            "minus_1e9_added",
            "-1e9 is added to blocked scores",
            "Adding keeps the differences *among* the blocked keys, so a row without any True gets their ordinary "
            "softmax. And a blocked score far above the others is not low enough even then.",
            _added(-1e9),
        ),
        wrong(
            "fill_not_low_enough",
            "The fill is not low enough for all scores",
            "Rows without any True are treated well. But open scores may lie below the number that you fill in "
            "(here: -10¹²), and then the blocked keys win the softmax. -inf is lower than any score.",
            _filled(-1e9, zero_after=True),
        ),
        wrong(
            "fill_not_low_enough_rows_zeroed",
            "The fill is not low enough for all scores",
            "Rows without any True are treated well. But open scores may lie below the number that you fill in "
            "(here: -10¹²), and then the blocked keys win the softmax. -inf is lower than any score.",
            _rows_zeroed(_filled(-1e9)),
        ),
        wrong(
            "minus_1e20_added",
            "A large negative number is added to blocked scores",
            "Adding keeps the differences *among* the blocked keys, or makes them all equal, so a row without any True "
            "gets weights where zeros are wanted. And open scores below -10³⁰ are legal, in float32, too. Use -inf, "
            "and treat empty rows apart.",
            _added(-1e20),
        ),
        wrong(
            "minus_1e9_added_zeroed",
            "-1e9 is added to blocked scores",
            "Rows without any True are treated well. But adding keeps a blocked score that is far above the others "
            "too high, and open ones may lie below -10⁹. -inf is lower than any score.",
            lambda scores, mask: _added(-1e9)(scores, mask) * mask,
        ),
        wrong(
            "empty_rows_unmasked",
            "A row without any True gets the plain softmax",
            "You left the scores of such a row in, so that no NaN comes up: good. Now its weights have to be set to 0: "
            "a query that may attend to nothing gets nothing.",
            lambda scores, mask: scores.masked_fill(~mask & mask.any(dim=-1, keepdim=True), -torch.inf).softmax(dim=-1),
        ),
        wrong(
            "over_queries",
            "The softmax runs down the columns",
            "Your columns add up to 1. A row belongs to a query, and each query shares its attention among its open "
            "keys: dim=-1.",
            lambda scores, mask: _right(scores, mask.expand(scores.shape), -2),
        ),
        wrong(
            "over_queries_rows_zeroed",
            "The softmax runs down the columns",
            "Your columns add up to 1. A row belongs to a query, and each query shares its attention among its open "
            "keys: dim=-1.",
            _down_with_empty_rows,
        ),
        wrong(
            "over_second_axis",
            "The softmax runs over axis 1",
            "Axis 1 holds the heads, or the queries where there are no heads. Each query shares its attention among "
            "its open keys, the last axis: dim=-1.",
            _down(1, torch.finfo(torch.float32).min),
        ),
        wrong(
            "over_queries_with_nan",
            "The softmax runs down the columns",
            "Your columns add up to 1, and a key that nobody may see becomes NaN. A row belongs to a query, and each "
            "query shares its attention among its open keys: dim=-1.",
            _down(-2, -torch.inf),
        ),
        wrong(
            "over_queries_empty_rows_zeroed",
            "The softmax runs down the columns",
            "Your columns add up to 1, rows without any True among them, whose scores you made 0. A row belongs to a "
            "query, and each query shares its attention among its open keys: dim=-1.",
            _down_with_zeros_in_empty_rows,
        ),
        wrong(
            "over_queries_filled_zeroed",
            "The softmax runs down the columns",
            "Your columns add up to 1 before the blocked entries are set to 0. A row belongs to a query, and each "
            "query shares its attention among its open keys: dim=-1.",
            _down(-2, -1e9, zeroed=True),
        ),
        *(
            wrong(
                f"mask_as_index_{name}",
                "The mask is used as an index, and has to be as large as the scores for that",
                f"`scores[~mask] = ...` does not broadcast: it fails for a mask (q, k) and scores (b, h, q, k).{also} "
                "masked_fill and torch.where broadcast.",
                _mask_as_index(fill, zeroed=zeroed),
            )
            for name, also, fill, zeroed in (
                ("zeroed", "", lambda scores: torch.finfo(scores.dtype).min, True),
                (
                    "lowest",
                    " And a row without any True gets equal weights, where zeros are wanted.",
                    lambda scores: torch.finfo(scores.dtype).min,
                    False,
                ),
                (
                    "with_nan",
                    " And a row without any True becomes NaN.",
                    lambda scores: -torch.inf,
                    False,
                ),
            )
        ),
        wrong(
            "over_queries_filled",
            "The softmax runs down the columns",
            "Your columns add up to 1. A row belongs to a query, and each query shares its attention among its open "
            "keys: dim=-1.",
            _down(-2, -1e9),
        ),
        wrong(
            "over_first_axis",
            "The softmax runs over the first axis",
            "What one sentence looks at depends on which others came along. Each query shares its attention among its "
            "open keys, the last axis: dim=-1.",
            _down(0, -torch.inf),
        ),
        wrong(
            "over_first_axis_filled",
            "The softmax runs over the first axis",
            "What one sentence looks at depends on which others came along. Each query shares its attention among its "
            "open keys, the last axis: dim=-1.",
            _down(0, -1e9),
        ),
        wrong(
            "infinity_times_zero",
            "0 times infinity is NaN",
            "(1 - mask) * -inf is meant to be 0 for open keys, but 0 · ∞ is not defined. Fill with masked_fill or "
            "torch.where, which touch the blocked entries alone.",
            lambda scores, mask: (scores + (1 - mask.to(scores.dtype)) * -torch.inf).softmax(dim=-1),
        ),
        wrong(
            "asked_once_for_all",
            "All rows are asked at once whether something is open",
            "mask.any() without an axis is one answer for the whole tensor. A single empty row among others still "
            "becomes NaN. Ask each row: mask.any(dim=-1, keepdim=True).",
            _asked_once,
        ),
        wrong(
            "weights_overwritten",
            "The softmax's result is overwritten in place",
            "The numbers are right. But the gradient of the softmax is computed from its own output, and you have "
            "written into that (`weights[...] = 0`, or an operation with a trailing underscore). Make a new tensor: "
            "masked_fill, torch.where.",
            _overwritten,
        ),
        wrong(
            "no_shift",
            "exp overflows",
            "exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of "
            "each row first, or let torch.softmax do it.",
            lambda scores, mask: _exp_times_mask(scores, mask, 0.0),
        ),
        wrong(
            "no_shift_times_mask_guarded",
            "exp overflows",
            "exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of "
            "each row first, or let torch.softmax do it.",
            partial(_exp_times_mask_divided, guarded=True),
        ),
        wrong(
            "no_shift_times_mask",
            "exp overflows",
            "exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of "
            "each row first, or let torch.softmax do it. And a row without any True adds up to 0: 0 / 0 is NaN.",
            partial(_exp_times_mask_divided, guarded=False),
        ),
        wrong(
            "no_shift_filled_guarded",
            "exp overflows",
            "exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of "
            "each row first, or let torch.softmax do it.",
            partial(_exp_of_open, guarded=True),
        ),
        wrong(
            "no_shift_filled",
            "exp overflows",
            "exp(1e4) is larger than any float, and exp(-1e4) smaller than any. Subtract the largest *open* score of "
            "each row first, or let torch.softmax do it. And a row without any True adds up to 0: 0 / 0 is NaN.",
            partial(_exp_of_open, guarded=False),
        ),
        wrong(
            "largest_of_all_subtracted",
            "Blocked keys take part until after exp",
            "Rows without any True are treated well. But the largest score of a row is taken over blocked keys, too "
            "(torch.softmax does the same). Where a blocked score is far above the open ones, exp has made those 0 "
            "before you keep them, and the row is lost. Block first, then take the softmax.",
            lambda scores, mask: _exp_times_mask(scores, mask, scores.amax(dim=-1, keepdim=True)),
        ),
        wrong(
            "one_maximum_for_all",
            "One maximum for the whole tensor",
            "Rows without any True are treated well. But the largest open score of *all* rows is subtracted. In a row "
            "far below it every exp is 0, and the row is lost. Each row needs its own: amax(dim=-1, keepdim=True).",
            lambda scores, mask: _exp_times_mask(
                scores.masked_fill(~mask, torch.finfo(scores.dtype).min), mask, _open_maximum(scores, mask).amax()
            ),
        ),
        wrong(
            "largest_of_everything_subtracted",
            "One maximum for the whole tensor, blocked scores included",
            "In a row far below the largest score every exp is 0, and the row is lost. Each row needs the maximum of "
            "its own open scores.",
            _largest_of_everything,
        ),
        wrong(
            "small_number_added",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. Divide those rows by 1 instead, and leave the others alone.",
            _guarded(1e-9),
        ),
        wrong(
            "small_number_1e8",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. Divide those rows by 1 instead, and leave the others alone.",
            _guarded(1e-8),
        ),
        wrong(
            "small_number_1e6",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. Divide those rows by 1 instead, and leave the others alone.",
            _guarded(1e-6),
        ),
        wrong(
            "small_number_1e5",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. Divide those rows by 1 instead, and leave the others alone.",
            _guarded(1e-5),
        ),
        wrong(
            "kept_and_small_number_1e9",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. And where a blocked score is far the largest, the softmax has rounded the others to 0 before you keep "
            "them. Block first.",
            _kept_and_guarded(1e-9),
        ),
        wrong(
            "kept_and_small_number_1e8",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. And where a blocked score is far the largest, the softmax has rounded the others to 0 before you keep "
            "them. Block first.",
            _kept_and_guarded(1e-8),
        ),
        wrong(
            "kept_and_small_number_1e6",
            "A small number is added to the denominator",
            "It saves a row without any True from 0 / 0, and bends all other rows a little: they add up to less than "
            "1. And where a blocked score is far the largest, the softmax has rounded the others to 0 before you keep "
            "them. Block first.",
            _kept_and_guarded(1e-6),
        ),
        wrong(
            "exp_times_mask_alone",
            "Not divided by the sum",
            "exp makes positive numbers and the mask blocks, but the rows do not add up to 1.",
            lambda scores, mask: scores.exp() * mask,
        ),
        wrong(
            "not_divided",
            "Not divided by the sum",
            "The blocked entries are 0 and the others positive, but the rows do not add up to 1.",
            lambda scores, mask: (
                (scores.masked_fill(~mask, torch.finfo(scores.dtype).min) - _open_maximum(scores, mask)).exp() * mask
            ),
        ),
        *usual_misconceptions(_right, example=_example),
    ),
)
