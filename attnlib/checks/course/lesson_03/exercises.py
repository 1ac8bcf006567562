"""Exercises of lesson 03: multi-head attention."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.failure import Failed
from attnlib.checks.asking.given import described
from attnlib.checks.asking.ready_made import ATTENTION
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.by_hand import nearly
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.trained import trained
from attnlib.checks.course.usual import only_built, usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs
from attnlib.checks.trial.compare import counts_as

LESSON = "03_multi_head_attention"

LEADING_AXES = ("products_not_summed", "scaled_by_axis_one", "over_axis_one", "axis_of_softmax_left_out")
"""Slips that only make sense if any number of axes may come before the last two."""


def _saying(names: Tensor) -> Tensor:
    """Sentences (b, n, 2n): a word is its position, n numbers with a single 1, and its name, n numbers of 1 and -1."""
    b, n, _ = names.shape
    return torch.cat([torch.eye(n).expand(b, n, n), names], dim=-1)


def _what_the_last_word_gets(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the names (8, 2n) that two heads with the written matrices bring to the last word of eight sentences."""
    n, who, whom = inputs
    w_q, w_k, w_v, w_o = asked(*inputs)[0].float()
    names = torch.randint(0, 2, (8, n, n), generator=torch.Generator().manual_seed(n)) * 2.0 - 1
    x = _saying(names)
    q, k, v = (attnlib.split_heads(x @ w, 2) for w in (w_q, w_k, w_v))
    found = attnlib.scaled_dot_product_attention(q, k, v, return_weights=True)[0]
    output = attnlib.merge_heads(found) @ w_o
    return (nearly(output[:, -1], names[:, [who, whom]].flatten(1)),)


