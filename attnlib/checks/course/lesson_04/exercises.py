"""Exercises of lesson 04: cross-attention, where x asks and a memory answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.given import described, made
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.right import plain_answer
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import FEW_LEFT, only_built, usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "04_cross_attention"

UNLIKE_HERE = (
    "products_not_summed",
    "scaled_by_axis_one",
    "over_axis_one",
    "axis_of_softmax_left_out",
    "causal",
    "itself_blocked",
)
"""Slips of attention in general, or of self-attention; `memory_read_causally` says more than `causal`."""


def _cross_attention(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """The contract's form: the weights are always returned."""
    output, weights = attnlib.cross_attention(x, memory, w_q, w_k, w_v)
    return output, weights


def _matrices(
    draw: Draw, *, b: int, q: int, k: int, d_model: int, d_memory: int, d_k: int, d_v: int
) -> tuple[Tensor, ...]:
    """Draw matrices whose scores have a standard deviation of about 1.5."""
    d_k = draw.d_head(d_k)
    return (
        draw.normal(b, q, d_model),
        draw.normal(b, k, d_memory),
        draw.normal(d_model, d_k, scale=1.2 * d_model**-0.5),
        draw.normal(d_memory, d_k, scale=1.2 * d_memory**-0.5),
        draw.normal(d_memory, d_v, scale=d_memory**-0.5),
    )


def _small_texts() -> tuple[Tensor, ...]:
    """Two queries, three keys, and whole numbers."""
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    memory = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    w_q = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    w_k = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    return x, memory, w_q, w_k, torch.tensor([[4.0], [0.0], [8.0]])


def _zero_vector(make: Callable[..., Inputs], **sizes: Any) -> Case:
    """Draw a memory whose first vector is zero; its key is the bias, and it may be attended to."""

    def inputs(draw: Draw) -> Inputs:
        made = make(draw, **sizes)
        _, memory, *_ = made[-1] if isinstance(made[-1], tuple) else made
        memory[:, 0] = 0
        return made

    return Case(name="a vector of zeros in the memory", inputs=inputs)


CROSS_ATTENTION = WrittenExercise(
    name="cross_attention",
    lesson=LESSON,
    contract="(b, q, d_model), (b, k, d_memory), three matrices -> output (b, q, d_v), weights (b, q, k)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    reference=_cross_attention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    shown="weights",
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _matrices,
            {"b": 2, "q": 5, "k": 7, "d_model": 11, "d_memory": 13, "d_k": 3, "d_v": 17},
            one={"b": 1, "q": 3, "k": 2, "d_model": 7, "d_memory": 5, "d_k": 11, "d_v": 2},
            more=[
                {"b": 3, "q": 11, "k": 5, "d_model": 7, "d_memory": 2, "d_k": 5, "d_v": 13},
                {"b": 5, "q": 1, "k": 3, "d_model": 2, "d_memory": 11, "d_k": 7, "d_v": 3},
                {"b": 2, "q": 3, "k": 1, "d_model": 5, "d_memory": 7, "d_k": 2, "d_v": 5},
            ],
        ),
        _zero_vector(_matrices, b=2, q=5, k=7, d_model=11, d_memory=13, d_k=3, d_v=17),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(
            name="two texts of one length and width",
            inputs=partial(_matrices, b=2, q=5, k=5, d_model=11, d_memory=11, d_k=3, d_v=3),
        ),
        Case(
            name="every width the same",
            inputs=partial(_matrices, b=3, q=7, k=7, d_model=5, d_memory=5, d_k=5, d_v=5),
        ),
        Case(
            name="every width is 1",
            inputs=partial(_matrices, b=2, q=5, k=7, d_model=1, d_memory=1, d_k=1, d_v=1),
        ),
    ),
    example=_small_texts,
    catalogues=("attention",),
    few={"projections": ("nonlinear",)},
    pairs=(
        "no_scale",
        "scaled_by_d",
        "multiplied_by_root_d",
        "scaled_by_root_d_v",
        "scaled_by_root_k",
        "over_queries",
        "over_first_axis",
        "no_softmax",
        "weights_transposed",
        "order_returned",
    ),
    without=(*UNLIKE_HERE, "over_heads", "scaled_by_root_d_v_and_weights_transposed"),
)


