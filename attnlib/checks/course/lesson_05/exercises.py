"""Exercises of lesson 05: who may look at whom."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking import ready_made
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.lesson_05.models import INVENT_CONTROL, LOSSES_BY_PLACE, REACH, TRAIN_WRITER
from attnlib.checks.course.usual import FEW_LEFT, of_sizes, usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "05_causal_attention"


def _causal_mask(q_len: int, k_len: int, window: int | None = None) -> Tensor:
    """The contract's form, without the device."""
    return attnlib.causal_mask(q_len, k_len) if window is None else attnlib.sliding_window_mask(q_len, k_len, window)


_UNEVEN = "more keys than queries, or fewer"

CAUSAL_MASK = WrittenExercise(
    name="causal_mask",
    lesson=LESSON,
    contract="two lengths, window=None -> bool (q, k), True = may attend, the last query sees every key, or the last "
    "`window` of them",
    parts={"values": 2, _UNEVEN: 1, "window": 2},
    reference=_causal_mask,
    forbidden=("attnlib.causal_mask", "attnlib.sliding_window_mask", "attnlib.attention_sink_mask"),
    cases=(
        of_sizes("as many queries as keys", 5, 5),
        of_sizes("two words", 2, 2),
        of_sizes("one word", 1, 1),
        of_sizes("more keys than queries", 3, 7, part=_UNEVEN),
        of_sizes("one new query", 1, 5, part=_UNEVEN),
        of_sizes("more queries than keys", 5, 2, part=_UNEVEN),
        of_sizes("seven words, a window of 3", 7, 7, 3, part="window"),
        of_sizes("a window of 1", 5, 5, 1, part="window"),
        of_sizes("a window longer than the text", 5, 5, 9, part="window"),
        of_sizes("a window, and more keys than queries", 3, 7, 2, part="window"),
        of_sizes("a window, and more queries than keys", 5, 3, 2, part="window"),
        of_sizes("a longer text", 11, 11, hidden=True),
        of_sizes("two new queries", 2, 13, part=_UNEVEN, hidden=True),
        of_sizes("two queries before the first key", 7, 5, part=_UNEVEN, hidden=True),
        of_sizes("a longer text, a window of 4", 13, 13, 4, part="window", hidden=True),
        of_sizes("one new query, a window of 4", 1, 6, 4, part="window", hidden=True),
    ),
    example=lambda: (3, 4, 2),
    catalogues=("masks",),
    pairs=("top_left", "causal_mask_upside_down", "upper_triangle", "strict", "one_ahead", "numbers"),
)


def _scores(draw: Draw, *, shape: tuple[int, ...], ahead: float = 0.0) -> tuple[Tensor]:
    """Draw scores; those of the last key, which only the last query sees, are `ahead` of the others."""
    scores = draw.normal(*shape, scale=1.3, shift=0.4)
    scores[..., -1] += ahead
    return (scores,)


def _small_scores() -> tuple[Tensor, ...]:
    return (torch.tensor([[0.0, math.log(3), math.log(4)], [0.0, math.log(3), 0.0], [0.0, 0.0, math.log(2)]]),)


RENORMALISED_CAUSAL_WEIGHTS = WrittenExercise(
    name="renormalised_causal_weights",
    lesson=LESSON,
    contract="(…, q, k) -> (…, q, k): softmax, lower triangle, every row divided by what's left of its sum",
    parts={"values": 2, "gradient": 1, "robustness": 1},
    reference=attnlib.renormalised_causal_weights,
    excused={"large scores": "Taken literally it is 0 / 0 where all of the weight is in the future."},
    forbidden=("attnlib.renormalised_causal_weights", "attnlib.masked_softmax"),
    cases=(
        *usual_cases(
            _scores,
            {"shape": (2, 3, 5, 7)},
            one={"shape": (1, 3, 3)},
            word={"shape": (2, 3, 1, 1)},
            more=[{"shape": (3, 5, 11)}, {"shape": (7, 7)}, {"shape": (2, 3, 1, 5)}, {"shape": (5, 2, 13)}],
            magnitude=FEW_LEFT,
            in_float64=FEW_LEFT,
        ),
        Case(name="float16", inputs=partial(_scores, shape=(2, 3, 5, 7)), dtype=torch.float16, part="robustness"),
        Case(name="little of a row is left", inputs=partial(_scores, shape=(2, 5, 5), ahead=8.0), part="robustness"),
    ),
    example=_small_scores,
    catalogues=("masks", "attention"),
    pairs=("top_left", "causal_mask_upside_down", "upper_triangle", "strict", "one_ahead", "not_renormalised"),
    without=(
        "causal",
        "axis_of_softmax_left_out",
        "over_all_pairs",
        "not_normalised",
        "softmax_twice",
        "softmax_in_float32",
        "exp_overflows",
        "over_queries",
        "never_shifted_back",
        "shifted_without_sign",
    ),
)