def _only_shapes(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    return (torch.zeros(asked(*inputs)[0].shape),)


def _asked_for(n: int, who: int, whom: int, name: str, *, hidden: bool = False) -> Case:
    return Case(
        name=name,
        inputs=lambda _draw: (n, who, whom),
        probe=_what_the_last_word_gets,
        measures="what the last word gets",
        hidden=hidden,
    )


TWO_HEADS_BY_HAND = WrittenExercise(
    name="two_heads_by_hand",
    lesson=LESSON,
    contract="n words, the positions of two of them -> w_q, w_k, w_v, w_o (4, 2n, 2n) of two heads that bring their "
    "names to the last word",
    parts={"values": 6},
    cases=(
        Case(name="the shape of the four matrices", inputs=lambda _draw: (6, 1, 4), probe=_only_shapes),
        _asked_for(6, 1, 4, "the X saw the Y ?"),
        _asked_for(6, 4, 1, "whom before who"),
        _asked_for(5, 0, 3, "a name at the beginning"),
        _asked_for(3, 0, 1, "three words"),
        _asked_for(11, 7, 2, "eleven words"),
        # a score that's divided by √n has to grow with it: a number that is enough here is so in the grader's cases
        _asked_for(23, 5, 17, "a long sentence"),
        _asked_for(19, 11, 3, "another long sentence", hidden=True),
        _asked_for(7, 3, 2, "neighbours", hidden=True),
        _asked_for(2, 1, 0, "the last word is asked for, too", hidden=True),
    ),
    pairs=("not_sharp", "who_and_whom_exchanged", "values_bring_positions"),
)


def _words(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Tensor, int]:
    return draw.normal(b, n, h * d), h


def _indivisible(b: int, n: int, width: int, h: int) -> Callable[[Draw], tuple[Tensor, int]]:
    return lambda draw: (draw.normal(b, n, width), h)


def _numbers_said(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return 1 if the ValueError names the width, and 1 if it names the number of heads."""
    x, num_heads = inputs
    asked(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)  # who refuses this, too, is not asked further
    try:
        return asked(*inputs)
    except Failed as failed:
        said = failed.failure.text
        if not counts_as("ValueError", failed.failure):
            raise
    return (x.new_tensor([float(str(n) in re.findall(r"\d+", said)) for n in (x.shape[-1], num_heads)]),)


def _small_words() -> tuple[Tensor, int]:
    return torch.tensor([[[11.0, 12.0], [21.0, 22.0], [31.0, 32.0]]]), 2


SPLIT_HEADS = WrittenExercise(
    name="split_heads",
    lesson=LESSON,
    contract="(b, n, h·d) -> (b, h, n, d), ValueError if num_heads doesn't divide the width",
    parts={"values": 2, "error": 1, "gradient": 1, "robustness": 1},
    reference=attnlib.split_heads,
    forbidden=("attnlib.split_heads",),
    cases=(
        *usual_cases(
            _words,
            {"b": 2, "n": 7, "h": 3, "d": 5},
            one={"b": 1, "n": 5, "h": 2, "d": 3},
            more=[
                {"b": 3, "n": 2, "h": 5, "d": 7},
                {"b": 2, "n": 11, "h": 1, "d": 3},
                {"b": 5, "n": 3, "h": 7, "d": 1},
                {"b": 2, "n": 1, "h": 3, "d": 2},
                {"b": 2, "n": 6, "h": 6, "d": 6},
            ],
        ),
        Case(name="the same width, cut into five heads", inputs=partial(_words, b=2, n=7, h=5, d=3)),
        Case(name="heads of one number", inputs=partial(_words, b=2, n=7, h=5, d=1)),
        # who looks at another axis than the width is right here, and refuses elsewhere
        Case(
            name="as many sentences, words and numbers as heads", inputs=lambda draw: _words(draw, b=3, n=3, h=3, d=3)
        ),
        Case(name="3 heads and a width of 14", inputs=_indivisible(2, 5, 14, 3), part="error", raises=True),
        Case(
            name="what the error says about 3 heads and a width of 14",
            inputs=_indivisible(2, 5, 14, 3),
            part="error",
            probe=_numbers_said,
        ),
        Case(name="more heads than columns", inputs=_indivisible(2, 7, 3, 5), part="error", raises=True, hidden=True),
        # 15 words: without a look at the width, reshape would find numbers enough for 3 heads
        Case(name="3 heads, 15 words", inputs=_indivisible(1, 15, 7, 3), part="error", raises=True, hidden=True),
    ),
    example=_small_words,
    few={"heads": ("assertion",)},
)


class MultiHeadSelfAttention(attnlib.MultiHeadAttention):
    """The contract's form: the weights are always returned, and there is no memory."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, bias=bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        output, weights = super().forward(x, return_weights=True)
        return output, weights


def _inputs(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Inputs, Inputs]:
    """Draw inputs for heads of width d_model / num_heads."""
    d_model = h * draw.d_head(d)
    return (d_model, h), (draw.normal(b, n, d_model),)


def _without_bias(draw: Draw, *, b: int, n: int, h: int, d: int) -> tuple[Inputs, Inputs]:
    d_model = h * draw.d_head(d)
    return (d_model, h, None, False), (draw.normal(b, n, d_model),)


def _free_width(
    draw: Draw, *, b: int, n: int, d_model: int, h: int, d: int, bias: bool = True
) -> tuple[Inputs, Inputs]:
    """Draw inputs for a given width of the heads, with h·d other than d_model."""
    return (d_model, h, draw.d_head(d), bias), (draw.normal(b, n, d_model),)


def _unfit(draw: Draw, *, b: int, n: int, d_model: int, h: int) -> tuple[Inputs, Inputs]:
    return (d_model, h), (draw.normal(b, n, d_model),)


MULTI_HEAD_SELF_ATTENTION = WrittenExercise(
    name="MultiHeadSelfAttention",
    lesson=LESSON,
    contract="MultiHeadSelfAttention(d_model, num_heads, d_head=None, bias=True), "
    "forward: (b, n, d_model) -> output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 6, "options": 1, "error": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=MultiHeadSelfAttention,
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=("attnlib.merge_heads", ATTENTION, *ATTENTION_OF_ATTNLIB),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "n": 7, "h": 3, "d": 5},
            one={"b": 1, "n": 3, "h": 2, "d": 7},
            more=[
                {"b": 3, "n": 2, "h": 5, "d": 3},
                {"b": 2, "n": 11, "h": 1, "d": 5},
                {"b": 5, "n": 3, "h": 2, "d": 2},
                {"b": 2, "n": 6, "h": 6, "d": 6},
            ],
        ),
        Case(name="heads of one number", inputs=partial(_inputs, b=2, n=5, h=3, d=1)),
        Case(name="d_head is given", inputs=partial(_free_width, b=2, n=5, d_model=11, h=3, d=7), part="options"),
        Case(
            name="d_head is given, where num_heads divides d_model",
            inputs=partial(_free_width, b=2, n=5, d_model=12, h=3, d=7),
            part="options",
        ),
        Case(name="no bias", inputs=partial(_without_bias, b=2, n=7, h=2, d=5), part="options"),
        Case(
            name="a small d_head, no bias",
            inputs=partial(_free_width, b=3, n=5, d_model=13, h=2, d=3, bias=False),
            part="options",
            hidden=True,
        ),
        Case(
            name="3 heads and a d_model of 14",
            inputs=partial(_unfit, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
        ),
        Case(
            name="3 heads and a d_model of 14, nothing but the constructor",
            inputs=partial(_unfit, b=2, n=5, d_model=14, h=3),
            part="error",
            raises=True,
            probe=only_built,
        ),
        Case(
            name="2 heads and a d_model of 7",
            inputs=partial(_unfit, b=2, n=3, d_model=7, h=2),
            part="error",
            raises=True,
            hidden=True,
        ),
        Case(
            name="d_head is given, gradients",
            inputs=partial(_free_width, b=2, n=3, d_model=7, h=5, d=2),
            part="options",
            dtype=torch.float64,
            gradient=True,
            hidden=True,
        ),
    ),
    catalogues=("heads", "attention", "projections"),
    pairs=(
        "exchanged",
        "no_scale",
        "scaled_by_root_d_model",
        "over_queries",
        "merged_by_reshape",
        "split_and_merged_by_reshape",
        "no_output_projection",
    ),
    without=(
        *LEADING_AXES,
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "one_length_only",
        "one_width_only",
        "values_first",
        "all_as_wide_as_x",
        "fixed_widths",
        "only_output_mended",
        "only_weights_mended",
        "neither_mended",
        "one_sentence",
    ),
    same={"over_heads_and_sentences": "over_first_axis"},
)


