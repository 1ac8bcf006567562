"""mend_padded_causal_weights: padding on the axis of the queries, and a finite number that hides it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.usual import as_given, usual_misconceptions, wrong
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LESSON = "05_causal_attention"


def _padded(draw: Draw, *, b: int, h: int, n: int, side: str) -> tuple[Tensor, Tensor]:
    """Scores (b, h, n, n), and which keys of each sentence are real."""
    lengths, places = draw.integers(1, n, (b, 1)), torch.arange(n)
    real = places < lengths if side == "right" else places >= n - lengths
    return draw.normal(b, h, n, n, scale=1.3, shift=0.4), real


def _diagonal_opened(scores: Tensor, real: Tensor) -> Tensor:
    n = scores.shape[-1]
    past = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    seen = real[:, None, None, :] & past | torch.eye(n, dtype=torch.bool, device=scores.device)
    return scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)


def _weights(
    scores: Tensor,
    real: Tensor,
    *,
    axis: str = "keys",
    past: Callable[[Tensor], Tensor] = torch.tril,
    fill: float = -torch.inf,
    empty_rows: str = "zero",
    joined_by: Callable[[Tensor, Tensor], Tensor] = torch.logical_and,
    dim: int = -1,
) -> Tensor:
    """Causal weights of a padded batch, and every wrong way of making them that the exercise knows."""
    n = scores.shape[-1]
    keys, queries = real[:, None, None, :], real[:, None, :, None]
    padding = {"keys": keys, "queries": queries, "both": keys & queries, "neither": torch.ones_like(keys)}[axis]
    mask = joined_by(padding, past(torch.ones(n, n, dtype=torch.bool, device=scores.device)))
    empty = ~mask.any(dim=dim, keepdim=True)
    blocked = ~mask if empty_rows == "as they come" else ~mask & ~empty
    weights = scores.masked_fill(blocked, fill).softmax(dim=dim)
    return weights.masked_fill(empty, 0.0) if empty_rows == "zero" else weights


def _reference(scores: Tensor, real: Tensor) -> Tensor:
    n = scores.shape[-1]
    return attnlib.masked_softmax(scores, attnlib.causal_mask(n, n, device=scores.device) & real[:, None, None, :])


def _mask(scores: Tensor, real: Tensor) -> Tensor:
    n = scores.shape[-1]
    return torch.ones(n, n, dtype=torch.bool, device=scores.device).tril() & real[:, None, None, :]


def _overwritten(scores: Tensor, real: Tensor) -> Tensor:
    mask = _mask(scores, real)
    return scores.masked_fill_(~mask, -1e10).softmax(dim=-1) * mask


def _on_the_heads(share: Callable[[Tensor, Tensor], Tensor], scores: Tensor, real: Tensor) -> Tensor:
    n = scores.shape[-1]
    return share(scores, attnlib.causal_mask(n, n, device=scores.device) & real[None, :, None, :])


def _as_index(scores: Tensor, real: Tensor) -> Tensor:
    filled = scores.clone()
    filled[~_mask(scores, real)] = -torch.inf
    return filled.softmax(dim=-1).nan_to_num(0.0)


def _swept(scores: Tensor, real: Tensor) -> Tensor:
    added = torch.zeros_like(scores).masked_fill(~_mask(scores, real), -torch.inf)
    return (scores + added).softmax(dim=-1).nan_to_num(0.0)


ALSO: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "empty_rows_nan",
        "a query that sees nothing becomes NaN",
        "the softmax of a row of -inf is 0 / 0, where masked_softmax gives zeros",
        {"empty_rows": "as they come"},
    ),
    (
        "uniform_rows",
        "a query that sees nothing looks at everything",
        "a row that is -1e10 throughout gives each key the same share, where masked_softmax gives zeros",
        {"fill": -1e10, "empty_rows": "as they come"},
    ),
    (
        "padding_on_queries",
        "the padding is on the axis of the queries",
        "it is padded *keys* that must not be seen, real[:, None, None, :]",
        {"axis": "queries"},
    ),
    (
        "padding_dropped",
        "the padding is not blocked at all",
        "it is padded *keys* that must not be seen, real[:, None, None, :]",
        {"axis": "neither"},
    ),
)

MEND_PADDED_CAUSAL_WEIGHTS = Exercise(
    name="mend_padded_causal_weights",
    lesson=LESSON,
    contract="scores (b,h,n,n), real (b,n), True = a real key -> weights (b,h,n,n); a row without open keys is zero",
    parts={"values": 2},
    reference=_reference,
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="padding on the right", inputs=partial(_padded, b=3, h=2, n=7, side="right")),
        Case(name="padding on the left", inputs=partial(_padded, b=5, h=3, n=7, side="left"), mutation=True),
        Case(
            name="padding on the left, gradients too",
            inputs=partial(_padded, b=2, h=3, n=5, side="left"),
            dtype=torch.float64,
            gradient=True,
        ),
        Case(name="on another device", inputs=partial(_padded, b=3, h=2, n=7, side="right"), other_device=True),
        Case(name="other sizes, right", inputs=partial(_padded, b=7, h=1, n=5, side="right"), hidden=True),
        Case(name="other sizes, left", inputs=partial(_padded, b=3, h=5, n=11, side="left"), hidden=True),
    ),
    misconceptions=(
        as_given(partial(_weights, axis="queries", fill=-1e10, empty_rows="as they come")),
        wrong(
            "uniform_rows",
            "A query that sees nothing looks at everything",
            "The padding is on the axis of the keys now. But a row that is filled with the same number throughout is "
            "a row of equal scores, and the softmax gives each the same share: the padding and the future, too. Such "
            "a row has to be zeros: use masked_softmax.",
            partial(_weights, fill=-1e10, empty_rows="as they come"),
        ),
        wrong(
            "padding_on_queries",
            "The padding is still on the axis of the queries",
            "Rows without any True are zeros now. But `real[:, None, :, None]` closes whole *rows*, those of the "
            "padded queries, and every real query still looks at padded keys.",
            partial(_weights, axis="queries"),
        ),
        wrong(
            "nan_uncovered",
            "-inf, with the padding still on the queries",
            "With -inf in place of -1e10 the hidden fault shows itself: the rows of padded queries are blocked whole, "
            "and 0 / 0 is NaN. Real queries still look at padded keys. Move the padding to the axis of the keys.",
            partial(_weights, axis="queries", empty_rows="as they come"),
        ),
        wrong(
            "empty_rows_nan",
            "A query that sees nothing becomes NaN",
            "The padding is on the axis of the keys now. With padding on the left, the first queries see nothing at "
            "all. The softmax of a row of -inf is 0 / 0, and so is a row of zeros divided by its sum. masked_softmax "
            "gives zeros there.",
            partial(_weights, empty_rows="as they come"),
        ),
        wrong(
            "nan_swept_forward",
            "The NaN is swept away, but comes back in the gradient",
            "Forward all is right. Backward, the softmax of the row of -inf multiplies by its own NaN output, and 0 "
            "times NaN is NaN. Adding -inf lets that gradient through; masked_softmax does not.",
            _swept,
        ),
        wrong(
            "padding_on_both",
            "The padding is on both axes",
            "Padded keys are blocked, as they should be. Padded *queries* are blocked, too, and the contract does not "
            "ask for it: it speaks of real keys only. Their rows are not used further on, so leave them alone.",
            partial(_weights, axis="both"),
        ),
        wrong(
            "padding_dropped",
            "The padding is not blocked at all",
            "The causal mask alone is left. With padding on the right that is enough for the real queries; with "
            "padding on the left the padded keys stand in everyone's past.",
            partial(_weights, axis="neither"),
        ),
        wrong(
            "causal_dropped",
            "The causal mask is gone",
            "Padded keys are blocked, but the future is open again. Both have to hold.",
            partial(_weights, past=torch.ones_like),
        ),
        wrong(
            "upside_down",
            "The mask is upside down",
            "What may be seen is blocked, and what may not is open. True = may be seen: masked_fill wants ~mask, "
            "masked_softmax the mask itself.",
            partial(_weights, joined_by=lambda padding, past: ~(padding & past)),
        ),
        wrong(
            "padding_upside_down",
            "The padding is taken the other way round",
            "The real keys are blocked and the padding is open. In `real` True = a real key, as it stands.",
            partial(_weights, joined_by=lambda padding, past: ~padding & past),
        ),
        *(
            wrong(
                f"padding_upside_down_{how}",
                "The padding is taken the other way round",
                "The real keys are blocked and the padding is open. And a row in which nothing is left open "
                f"{becomes}, where masked_softmax gives zeros.",
                partial(
                    _weights,
                    joined_by=lambda padding, past: ~padding & past,
                    fill=fill,
                    empty_rows="as they come",
                ),
            )
            for how, becomes, fill in (
                ("with_nan", "becomes NaN", -torch.inf),
                ("filled", "gives each key the same share", -1e10),
            )
        ),
        wrong(
            "strict",
            "A word may not see itself",
            "The triangle was right as it stood. Without its diagonal a query cannot look at its own position.",
            partial(_weights, past=lambda ones: ones.tril(-1)),
        ),
        wrong(
            "mask_after_softmax",
            "Blocked after the softmax, and not divided again",
            "The blocked weights are 0, but their share is lost: the rows add up to less than 1. Block the scores, "
            "before the softmax.",
            lambda scores, real: scores.softmax(dim=-1) * _mask(scores, real),
        ),
        wrong(
            "filled_with_zero",
            "Blocked scores become 0",
            "A score of 0 is not a weight of 0: e⁰ = 1. Fill with -inf, or leave the filling to masked_softmax.",
            lambda scores, real: (scores * _mask(scores, real)).softmax(dim=-1),
        ),
        wrong(
            "scores_overwritten",
            "The scores are changed in place",
            "masked_fill_, with its underscore, writes into the tensor that you were given, and autograd refuses. "
            "masked_fill makes a new one.",
            _overwritten,
        ),
        wrong(
            "or_instead_of_and",
            "Either mask opens a key",
            "| opens a key that is in the past *or* real. Both have to hold: &.",
            partial(_weights, joined_by=torch.logical_or),
        ),
        wrong(
            "empty_rows_unmasked",
            "A query that sees nothing gets the plain softmax",
            "No NaN comes up, good. But a row without any True has to be zeros, and yours looks at everything.",
            partial(_weights, empty_rows="plain"),
        ),
        *(
            wrong(
                f"padding_on_the_heads_{how}",
                "The sentences' padding lies on the axis of the heads",
                "`real[None, :, None, :]`, or real[:, None, :], lines the sentences up with the heads: it fails, or "
                "each head gets the padding of a sentence. The batch stays first: real[:, None, None, :].",
                partial(_on_the_heads, share),
            )
            for how, share in (
                ("filled", lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)),
                ("shared", attnlib.masked_softmax),
            )
        ),
        wrong(
            "mask_as_index",
            "The mask is used as an index",
            "`scores[~mask] = ...` does not broadcast, and the mask (b, 1, n, n) has no axis of the heads' length. "
            "masked_fill and torch.where broadcast.",
            _as_index,
        ),
        wrong(
            "first_padding_for_all",
            "All sentences get the first one's padding",
            "With a batch of one nobody notices. Each sentence has its own padding: real[:, None, None, :].",
            lambda scores, real: _weights(scores, real[:1].expand_as(real)),
        ),
        wrong(
            "one_ahead",
            "Every word sees one word too many",
            "The triangle was right as it stood. With diagonal=1 each query sees the very token that it has to guess.",
            partial(_weights, past=lambda ones: ones.tril(1)),
        ),
        wrong(
            "diagonal_opened",
            "Every word sees itself, padding too",
            "Opening the diagonal keeps a row from being empty, and then padding looks at padding. A query that sees "
            "nothing gets zeros: that is what attnlib.masked_softmax does.",
            _diagonal_opened,
        ),
        wrong(
            "over_queries",
            "The softmax runs over the queries",
            "It was right as it stood: each query shares out 1 among the keys, the last axis, dim=-1.",
            partial(_weights, dim=-2),
        ),
        wrong(
            "over_queries_filled",
            "The softmax runs over the queries",
            "It was right as it stood: each query shares out 1 among the keys, the last axis, dim=-1.",
            partial(_weights, dim=-2, fill=-1e10, empty_rows="as they come"),
        ),
        wrong(
            "over_queries_with_nan",
            "The softmax runs over the queries",
            "It was right as it stood: each query shares out 1 among the keys, the last axis, dim=-1. A key that is "
            "padding is -inf for every query, and 0 / 0 is NaN.",
            partial(_weights, dim=-2, empty_rows="as they come"),
        ),
        wrong(
            "fill_with_zeros",
            "Zeros are right for such a row, but not for the blocked scores",
            "Rows without any True are zeros now. But blocked scores of other rows became 0, and e⁰ = 1 is a good "
            "share. Fill with -inf.",
            partial(_weights, fill=0.0),
        ),
        *(
            wrong(
                f"{triangle}_and_{other}",
                f"{title}, and {also}",
                f"Two things at once. The triangle was right as it stood; and {rather}.",
                partial(_weights, past=past, **left),
            )
            for triangle, title, past in (
                ("strict", "A word may not see itself", lambda ones: ones.tril(-1)),
                ("one_ahead", "Every word sees one word too many", lambda ones: ones.tril(1)),
                ("causal_dropped", "The causal mask is gone", torch.ones_like),
            )
            for other, also, rather, left in ALSO
            if triangle != "causal_dropped" or "axis" in left  # else no row is empty
        ),
        wrong(
            "upper_triangle",
            "The triangle is the upper one",
            "The triangle was right as it stood: tril keeps the past.",
            partial(_weights, past=torch.triu),
        ),
        *(m for m in usual_misconceptions(_weights) if m.id in ("cpu_only", "detached")),
    ),
)