def _scores_and_mask(draw: Draw, *, shape: tuple[int, ...], mask: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Scores, and a mask with two open keys or more in every row, and one blocked key or more."""
    return draw.normal(*shape, scale=1.3, shift=0.4), _some_open(draw, mask)


def _some_open(draw: Draw, shape: tuple[int, ...]) -> Tensor:
    order = draw.normal(*shape).argsort(dim=-1)
    open_keys = draw.integers(2, shape[-1], (*shape[:-1], 1)) if shape[-1] > 2 else 1
    return order < open_keys


def _with_empty_rows(draw: Draw, *, shape: tuple[int, ...], mask: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Draw the same scores, with no key open for the first and the last query."""
    scores, open_keys = _scores_and_mask(draw, shape=shape, mask=mask)
    rows = torch.arange(mask[-2])[:, None]
    return scores, open_keys & (rows > 0) & (rows < mask[-2] - 1)


def _nothing_open(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return draw.normal(*shape), torch.zeros(shape, dtype=torch.bool)


def _far(draw: Draw, *, blocked: float, open_keys: float) -> tuple[Tensor, Tensor]:
    """Draw blocked scores around `blocked`, and open ones around `open_keys`."""
    scores, mask = _scores_and_mask(draw, shape=(2, 5, 7), mask=(5, 7))
    return scores + torch.where(mask, open_keys, blocked).to(scores.dtype), mask


def _lower_than(draw: Draw, *, size: float) -> tuple[Tensor, Tensor]:
    """Draw open scores of -size and less, so far apart that one of each row gets all, and blocked ones near 0."""
    scores, mask = _scores_and_mask(draw, shape=(2, 5, 7), mask=(5, 7))
    return torch.where(mask, -size * (1 + scores.abs()), scores), mask


def _wide(draw: Draw, *, span: float) -> tuple[Tensor, Tensor]:
    """Draw rows of scores from -span to span, in any order."""
    order = draw.normal(2, 5, 7).argsort(dim=-1)
    scores = draw.normal(2, 5, 7) + torch.linspace(-span, span, 7, dtype=draw.dtype)[order]
    return scores, _some_open(draw, tuple(scores.shape))


def _uneven(draw: Draw) -> tuple[Tensor, Tensor]:
    scores, mask = _scores_and_mask(draw, shape=(2, 3, 7), mask=(3, 7))
    return scores + torch.tensor([[-1e4], [0.0], [1e4]], dtype=scores.dtype), mask


def _large(name: str, blocked: float, open_keys: float, **how: Any) -> Case:
    return Case(name=name, inputs=partial(_far, blocked=blocked, open_keys=open_keys), part="large scores", **how)


def _not_zero(asked: Asked, inputs: Inputs) -> tuple[Tensor]:
    """Return 1 where a blocked key gets any weight, however small."""
    (weights,) = asked(*inputs)
    return (((weights != 0) & ~inputs[1]).to(weights.dtype),)


def _small_masked() -> tuple[Tensor, ...]:
    return (
        torch.tensor([[0.0, math.log(3), 9.0], [1.0, 2.0, 3.0]]),
        torch.tensor([[True, True, False], [False, False, False]]),
    )


MASKED_SOFTMAX = WrittenExercise(
    name="masked_softmax",
    lesson=LESSON,
    contract="scores (…, k), mask broadcast to them, bool, True = may attend -> weights; a row without True is zero",
    parts={"values": 2, "rows without True": 1, "large scores": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.masked_softmax,
    forbidden=("attnlib.masked_softmax", ready_made.MASKED_SOFTMAX),
    cases=(
        *usual_cases(
            _scores_and_mask,
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
        Case(
            name="whether blocked keys get exactly 0",
            inputs=partial(_scores_and_mask, shape=(2, 3, 5, 7), mask=(5, 7)),
            probe=_not_zero,
        ),
        Case(name="a mask for each sentence", inputs=partial(_scores_and_mask, shape=(2, 3, 5, 7), mask=(2, 1, 1, 7))),
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
        _large("open scores of -10¹², in float32", 0.0, -1e12),
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
    example=_small_masked,
    catalogues=("masks", "attention"),
    without=(
        "causal",
        "softmax_in_float32",
        "exp_overflows",
        "all_masks_upside_down",
        "scores_overwritten",  # its text is of masked_fill_; any other change in place would be told the same
        "empty_rows_unmasked_2",  # large_number_added
        "over_all_pairs_2",  # all_open_together
        "over_all_pairs_4",
    ),
)


class CausalSelfAttention(attnlib.MultiHeadAttention):
    """The contract's form: causal always, the weights always returned."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, bias=bias, is_causal=True)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, key_mask=key_mask, return_weights=True)
        return output, weights


def _sentences(draw: Draw, *, b: int, n: int, heads: int, d: int, bias: bool | None = None) -> Inputs:
    """Arguments of the constructor, without `bias` where it is None, and of `forward` without a key mask."""
    d_model = heads * draw.d_head(d)
    return (d_model, heads) if bias is None else (d_model, heads, bias), (draw.normal(b, n, d_model),)


def _padded_sentences(draw: Draw, *, padding: str, b: int, n: int, heads: int, d: int) -> Inputs:
    """Draw the same sentences with a key mask: padding on one side of the sentences, or holes in them."""
    sizes, (x,) = _sentences(draw, b=b, n=n, heads=heads, d=d)
    if padding == "holes":
        return sizes, (x, draw.integers(0, 3, (b, n)) > 0)
    lengths = draw.integers(2, n, (b, 1))
    places = torch.arange(n)
    return sizes, (x, places < lengths if padding == "right" else places >= n - lengths)


def _at_real_queries(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Set what padded queries get to zero: the contract only asks that it be finite.

    Not where real queries look at padded keys. That is wrong in any case, and what padded queries get then tells one
    mistake from another.
    """
    output, weights = asked(*inputs)
    x, key_mask = inputs
    padded = ~key_mask[:, None, :, None]
    if output.shape != x.shape or weights.dim() != 4 or weights.shape[-2:] != (x.shape[1], x.shape[1]):
        return output, weights
    if bool((weights.detach() * (~padded & padded.mT)).nan_to_num().any()):
        return output, weights
    return (
        output.masked_fill(padded[:, 0] & output.isfinite(), 0.0),
        weights.masked_fill(padded & weights.isfinite(), 0.0),
    )


SIZES: dict[str, Any] = {"b": 2, "n": 7, "heads": 3, "d": 5}
OTHER_SIZES: dict[str, Any] = {"b": 5, "n": 11, "heads": 2, "d": 3}

CAUSAL_SELF_ATTENTION = WrittenExercise(
    name="CausalSelfAttention",
    lesson=LESSON,
    contract="CausalSelfAttention(d_model, num_heads, bias=True), forward(x, key_mask=None): (b, n, d_model), "
    "bool (b, n) -> output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 3, "padding": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=CausalSelfAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ready_made.ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _sentences,
            SIZES,
            one={"b": 1, "n": 5, "heads": 2, "d": 3},
            more=[
                {"b": 3, "n": 13, "heads": 1, "d": 7, "bias": True},
                {"b": 5, "n": 2, "heads": 7, "d": 3},
                {"b": 3, "n": 3, "heads": 3, "d": 3},
            ],
        ),
        Case(name="a longer text, more heads", inputs=partial(_sentences, b=2, n=17, heads=5, d=3)),
        Case(name="bias=False", inputs=partial(_sentences, b=2, n=5, heads=3, d=7, bias=False)),
        *(
            Case(
                name=f"{where}{', other sizes' if hidden else ''}",
                inputs=partial(_padded_sentences, padding=padding, **(OTHER_SIZES if hidden else SIZES)),
                probe=_at_real_queries,
                part="padding",
                gradient=padding == "left",
                dtype=torch.float64 if padding == "left" else torch.float32,
                hidden=hidden,
            )
            for hidden in (False, True)
            for padding, where in (
                ("right", "padding on the right"),
                ("left", "padding on the left, gradients too"),
                ("holes", "padding here and there"),
            )
        ),
        Case(
            name="large scores, and padding",
            inputs=partial(_padded_sentences, padding="holes", **OTHER_SIZES),
            probe=_at_real_queries,
            part="padding",
            dtype=torch.float64,
            times=1000.0,
            magnitude=1e3,
        ),
        Case(
            name="padding, on another device",
            inputs=partial(_padded_sentences, padding="right", **SIZES),
            part="robustness",
            other_device=True,
        ),
        Case(
            name="called before without a key mask, and with another one",
            inputs=partial(_padded_sentences, padding="holes", **SIZES),
            probe=_at_real_queries,
            part="padding",
            after=(partial(_sentences, **SIZES), partial(_padded_sentences, padding="right", **SIZES)),
        ),
        Case(
            name="called before with a key mask, now without one",
            inputs=partial(_sentences, **SIZES),
            part="padding",
            after=(partial(_padded_sentences, padding="right", **SIZES),),
        ),
        Case(
            name="padding, and memory that is not contiguous",
            inputs=partial(_padded_sentences, padding="right", **SIZES),
            probe=_at_real_queries,
            part="robustness",
            strided=True,
            mutation=True,
        ),
        Case(
            name="4 heads for a width of 15",
            inputs=lambda draw: ((15, 4), (draw.normal(2, 5, 15),)),
            raises=True,
            part="robustness",
        ),
    ),
    catalogues=("masks", "attention"),
    few={
        "heads": (
            "no_error",
            "assertion",
            "never_a_bias",
            "always_a_bias",
            "layers_of_one_head",
            "no_output_layer",
            "input_cut_first",
            "biases_unused",
            "split_by_reshape",
            "split_and_merged_by_reshape",
            "split_taking_turns",
            "heads_taking_turns",
            "heads_left_behind_words",
            "never_split",
            "of_the_first_head",
            "scaled_by_root_heads",
            "scores_summed",
            "weights_averaged",
            "merged_by_reshape",
            "merged_taking_turns",
            "heads_reversed",
            "narrow_before_w_o",
            "view_after_transpose",
            "unfolded_otherwise",
            "no_output_projection",
            "output_projection_transposed",
            "bias_of_w_o_unused",
            "bias_for_each_head",
            "weights_mean_returned",
            "heads_of_the_weights_first",
        ),
        "projections": (
            "nothing_projected",
            "queries_and_keys_not_projected",
            "values_not_projected",
            "chained",
            "nonlinear",
            "dropout_first",
            "normalised_inputs",
            "unit_inputs",
            "words_and_features_exchanged",
        ),
    },
    pairs=(
        "strict",
        "one_ahead",
        "no_causal_mask",
        "padding_ignored",
        "no_scale",
        "over_queries",
        "merged_by_reshape",
        "mask_after_softmax",
    ),
    without=(
        "over_queries_and_mask_after_softmax",  # the second is the line of both
        "diagonal_opened",
        "scores_overwritten",
        "empty_rows_unmasked",
        "padding_on_both",
        "empty_rows_equal",
        "causal",
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "scaled_by_axis_one",
        "over_axis_one",
        "axis_of_softmax_left_out",
        "products_not_summed",
        "one_length_only",
        "one_width_only",
        "values_first",
    ),
)


def _padded(draw: Draw, *, b: int, h: int, n: int, side: str, shift: float = 0.4) -> tuple[Tensor, Tensor]:
    """Scores (b, h, n, n), and which keys of each sentence are real: padding on one side, or here and there."""
    if side == "anywhere":
        real = draw.integers(0, 2, (b, n)) > 0
        real[:, [0, n // 2, n - 1]] = torch.tensor([True, False, True])
        return draw.normal(b, h, n, n, scale=1.3, shift=shift), real
    lengths, places = draw.integers(1, n, (b, 1)), torch.arange(n)
    real = places < lengths if side == "right" else places >= n - lengths
    return draw.normal(b, h, n, n, scale=1.3, shift=shift), real


MEND_PADDED_CAUSAL_WEIGHTS = WrittenExercise(
    name="mend_padded_causal_weights",
    lesson=LESSON,
    contract="scores (b, h, n, n), real (b, n), True = a real key -> weights (b, h, n, n); a row without open keys is "
    "zero",
    parts={"values": 2},
    excused={"large scores": "The scores are inputs, and not large."},
    forbidden=(ready_made.ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="padding on the right", inputs=partial(_padded, b=3, h=2, n=7, side="right")),
        Case(name="padding on the left", inputs=partial(_padded, b=5, h=3, n=7, side="left"), mutation=True),
        Case(name="padding between words", inputs=partial(_padded, b=3, h=2, n=7, side="anywhere")),
        Case(
            name="padding on the left, gradients too",
            inputs=partial(_padded, b=2, h=3, n=5, side="left"),
            dtype=torch.float64,
            gradient=True,
            magnitude=FEW_LEFT,
        ),
        Case(name="as many sentences as heads", inputs=partial(_padded, b=3, h=3, n=5, side="right")),
        Case(
            name="scores far below zero",
            inputs=partial(_padded, b=3, h=2, n=7, side="anywhere", shift=-2e4),
            dtype=torch.float64,
            magnitude=FEW_LEFT,
        ),
        Case(name="on another device", inputs=partial(_padded, b=3, h=2, n=7, side="right"), other_device=True),
        Case(name="other sizes, right", inputs=partial(_padded, b=7, h=1, n=5, side="right"), hidden=True),
        Case(name="other sizes, left", inputs=partial(_padded, b=3, h=5, n=11, side="left"), hidden=True),
    ),
    catalogues=("masks", "attention"),
    pairs=(
        "strict",
        "one_ahead",
        "no_causal_mask",
        "padding_on_queries",
        "padding_ignored",
        "padding_upside_down",
        "empty_rows_nan",
        "empty_rows_equal",
    ),
    without=(
        "exp_overflows",
        "strict_2",  # with the two pairs of strict and empty rows
        "strict_3",
        "padding_upside_down_2",
        "padding_upside_down_3",
        "padding_on_queries_and_empty_rows_equal",  # that is how the code is given
        "padding_on_queries_and_empty_rows_nan",  # nan_uncovered
        "no_causal_mask_and_empty_rows_nan",
        "no_causal_mask_and_empty_rows_equal",
        "padding_ignored_and_empty_rows_nan",
        "padding_ignored_and_empty_rows_equal",
        "over_axis_one",
        "causal",
        "softmax_in_float32",
    ),
)


def _packed(draw: Draw, *, b: int, n: int, lowest: int = 0, longest: int = 3) -> tuple[Tensor]:
    """Draw packed texts of one or more tokens with repeated numbers; a `lowest` of -1 adds padding anywhere."""
    ids = draw.integers(lowest, 4, (b, n)).repeat_interleave(longest, dim=1)
    starts = draw.integers(0, ids.shape[1] - n + 1, (b,)).tolist()
    return (torch.stack([row[start : start + n] for row, start in zip(ids, starts, strict=True)]),)


def _row(*ids: int) -> tuple[Tensor]:
    return (torch.tensor([ids]),)


_PADDED = partial(_packed, lowest=-1)

PACKED_CAUSAL = WrittenExercise(
    name="packed_causal",
    lesson=LESSON,
    contract="numbers of texts (b, n), -1 = padding -> mask bool (b, n, n), positions int64 (b, n)",
    parts={"values": 3, "padding": 2, "robustness": 1},
    outputs=("mask", "positions"),
    forbidden=("attnlib.causal_mask", "attnlib.sliding_window_mask", "attnlib.attention_sink_mask"),
    cases=(
        Case(name="three texts, numbered in their order", inputs=lambda draw: _row(0, 0, 0, 1, 1, 2, 2, 2, 2)),
        Case(name="numbers that come back", inputs=lambda draw: _row(4, 4, 7, 4)),
        Case(name="one text", inputs=lambda draw: _row(5, 5, 5)),
        Case(name="three rows, each packed in its own way", inputs=partial(_packed, b=3, n=11)),
        Case(
            name="called a second time, with other rows",
            inputs=partial(_packed, b=3, n=11),
            after=(partial(_packed, b=3, n=11),),
        ),
        Case(
            name="called before with other sizes",
            inputs=partial(_packed, b=3, n=11),
            after=(partial(_packed, b=2, n=7), partial(_packed, b=5, n=13)),
        ),
        Case(name="padding at the end", inputs=lambda draw: _row(0, 0, 1, 1, 1, -1, -1), part="padding"),
        Case(name="padding anywhere", inputs=partial(_PADDED, b=5, n=13), part="padding"),
        Case(
            name="padding between texts of one number", inputs=lambda draw: _row(3, 3, -1, 3, 3, -1, 3), part="padding"
        ),
        Case(name="nothing but padding", inputs=lambda draw: _row(-1, -1, -1), part="padding"),
        Case(name="one token", inputs=lambda draw: _row(5)),
        Case(
            name="the numbers stay as they are",
            inputs=lambda draw: _row(-1, 4, 4, -1, 0, 4, -1),
            mutation=True,
            part="robustness",
        ),
        Case(name="on another device", inputs=partial(_PADDED, b=2, n=7), other_device=True, part="robustness"),
        Case(name="other sizes", inputs=partial(_packed, b=7, n=17, longest=5), hidden=True),
        Case(name="texts of one token", inputs=partial(_PADDED, b=3, n=7, longest=1), part="padding", hidden=True),
    ),
    example=lambda: _row(4, 4, 7, 4),
    without=("no_window",),
    pairs=(
        "number_taken_for_text",
        "future_of_the_text_seen",
        "token_not_seen_by_itself",
        "positions_not_restarted",
        "padding_is_a_text",
    ),
)


PREDICT_ZEROED_FUTURE = prediction(
    name="predict_zeroed_future",
    lesson=LESSON,
    contract="whether the past learns of the future when future weights are set to zero after the softmax",
    reference="C",
    explanation="Every weight of the softmax is divided by a sum over all keys, future ones included. A large future "
    "score makes that sum large and the kept weights small. So the size of the output gives away something about "
    "what's to come.",
)

PREDICT_BLOCKED_ROW = prediction(
    name="predict_blocked_row",
    lesson=LESSON,
    contract="the weights of a query for which every key is blocked with -1e9",
    reference="B",
    explanation="Softmax sees only differences. A row of equal numbers has none, whether they're 0 or -1e9, so four "
    "keys get 1/4 each. The query attends to everything it must not see.",
)

EXERCISES = (
    CAUSAL_MASK,
    PREDICT_ZEROED_FUTURE,
    RENORMALISED_CAUSAL_WEIGHTS,
    PREDICT_BLOCKED_ROW,
    MASKED_SOFTMAX,
    CAUSAL_SELF_ATTENTION,
    REACH,
    TRAIN_WRITER,
    LOSSES_BY_PLACE,
    INVENT_CONTROL,
    MEND_PADDED_CAUSAL_WEIGHTS,
    PACKED_CAUSAL,
)