def _sentences(b: int, n: int, h: int, d: int, d_model: int) -> Callable[[Draw], tuple[Tensor | int, ...]]:
    """Words and matrices, with scores of a standard deviation of about 1.5."""

    def inputs(draw: Draw) -> tuple[Tensor | int, ...]:
        width, grow = h * draw.d_head(d), 1.2 * d_model**-0.5
        projections = [draw.normal(d_model, width, scale=grow) for _ in range(3)]
        return (draw.normal(b, n, d_model), *projections, draw.normal(width, d_model, scale=width**-0.5), h)

    return inputs


MEND_MULTI_HEAD = WrittenExercise(
    name="mend_multi_head",
    lesson=LESSON,
    contract="(b, n, d_model), three matrices (d_model, h·d), one (h·d, d_model), num_heads -> "
    "output (b, n, d_model), weights (b, h, n, n)",
    parts={"values": 3},
    attends=True,
    outputs=("output", "weights"),
    detachable=("weights",),
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        Case(name="two sentences, three heads", inputs=_sentences(2, 7, 3, 5, 11)),
        Case(name="five sentences, two heads", inputs=_sentences(5, 3, 2, 7, 13), mutation=True),
        Case(name="one sentence", inputs=_sentences(1, 5, 3, 2, 7), gradient=True),
        Case(name="heads of one number", inputs=_sentences(2, 5, 3, 1, 1)),
        Case(name="float64", inputs=_sentences(2, 5, 3, 7, 17), dtype=torch.float64, gradient=True),
        Case(name="one head", inputs=_sentences(3, 5, 1, 7, 11), hidden=True),
        Case(name="as many sentences as heads", inputs=_sentences(3, 3, 3, 3, 9), hidden=True),
    ),
    catalogues=("heads", "attention", "projections"),
    without=(
        *LEADING_AXES,
        "nothing_projected",
        "queries_and_keys_not_projected",
        "values_not_projected",
        "chained",
        "scaled_by_root_q",
        "scaled_by_root_d_v",
        "one_length_only",
        "values_first",
        "one_width_only",
        "merged_to_d_model",
    ),
    same={"over_heads_and_sentences": "over_first_axis"},
)