class MultiHeadCrossAttention(attnlib.MultiHeadAttention):
    """The contract's form: there is always a memory, and the weights are always returned."""

    def __init__(
        self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, d_memory=d_memory, bias=bias)

    def forward(  # type: ignore[override]
        self, x: Tensor, memory: Tensor, key_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        output, weights = super().forward(x, memory, key_mask=key_mask, return_weights=True)
        return output, weights


def _texts(draw: Draw, b: int, q: int, k: int, d_model: int, d_memory: int) -> tuple[Tensor, Tensor]:
    return draw.normal(b, q, d_model), draw.normal(b, k, d_memory)


def _heads(draw: Draw, *, b: int, q: int, k: int, h: int, d: int, d_memory: int | None) -> tuple[Inputs, Inputs]:
    """Draw inputs for heads of width d_model / num_heads; without a `d_memory`, the memory is as wide as x."""
    d_model = h * draw.d_head(d)
    d_memory = d_model if d_memory is None else d_memory
    return (d_model, d_memory, h), _texts(draw, b, q, k, d_model, d_memory)


def _free_width(
    draw: Draw, *, b: int, q: int, k: int, d_model: int, d_memory: int, h: int, d: int, bias: bool = True
) -> tuple[Inputs, Inputs]:
    """Draw inputs for a given width of the heads, with h·d other than d_model."""
    return (d_model, d_memory, h, draw.d_head(d), bias), _texts(draw, b, q, k, d_model, d_memory)


def _padded(
    draw: Draw, *, b: int, q: int, k: int, h: int, d: int, d_memory: int, side: str = "anywhere"
) -> tuple[Inputs, Inputs]:
    """A memory with padding at the end, at the beginning or anywhere, and something real in each text."""
    sizes, texts = _heads(draw, b=b, q=q, k=k, h=h, d=d, d_memory=d_memory)
    if side == "anywhere":
        return sizes, (*texts, _real_anywhere(draw, b, k))
    real = _real(draw, b, k)
    return sizes, (*texts, real if side == "right" else real.flip(1))


def _indivisible(draw: Draw, *, d_model: int, h: int) -> tuple[Inputs, Inputs]:
    return (d_model, 13, h), _texts(draw, 2, 5, 3, d_model, 13)


def _weight_on_padding(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Mark where a head gives padding a weight, however small."""
    output, weights = asked(*inputs)
    return output[:0], ((weights != 0) & ~inputs[2][:, None, None]).to(weights.dtype)


def _far_below_zero(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Attend with scores near -20,000, all of them: no weight changes but where padding gets a number for its score."""
    assert asked.shapes is not None
    width = asked.shapes["w_q.bias"][0]
    d = width // _SIZES["h"]
    first = torch.arange(width) % d == 0  # the first column of each head is the same number in every query
    for layer, sign in (("w_q", 1.0), ("w_k", -1.0)):
        weight = torch.eye(*asked.shapes[f"{layer}.weight"]) * ~first[:, None]
        asked.load({f"{layer}.weight": weight, f"{layer}.bias": sign * first * (2e4 * d**0.5) ** 0.5})
    return asked(*inputs)


_SIZES: dict[str, Any] = {"b": 2, "q": 5, "k": 11, "h": 3, "d": 7, "d_memory": 13}
_OTHER_SIZES: dict[str, Any] = {"b": 5, "q": 3, "k": 7, "h": 2, "d": 3, "d_memory": 11}

MULTI_HEAD_CROSS_ATTENTION = WrittenExercise(
    name="MultiHeadCrossAttention",
    lesson=LESSON,
    contract="MultiHeadCrossAttention(d_model, d_memory, num_heads, d_head=None, bias=True), "
    "forward(x, memory, key_mask=None): (b, q, d_model), (b, k, d_memory), bool (b, k) -> "
    "output (b, q, d_model), weights (b, h, q, k)",
    parts={"values": 3, "padding": 2, "options": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=MultiHeadCrossAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _heads,
            {"b": 2, "q": 7, "k": 11, "h": 3, "d": 5, "d_memory": 13},
            one={"b": 1, "q": 5, "k": 3, "h": 2, "d": 7, "d_memory": 11},
            more=[
                {"b": 3, "q": 2, "k": 7, "h": 5, "d": 3, "d_memory": 11},
                {"b": 5, "q": 3, "k": 1, "h": 2, "d": 2, "d_memory": 7},
                {"b": 2, "q": 1, "k": 5, "h": 1, "d": 3, "d_memory": 2},
            ],
        ),
        _zero_vector(_heads, b=2, q=5, k=7, h=3, d=5, d_memory=13),
        # where lengths and widths agree, more mistakes run, and the numbers tell which one it is
        Case(
            name="two texts of one length and width",
            inputs=partial(_heads, b=2, q=5, k=5, h=5, d=3, d_memory=None),
        ),
        Case(
            name="a memory of another width that could be shared out, too",
            inputs=partial(_heads, b=2, q=3, k=5, h=3, d=5, d_memory=12),
        ),
        Case(name="heads of one number", inputs=partial(_heads, b=2, q=5, k=7, h=3, d=1, d_memory=1)),
        *(
            Case(
                name=f"padding {where}{', other sizes' if hidden else ''}",
                inputs=partial(_padded, side=side, **(_OTHER_SIZES if hidden else _SIZES)),
                part="padding",
                hidden=hidden,
            )
            for hidden in (False, True)
            for side, where in (("right", "at the end"), ("left", "at the beginning"), ("anywhere", "anywhere"))
        ),
        Case(
            name="padding anywhere, gradients",
            inputs=partial(_padded, **_SIZES),
            part="padding",
            dtype=torch.float64,
            gradient=True,
            magnitude=FEW_LEFT,
        ),
        Case(
            name="no weight on padding",
            inputs=partial(_padded, **_SIZES),
            part="padding",
            probe=_weight_on_padding,
        ),
        Case(
            name="scores far below zero, and padding",
            inputs=partial(_padded, **_SIZES),
            part="padding",
            dtype=torch.float64,
            magnitude=FEW_LEFT,
            probe=_far_below_zero,
        ),
        Case(
            name="padding, on another device",
            inputs=partial(_padded, **_SIZES),
            part="robustness",
            other_device=True,
        ),
        Case(
            name="as many texts as heads, and padding",
            inputs=partial(_padded, **{**_SIZES, "b": 3}),
            part="padding",
        ),
        Case(
            name="called before without a mask, and with another one",
            inputs=partial(_padded, **_SIZES),
            part="padding",
            after=(partial(_heads, **_SIZES), partial(_padded, **_SIZES, side="right")),
        ),
        Case(
            name="called before with a mask, now without one",
            inputs=partial(_heads, **_SIZES),
            part="padding",
            after=(partial(_padded, **_SIZES),),
        ),
        Case(
            name="d_head is given",
            inputs=partial(_free_width, b=2, q=5, k=3, d_model=11, d_memory=13, h=3, d=7),
            part="options",
        ),
        Case(
            name="d_head is given, where num_heads divides d_model",
            inputs=partial(_free_width, b=2, q=5, k=3, d_model=12, d_memory=13, h=3, d=7),
            part="options",
        ),
        Case(
            name="no bias",
            inputs=partial(_free_width, b=3, q=5, k=7, d_model=13, d_memory=11, h=2, d=3, bias=False),
            part="options",
        ),
        Case(
            name="3 heads and a d_model of 14",
            inputs=partial(_indivisible, d_model=14, h=3),
            part="options",
            raises=True,
        ),
        Case(
            name="3 heads and a d_model of 14, nothing but the constructor",
            inputs=partial(_indivisible, d_model=14, h=3),
            part="options",
            raises=True,
            probe=only_built,
        ),
        Case(
            name="2 heads and a d_model of 7",
            inputs=partial(_indivisible, d_model=7, h=2),
            part="options",
            raises=True,
            hidden=True,
        ),
        Case(
            name="d_head is given, gradients",
            inputs=partial(_free_width, b=2, q=3, k=5, d_model=7, d_memory=11, h=5, d=2),
            part="options",
            dtype=torch.float64,
            gradient=True,
            hidden=True,
        ),
    ),
    catalogues=("attention", "heads"),
    few={
        "projections": ("nonlinear", "weights_as_stored"),
        "masks": (
            "padding_upside_down",
            "padding_on_queries",
            "padding_not_lined_up",
            "padding_on_the_heads",
            "first_padding_for_all",
            "real_keys_counted",
            "padding_repeated_otherwise",
            "key_mask_demanded",
            "truth_of_the_key_mask",
            "mask_after_softmax",
            "scores_times_mask",
            "scores_times_mask_zeroed",
            "mask_added",
            "mask_as_index",
        ),
    },
    pairs=(
        "no_scale",
        "scaled_by_root_d_model",
        "over_queries",
        "merged_by_reshape",
        "split_and_merged_by_reshape",
        "w_q_w_k_exchanged",
        "no_output_projection",
        "padding_upside_down",
    ),
    without=(
        *UNLIKE_HERE,
        "scaled_by_root_d_v",
        "one_width_only",
        "zeros_taken_for_padding_2",
        "mask_lives_on",  # a memory is no mask
        "first_key_mask_kept",
    ),
)


def _real(draw: Draw, b: int, n: int) -> Tensor:
    """Return a mask (b, n): the first positions are real, at least two; all texts but the first are padded."""
    lengths = draw.integers(2, n, (b, 1))
    lengths[0] = n
    return torch.arange(n) < lengths


def _real_anywhere(draw: Draw, b: int, n: int) -> Tensor:
    """Return a mask (b, n) with padding anywhere, even at each text's first position; at least one is real."""
    real = draw.integers(0, 2, (b, n)) > 0
    real[:, 0], real[:, n // 2] = False, True
    return real


def _padded_texts(
    b: int, q: int, k: int, d_model: int, d_k: int, d_v: int, real_ones: Callable[[Draw, int, int], Tensor] = _real
) -> Callable[[Draw], tuple[Tensor, ...]]:
    """A padded batch and matrices, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor, ...]:
        width, grow = draw.d_head(d_k), 1.2 * d_model**-0.5
        texts = draw.normal(b, q, d_model), draw.normal(b, k, d_model)
        real = real_ones(draw, b, q), real_ones(draw, b, k).flip(0)
        return (*texts, *real, *(draw.normal(d_model, d, scale=grow) for d in (width, width, d_v)))

    return inputs


def _scored_far_below_zero(draw: Draw) -> tuple[Tensor, ...]:
    """Draw the same with scores near -20,000, all of them, as for several heads above."""
    x, memory, x_is_real, memory_is_real, w_q, w_k, w_v = _padded_texts(3, 5, 7, 7, 3, 11)(draw)
    x[..., 0] = memory[..., 0] = 1.0
    for w, sign in ((w_q, 1), (w_k, -1)):  # in the first column nothing but this
        w[:, 0] = 0.0
        w[0, 0] = sign * (2e4 * w.shape[1] ** 0.5) ** 0.5
    return x, memory, x_is_real, memory_is_real, w_q, w_k, w_v


def _where_x_is_real(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Set the results at padded queries to zero: the contract leaves them open."""
    padded = ~inputs[2][..., None]
    return tuple(t.masked_fill(padded, 0) if t.shape[:2] == padded.shape[:2] else t for t in asked(*inputs))


def _weight_of_real_queries(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Mark where a real query gives padding a weight, however small."""
    output, weights = asked(*inputs)
    return output[:0], ((weights != 0) & ~inputs[3][:, None] & inputs[2][..., None]).to(weights.dtype)


MEND_DECODER_ATTENTION = WrittenExercise(
    name="mend_decoder_attention",
    lesson=LESSON,
    contract="(b, q, d_model), (b, k, d_model), bool (b, q), bool (b, k), three matrices -> "
    "output (b, q, d_v), weights (b, q, k)",
    parts={"values": 2},
    excused={"large scores": "An answer may renormalise, which is 0 / 0 where padding has all of the weight."},
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="two texts of one length", inputs=_padded_texts(3, 7, 7, 11, 5, 2), probe=_where_x_is_real),
        Case(name="a longer memory", inputs=_padded_texts(2, 5, 11, 13, 3, 7), probe=_where_x_is_real, mutation=True),
        Case(
            name="padding anywhere, the first question, too",
            inputs=_padded_texts(3, 7, 11, 13, 3, 5, _real_anywhere),
            probe=_where_x_is_real,
        ),
        Case(
            name="float64, gradients too",
            inputs=_padded_texts(3, 5, 7, 7, 3, 11),
            dtype=torch.float64,
            gradient=True,
            magnitude=FEW_LEFT,
            probe=_where_x_is_real,
        ),
        Case(name="no weight on padding", inputs=_padded_texts(3, 5, 7, 7, 3, 11), probe=_weight_of_real_queries),
        Case(
            name="scores far below zero",
            inputs=_scored_far_below_zero,
            dtype=torch.float64,
            magnitude=FEW_LEFT,
            probe=_where_x_is_real,
        ),
        Case(name="a shorter memory", inputs=_padded_texts(5, 11, 3, 7, 5, 13), probe=_where_x_is_real, hidden=True),
        Case(name="one query", inputs=_padded_texts(3, 3, 7, 5, 2, 3), probe=_where_x_is_real, hidden=True),
        Case(name="d_v as large as d_k", inputs=_padded_texts(3, 5, 5, 7, 3, 3), probe=_where_x_is_real, hidden=True),
    ),
    catalogues=("attention",),
    few={
        "projections": ("nonlinear",),
        "masks": ("mask_after_softmax", "scores_times_mask", "scores_times_mask_zeroed", "mask_added", "mask_as_index"),
    },
    pairs=(
        "keys_and_values_from_x",
        "keys_from_x",
        "values_from_x",
        "mask_of_x_left",
        "mask_upside_down",
        "mask_dropped",
        "no_scale",
        "over_queries",
    ),
    without=(
        *UNLIKE_HERE,
        "keys_and_values_from_x_and_mask_of_x_left",  # that is how the code is given
        "mask_of_x_left_and_mask_dropped",
        "mask_upside_down_and_mask_dropped",
        "exp_overflows",
        "exp_overwritten",
        "over_heads",
        "scaled_by_root_d_memory",
        "w_q_w_v_exchanged",
        "queries_values_exchanged",
        "values_for_keys",
        "zeros_taken_for_padding",
    ),
)


PREDICT_SHUFFLED_MEMORY = prediction(
    name="predict_shuffled_memory",
    lesson=LESSON,
    contract="what happens to output and weights when the words of the memory are shuffled",
    reference="C",
    explanation="Each key moves together with its value. Every query finds the same pairs, gives them the same "
    "weights, and adds up the same terms. Only the columns of the table are in another order.",
)

PREDICT_LONGER_SOURCE = prediction(
    name="predict_longer_source",
    lesson=LESSON,
    contract="what lets a question find its digit when the text before it gets longer",
    reference="B",
    explanation="The ten questions are parameters, and don't depend on the date at all. The digit brings its key along "
    "when it moves, and the same query fits the same key at the new position.",
)


def _batches(
    draw: Draw, *, steps: int, b: int, places: int, vocab: int, signs: int = 11, rate: float = 0.03
) -> tuple[Any, ...]:
    """Batches of texts, each batch of another length; the reader fills in `places` characters of `signs`."""
    lengths = [3 + (5 * step) % 7 for step in range(steps)]
    ids = [draw.integers(0, vocab, (b, length)) for length in lengths]
    wanted = [draw.integers(0, signs, (b, places)) for _ in ids]
    weights = {
        "embed": draw.normal(vocab, 6),
        "questions": draw.normal(places, 6),
        "answer": draw.normal(6, signs),
    }
    return described("SmallReader", (vocab, places, signs, 6), weights, learns=True), ids, wanted, rate


TRAIN_READER = WrittenExercise(
    name="train_reader",
    lesson=LESSON,
    contract="reader, ids: one (b, k) a step, wanted: one (b, places) a step, rate -> losses (steps,); a step on each",
    parts={"values": 4, "robustness": 1},
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "The model is given, and its logits are not large.",
    },
    cases=(
        Case(name="seven steps", inputs=partial(_batches, steps=7, b=3, places=5, vocab=13)),
        Case(name="one step", inputs=partial(_batches, steps=1, b=2, places=3, vocab=5)),
        Case(
            name="the reader after the last step",
            inputs=partial(_batches, steps=5, b=2, places=3, vocab=11),
            dtype=torch.float64,
            probe=trained,
        ),
        Case(name="another rate", inputs=partial(_batches, steps=5, b=2, places=3, vocab=7, rate=0.1)),
        Case(name="one text in a batch", inputs=partial(_batches, steps=5, b=1, places=7, vocab=5)),
        Case(name="a single place", inputs=partial(_batches, steps=5, b=5, places=1, vocab=7)),
        Case(
            name="called a second time, with another reader",
            inputs=partial(_batches, steps=5, b=3, places=5, vocab=13),
            after=(
                partial(_batches, steps=3, b=2, places=3, vocab=11),
                partial(_batches, steps=5, b=3, places=5, vocab=13),
            ),
            dtype=torch.float64,
        ),
        Case(
            name="seven steps, in float64",
            inputs=partial(_batches, steps=7, b=2, places=3, vocab=11),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="losses without a history",
            inputs=partial(_batches, steps=3, b=2, places=3, vocab=5),
            part="robustness",
            detached=True,
        ),
        Case(
            name="other sizes",
            inputs=partial(_batches, steps=11, b=5, places=7, vocab=17),
            dtype=torch.float64,
            hidden=True,
        ),
    ),
    few={"training": ("gradients_pile_up", "uphill", "last_loss_alone", "mean_of_the_losses")},
    pairs=("gradients_pile_up", "schedule_not_stepped", "losses_summed"),
)


def _translated(
    draw: Draw,
    *,
    b: int,
    k: int,
    d: int,
    vocab: int,
    longest: int,
    start: int = 1,
    cut_short: bool = False,
    one_id: bool = False,
) -> tuple[Any, ...]:
    """Draw texts with a stop_id that ends them at many different times, and would be followed by other tokens.

    All of them end by themselves, or, if `cut_short`, not all do. If there is `one_id` for both, they begin with it.
    """
    found: dict[int, list[int]] = {}
    while not found:
        weights = {"embed": draw.normal(vocab, d), "places": 2 * draw.normal(longest + 3, d)}
        model = described("SmallTranslator", (vocab, longest + 3, d), weights)
        memory = draw.normal(b, k, d)
        (translator,) = made((model,))
        ids, _ = plain_answer(LESSON, "write_greedily")(
            translator, memory, start, vocab, longest
        )  # a stop_id that is never written
        first = {
            token: [row.index(token) if token in row else longest for row in ids.tolist()]
            for token in ids[:, 1:].unique().tolist()
            if (token == start if one_id else token > start)
        }
        found = {
            token: at
            for token, at in first.items()
            if (max(at) == longest) is cut_short
            and (b == 1 or cut_short or _would_go_on(ids, token, at))
            and len({*at}) > (b > 1)
        }
    stop_id = max(found, key=lambda token: len({*found[token]}))
    return model, memory, start, stop_id, longest


def _would_go_on(ids: Tensor, token: int, first: list[int]) -> bool:
    """True if some text, without stopping, would go on with other tokens while the rest are still written."""
    return any(bool((row[at : max(first) + 1] != token).any()) for row, at in zip(ids, first, strict=True))


_TEXTS: dict[str, Any] = {"b": 3, "k": 5, "d": 6, "vocab": 11, "longest": 9}

SURE = 4.0
"""Where the model is sure, ln p is the small difference of logits about as large as this."""

WRITE_GREEDILY = WrittenExercise(
    name="write_greedily",
    lesson=LESSON,
    contract="model, memory (b, k, d), start_id, stop_id, longest -> ids (b, up to longest), the ln p of each text (b)",
    parts={"values": 4, "stop": 2, "robustness": 1},
    excused={
        "the device that was given": "The tokens may be collected as Python's numbers.",
        "large scores": "The model is given, and its logits are not large.",
    },
    outputs=("ids", "ln p"),
    detachable=("ids", "ln p"),
    cases=(
        Case(name="three texts that end apart", inputs=partial(_translated, **_TEXTS)),
        Case(name="one text", inputs=partial(_translated, **{**_TEXTS, "b": 1}), magnitude=SURE),
        Case(name="another start_id", inputs=partial(_translated, **_TEXTS, start=4)),
        Case(name="one id to start and to stop", inputs=partial(_translated, **_TEXTS, one_id=True), part="stop"),
        Case(name="texts that are cut short", inputs=partial(_translated, **_TEXTS, cut_short=True), part="stop"),
        Case(
            name="two characters at most",
            inputs=partial(_translated, **{**_TEXTS, "longest": 2}, cut_short=True),
            part="stop",
        ),
        Case(
            name="a single character",
            inputs=lambda draw: (*_translated(draw, **{**_TEXTS, "longest": 2}, cut_short=True)[:-1], 1),
            magnitude=SURE,
            part="stop",
        ),
        Case(
            name="three texts, in float64",
            inputs=partial(_translated, **_TEXTS),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with other texts",
            inputs=partial(_translated, **_TEXTS),
            after=(partial(_translated, **_TEXTS),),
        ),
        Case(
            name="other sizes",
            inputs=partial(_translated, b=5, k=3, d=7, vocab=13, longest=11),
            dtype=torch.float64,
            hidden=True,
        ),
        Case(
            name="other sizes, cut short",
            inputs=partial(_translated, b=7, k=2, d=5, vocab=17, longest=6, cut_short=True),
            part="stop",
            hidden=True,
        ),
    ),
    pairs=("start_returned", "filling_counted", "writes_beyond_the_stop"),
)

EXERCISES = (
    CROSS_ATTENTION,
    PREDICT_SHUFFLED_MEMORY,
    MULTI_HEAD_CROSS_ATTENTION,
    TRAIN_READER,
    PREDICT_LONGER_SOURCE,
    WRITE_GREEDILY,
    MEND_DECODER_ATTENTION,
)