def _some_sentences(draw: Draw, *, b: int, n: int, h: int, d: int, d_model: int) -> tuple[Tensor | int, ...]:
    return _sentences(b, n, h, d, d_model)(draw)


HEAD_CONTRIBUTIONS = WrittenExercise(
    name="head_contributions",
    lesson=LESSON,
    contract="(b, n, d_model), three matrices (d_model, h·d), one (h·d, d_model), num_heads -> "
    "what each head adds to the output, (b, h, n, d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    attends=True,
    forbidden=(ATTENTION, *ATTENTION_OF_ATTNLIB),
    cases=(
        *usual_cases(
            _some_sentences,
            {"b": 2, "n": 7, "h": 3, "d": 5, "d_model": 11},
            one={"b": 1, "n": 5, "h": 2, "d": 3, "d_model": 7},
            more=[
                {"b": 5, "n": 3, "h": 2, "d": 7, "d_model": 13},
                {"b": 3, "n": 2, "h": 5, "d": 2, "d_model": 3},
            ],
        ),
        # where nothing raises an error, the numbers tell which axis was taken for which
        Case(name="as wide as d_model", inputs=partial(_some_sentences, b=2, n=5, h=3, d=7, d_model=21)),
        Case(name="as many sentences as heads", inputs=partial(_some_sentences, b=3, n=3, h=3, d=5, d_model=15)),
        Case(name="every width is 1", inputs=partial(_some_sentences, b=2, n=5, h=3, d=1, d_model=1)),
    ),
    pairs=("no_scale", "rows_taking_turns", "heads_summed", "heads_in_front_of_the_batch"),
    few={
        "heads": ("scaled_by_root_width", "heads_taking_turns", "scores_summed", "of_the_first_head"),
        "attention": (
            "not_transposed",
            "no_scale",
            "scaled_by_d",
            "scaled_by_root_d_model",
            "over_queries",
            "over_heads",
            "no_softmax",
            "weights_transposed",
        ),
        "projections": ("matrices_transposed",),
    },
    without=("over_heads_and_sentences",),
)

PREDICT_RESHAPED_HEADS = prediction(
    name="predict_reshaped_heads",
    lesson=LESSON,
    contract="what the first head sees when heads are made by reshape alone",
    reference="B",
    explanation="reshape leaves the numbers in order and only breaks the lines elsewhere. In that order, the first "
    "third of the numbers is the first four words, all nine columns of each. Every word is cut into three rows.",
)


def _packed(draw: Draw, *, packing: str, h: int, d: int, d_model: int) -> tuple[Tensor, str, int]:
    return draw.normal(3 * h * d, d_model), packing, h


FROM_PACKED = WrittenExercise(
    name="from_packed",
    lesson=LESSON,
    contract="one packed matrix (3·h·d, d_model), its packing such as '(h 3 d)' -> w_q, w_k, w_v, each (h·d, d_model)",
    parts={"values": 3, "gradient": 1, "robustness": 1},
    stretch=True,
    outputs=("w_q", "w_k", "w_v"),
    cases=(
        *usual_cases(
            _packed,
            {"packing": "(h d 3)", "h": 2, "d": 5, "d_model": 7},
            one={"packing": "(h 3 d)", "h": 5, "d": 2, "d_model": 11},
            more=[
                {"packing": "(d h 3)", "h": 7, "d": 2, "d_model": 3},
                {"packing": "(d 3 h)", "h": 2, "d": 7, "d_model": 5},
                {"packing": "(3 d h)", "h": 5, "d": 7, "d_model": 2},
            ],
        ),
        Case(name="packed (3 h d)", inputs=partial(_packed, packing="(3 h d)", h=2, d=9, d_model=12)),
        Case(name="packed (d 3 h)", inputs=partial(_packed, packing="(d 3 h)", h=5, d=9, d_model=7)),
        Case(name="packed (3 d h)", inputs=partial(_packed, packing="(3 d h)", h=2, d=5, d_model=3)),
        Case(name="one head of one number", inputs=partial(_packed, packing="(h 3 d)", h=1, d=1, d_model=1)),
    ),
)


def _batches(
    draw: Draw, *, steps: int, b: int, n: int, h: int, d: int, position: int, lr: float = 0.05
) -> tuple[Any, ...]:
    """Draw batches as wide as all heads together. Some have larger targets, so that anything carried over shows."""
    width = h * d
    matrices = [draw.normal(width, width, scale=1.2 * width**-0.5) for _ in range(4)]
    wanted = draw.normal(steps, b, width) * draw.normal(steps, 1, 1).exp()
    weights = dict(zip(("w_q", "w_k", "w_v", "w_o"), matrices, strict=True))
    model = described("SmallHeads", (width, h), weights, learns=True)
    return model, draw.normal(steps, b, n, width), wanted, position, lr


_IN_BATCHES: dict[str, Any] = {"steps": 7, "b": 3, "n": 5, "h": 2, "d": 3, "position": 2}

TRAIN_WITH_ADAM = WrittenExercise(
    name="train_with_adam",
    lesson=LESSON,
    contract="model, words (steps, b, n, d_model), wanted (steps, b, d_model), position, lr -> losses (steps,); the "
    "model is trained by Adam",
    parts={"values": 7, "robustness": 1},
    excused={
        "the device that was given": "The losses may be collected as Python's numbers.",
        "large scores": "With such scores every softmax is saturated, and nothing is trained.",
    },
    cases=(
        Case(name="seven steps", inputs=partial(_batches, **_IN_BATCHES)),
        Case(name="one step", inputs=partial(_batches, **{**_IN_BATCHES, "steps": 1})),
        Case(name="two steps", inputs=partial(_batches, **{**_IN_BATCHES, "steps": 2})),
        Case(
            name="the model after the last step",
            inputs=partial(_batches, **{**_IN_BATCHES, "steps": 2}),
            dtype=torch.float64,
            probe=trained,
        ),
        Case(
            name="results without a history",
            inputs=partial(_batches, **{**_IN_BATCHES, "steps": 2}),
            detached=True,
        ),
        Case(name="one sentence in a batch", inputs=partial(_batches, **{**_IN_BATCHES, "b": 1})),
        Case(
            name="three heads, the last word asked",
            inputs=partial(_batches, steps=5, b=2, n=3, h=3, d=2, position=2, lr=0.01),
        ),
        Case(
            name="seven steps, in float64",
            inputs=partial(_batches, **_IN_BATCHES),
            dtype=torch.float64,
            part="robustness",
            mutation=True,
        ),
        Case(
            name="called a second time, with another model",
            inputs=partial(_batches, **_IN_BATCHES),
            after=(partial(_batches, **_IN_BATCHES),),
        ),
        Case(name="other sizes", inputs=partial(_batches, steps=11, b=5, n=7, h=2, d=5, position=0), hidden=True),
        Case(
            name="other sizes, in float64",
            inputs=partial(_batches, steps=5, b=7, n=2, h=1, d=5, position=1, lr=0.1),
            dtype=torch.float64,
            part="robustness",
            hidden=True,
        ),
    ),
    catalogues=("training",),
    pairs=("gradients_pile_up", "not_corrected", "means_exchanged", "error_summed"),
)

EXERCISES = (
    SPLIT_HEADS,
    PREDICT_RESHAPED_HEADS,
    TWO_HEADS_BY_HAND,
    MULTI_HEAD_SELF_ATTENTION,
    TRAIN_WITH_ADAM,
    HEAD_CONTRIBUTIONS,
    MEND_MULTI_HEAD,
    FROM_PACKED,
)
