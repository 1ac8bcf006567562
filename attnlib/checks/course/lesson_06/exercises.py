"""Exercises of lesson 06: the encoder block, its norms, MLP and cost, and a reader of digits made of blocks."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import BLOCKS, NORMS
from attnlib.checks.course.by_hand import nearly
from attnlib.checks.course.declare import WrittenExercise, prediction
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Inputs

LESSON = "06_encoder_block"

PREDICT_NO_RESIDUALS = prediction(
    name="predict_no_residuals",
    lesson=LESSON,
    contract='"A", "B", "C" or "D": how alike eleven random words are after 24 layers of attention and nothing else',
    reference="B",
    explanation="Attention averages, and averages of averages of the same eleven words differ less and less. With "
    "nothing to bring back what a word was, all eleven end up as one vector.",
)


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """The contract's form: eps may be given by position."""
    return attnlib.layer_norm(x, gain, bias, eps=eps)


def _vectors(draw: Draw, *, shape: tuple[int, ...], spread: float = 1.7, eps: float | None = None) -> tuple[Any, ...]:
    d_model = shape[-1]
    x = draw.normal(*shape, scale=spread, shift=0.6 if spread > 1 else 0.0)
    arguments = (x, draw.normal(d_model, scale=1.2, shift=0.4), draw.normal(d_model, scale=0.5, shift=0.4))
    return arguments if eps is None else (*arguments, eps)


def _one_constant(draw: Draw) -> tuple[Tensor, ...]:
    x, gain, bias = _vectors(draw, shape=(2, 3, 7))
    x[1, 2] = 3.0
    return x, gain, bias


def _far_from_zero(draw: Draw, *, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Vectors with a standard deviation of 0.5 around 3000 and -3000, and one whose entries are all 1234.5."""
    x, gain, bias = _vectors(draw, shape=shape, spread=0.5)
    x = x + torch.where(draw.normal(*shape[:-1], 1) > 0, 3000.0, -3000.0).to(x.dtype)
    x[0, 1] = 1234.5  # a mean without rounding, where there are 8 of them
    return x, gain, bias


def _example() -> tuple[Tensor, ...]:
    return torch.tensor([[1.0, 3.0, 4.0, 5.0, 7.0]]), torch.ones(5), torch.zeros(5)


LAYER_NORM = WrittenExercise(
    name="layer_norm",
    lesson=LESSON,
    contract="(…, d_model), gain and bias (d_model), eps -> (…, d_model), normalised along the last axis",
    parts={"values": 2, "small spread": 1, "gradient": 1, "robustness": 1},
    reference=layer_norm,
    forbidden=("attnlib.layer_norm", "attnlib.rms_norm", NORMS),
    cases=(
        *usual_cases(
            _vectors,
            {"shape": (2, 5, 7)},
            one={"shape": (1, 3, 11)},
            word={"shape": (2, 1, 7)},
            more=[{"shape": (3, 2, 5, 13)}, {"shape": (17,)}, {"shape": (7, 5)}, {"shape": (5, 2, 19)}],
        ),
        Case(name="four axes", inputs=partial(_vectors, shape=(2, 3, 5, 7))),
        Case(name="vectors of one number", inputs=partial(_vectors, shape=(2, 5, 1))),
        Case(name="eps given", inputs=partial(_vectors, shape=(2, 3, 7), eps=0.5)),
        Case(
            name="vectors with hardly any spread",
            inputs=partial(_vectors, shape=(2, 5, 7), spread=0.002),
            part="small spread",
        ),
        # the mean of seven threes may be off by a rounding, and that is divided by sqrt(eps): 3 / 0.003
        Case(name="one vector whose entries are all equal", inputs=_one_constant, part="small spread", magnitude=1e3),
        # x · gain / 0.5 may be rounded before the mean is subtracted, as torch does: 3000 · 3 / 0.5
        Case(
            name="vectors far from zero",
            inputs=partial(_far_from_zero, shape=(2, 5, 8)),
            part="small spread",
            magnitude=18e3,
        ),
        Case(
            name="vectors with hardly any spread, gradients",
            inputs=partial(_vectors, shape=(3, 5, 11), spread=0.003),
            part="small spread",
            gradient=True,
            dtype=torch.float64,
            hidden=True,
        ),
    ),
    example=_example,
    pairs=("unbiased_variance", "mean_over_positions", "no_eps", "eps_fixed", "no_gain_and_bias", "no_bias"),
)


def _words_with_two_features(d: int, one: int, other: int) -> Tensor:
    """Twelve words (12, d): each of the four cases three times, a 1 in column 0, and other numbers elsewhere."""
    x = torch.randn(12, d, generator=torch.Generator().manual_seed(d))
    x[:, 0] = 1
    x[:, one], x[:, other] = torch.cartesian_prod(torch.arange(2.0), torch.arange(2.0)).repeat(3, 1).T
    return x


def _what_the_mlp_adds(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Apply gelu(x @ up) @ down to twelve words (12, d); where a word has exactly one of the features, 1 is right."""
    d, one, other, to = inputs
    up, down = asked(*inputs)[0].float()
    x = _words_with_two_features(d, one, other)
    wanted = torch.zeros_like(x)
    wanted[:, to] = (x[:, one] != x[:, other]).float()
    return (nearly(torch.nn.functional.gelu(x @ up) @ down, wanted),)


def _only_shapes(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    return (torch.zeros(asked(*inputs)[0].shape),)


def _features(d: int, one: int, other: int, to: int, name: str, *, hidden: bool = False) -> Case:
    return Case(
        name=name,
        inputs=lambda _draw: (d, one, other, to),
        probe=_what_the_mlp_adds,
        measures="gelu(x @ up) @ down",
        hidden=hidden,
    )


MLP_BY_HAND = WrittenExercise(
    name="mlp_by_hand",
    lesson=LESSON,
    contract="d and three columns -> up and down (2, d, d), so that gelu(x @ up) @ down is 1 in column `to` where "
    "exactly one of the columns `one` and `other` is 1, and 0 elsewhere",
    parts={"values": 6},
    cases=(
        Case(name="the shape of the two matrices", inputs=lambda _draw: (5, 1, 2, 4), probe=_only_shapes),
        _features(5, 1, 2, 4, "legs, lanes, and a column for the answer"),
        _features(7, 5, 2, 3, "other columns"),
        _features(4, 3, 1, 2, "four columns"),
        _features(11, 1, 9, 6, "eleven columns"),
        _features(29, 17, 5, 11, "a wide word", hidden=True),
        _features(6, 2, 1, 5, "neighbours, the other way round", hidden=True),
    ),
    pairs=("too_soft", "both_counted_as_one"),
)


MANY = 1000  # equal vectors, so that the shares of what dropout makes of them can be read off
SHARES = (150, 405, 755)  # places in the sorted results, far from every step: see `dropped`
PROBABILITY = 0.3
DROPPED = "a few of the 1,000 outputs, sorted, and whether a word's entries differ"


def plain_perceptron(shapes: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Tensor]:
    """Return weights with which each entry x becomes dropout(dropout(gelu(x + 1/2)) + 1)."""
    return {
        f"{prefix}up.weight": torch.eye(*shapes[f"{prefix}up.weight"]),
        f"{prefix}down.weight": torch.eye(*shapes[f"{prefix}down.weight"]),
        f"{prefix}up.bias": torch.full(shapes[f"{prefix}up.bias"], 0.5),
        f"{prefix}down.bias": torch.ones(shapes[f"{prefix}down.bias"]),
    }


def in_training(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The plain result in training: without a dropout given, the same as at evaluation."""
    asked.train(True)
    return asked(*inputs)


WHOLE_BLOCKS = (
    "attnlib.EncoderBlock.forward",
    "attnlib.Encoder.forward",
    "attnlib.DecoderBlock.forward",
    BLOCKS,
)


class EncoderBlock(attnlib.EncoderBlock):
    """The contract's form: the arguments may be given by position."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__(d_model, num_heads, mlp_ratio=mlp_ratio, dropout=dropout)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, key_mask)


def block_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    """Constructor arguments, and vectors around a mean that is not 0."""
    return sizes, (draw.normal(b, n, sizes[0], scale=1.3, shift=0.5),)


def _padded(
    draw: Draw, *, lengths: tuple[int, ...], sizes: tuple[Any, ...], first: bool = False, between: bool = False
) -> tuple[tuple[Any, ...], tuple[Tensor, Tensor]]:
    """Draw sentences of these lengths, with padding `first`, `between` the words, or at the end."""
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    if between:
        mask = mask & (torch.arange(longest) % 3 != 1)
    x = draw.normal(len(lengths), longest, sizes[0], scale=1.3, shift=0.5)
    return sizes, (x, mask.flip(-1) if first else mask)


def _at_real_positions(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Set the output at padded positions to zero: the contract leaves it open."""
    (output,) = asked(*inputs)
    return (output.masked_fill(~inputs[1][..., None], 0.0),)


def single_words(draw: Draw, many: int = MANY) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return (12, 3, 2.65, PROBABILITY), (torch.zeros(many, 1, 12, dtype=draw.dtype),)


def _load_plain(asked: Asked) -> None:
    """A word that is alone in its sentence has the weight 1 for itself.

    With these weights attention is then 1 + 1, value and bias, and any dropout in it shows; the MLP sees ones.
    """
    assert asked.shapes is not None
    numbers = {
        "attn.w_v.weight": 0.0,
        "attn.w_v.bias": 1.0,
        "attn.w_o.bias": 1.0,
        "norm2.weight": 0.0,
        "norm2.bias": 1.0,
    }
    weights = {name: torch.full(asked.shapes[name], number) for name, number in numbers.items()}
    asked.load(weights | plain_perceptron(asked.shapes, "mlp.") | {"attn.w_o.weight": torch.eye(12)})


def dropped(asked: Asked, inputs: tuple[Any, ...], *, training: bool) -> tuple[Tensor, ...]:
    """Sample the sorted outputs of dropout over many single words: chance changes these only once in 10^9.

    Where p = 0.3 is dropped, the MLP adds 0 in 30 % of the entries, what the bias of `down` becomes alone in 21 %, and
    the whole in 49 %. `SHARES` are the middles of these three stretches, six standard deviations from their ends. One
    more row tells whether the entries of a vector are dropped each by itself.
    """
    _load_plain(asked)
    asked.train(training)
    (output,) = asked(*inputs)
    words = output.reshape(MANY, -1)
    apart = (words.amax(dim=-1) - words.amin(dim=-1) > 1e-3).sort().values[MANY // 2]
    return (torch.cat([words.sort(dim=0).values[list(SHARES)], apart.to(words).expand(1, words.shape[-1])]),)


def _drawn_twice(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Sample, over many sorted words, whether one of two calls in training drops an entry and the other doesn't.

    With p = 0.3 that is so in 42 % of them; the two places are the middles of the shares that are alike and apart.
    """
    _load_plain(asked)
    asked.train(True)
    nothing_added = [(asked(*inputs)[0] - 2).abs() < 1e-3 for _ in range(2)]
    apart = (nothing_added[0] != nothing_added[1]).flatten(0, -2).to(inputs[0].dtype).sort(dim=0).values
    return (apart[[len(apart) * 29 // 100, len(apart) * 79 // 100]],)


def padding_case(name: str, *, part: str = "mask", hidden: bool = False, **inputs: Any) -> Case:
    """Sentences with padding, compared where the words are real, gradients too."""
    return Case(
        name=name,
        inputs=partial(_padded, **inputs),
        part=part,
        probe=_at_real_positions,
        hidden=hidden,
        gradient=True,
        dtype=torch.float64,
    )


def _mask_by_mask(part: str) -> tuple[Case, Case]:
    """Draw calls with a key mask, with another one, and without: none may be kept."""
    sizes = (12, 3, 1.3)
    without, masked = partial(block_inputs, b=3, n=5, sizes=sizes), partial(_padded, lengths=(5, 3, 2), sizes=sizes)
    return (
        Case(
            name="called before with a key mask, now without one",
            inputs=without,
            part=part,
            after=(masked,),
        ),
        Case(
            name="called before without a key mask, and with another one",
            inputs=partial(_padded, lengths=(2, 5, 3), sizes=sizes),
            part=part,
            probe=_at_real_positions,
            after=(without, masked),
        ),
    )


_PADDED_AND_STRIDED = Case(
    name="padding, and memory that is not contiguous",
    inputs=partial(_padded, lengths=(5, 0, 2), sizes=(12, 3, 2.65)),
    part="robustness",
    probe=_at_real_positions,
    strided=True,
    mutation=True,
)

_LARGE_AND_PADDED = Case(
    name="large scores, and padding",
    inputs=partial(_padded, lengths=(5, 7, 2, 3, 4), sizes=(12, 3, 2.65)),
    probe=_at_real_positions,
    part="mask",
    dtype=torch.float64,
    times=1000.0,
    magnitude=1e3,
)

KEY_MASKS = (
    "padding_on_queries",
    "padding_on_the_heads",
    "first_padding_for_all",
    "real_keys_counted",
    "key_mask_demanded",
    "truth_of_the_key_mask",
)

ENCODER_BLOCK = WrittenExercise(
    name="EncoderBlock",
    lesson=LESSON,
    contract="EncoderBlock(d_model, num_heads, mlp_ratio=4.0, dropout=0.0), forward(x, key_mask=None): "
    "(b, n, d_model) -> (b, n, d_model)",
    parts={"values": 5, "mask": 1, "dropout": 2, "gradient": 1, "robustness": 1},
    kind="module",
    reference=EncoderBlock,
    attends=True,
    forbidden=WHOLE_BLOCKS,
    weight_scale=1.2,
    cases=(
        *usual_cases(
            block_inputs,
            {"b": 2, "n": 5, "sizes": (12, 3, 2.65)},
            one={"b": 1, "n": 3, "sizes": (20, 5)},
            more=[
                {"b": 3, "n": 7, "sizes": (8, 2, 1.9)},
                {"b": 2, "n": 11, "sizes": (5, 5, 3.0)},
                {"b": 5, "n": 2, "sizes": (4, 1, 0.8)},
                {"b": 2, "n": 1, "sizes": (32, 2, 0.55)},
            ],
        ),
        padding_case("sentences of 5, 3 and 2 words", lengths=(5, 3, 2), sizes=(12, 3, 2.65)),
        padding_case("a sentence that is nothing but padding", lengths=(5, 0, 3), sizes=(12, 3, 1.3)),
        padding_case("padding between the words", lengths=(5, 7, 2), sizes=(12, 3, 1.3), between=True),
        *_mask_by_mask("mask"),
        _PADDED_AND_STRIDED,
        padding_case("padding before the words", lengths=(7, 2), sizes=(8, 2, 1.9), first=True, hidden=True),
        padding_case("a single real word", lengths=(1, 11, 6), sizes=(20, 5), hidden=True),
        _LARGE_AND_PADDED,
        Case(
            name="padding, on another device",
            inputs=partial(_padded, lengths=(5, 3, 2), sizes=(12, 3, 2.65)),
            part="robustness",
            other_device=True,
        ),
        Case(
            name="in training, with dropout 0.3",
            inputs=single_words,
            part="dropout",
            probe=partial(dropped, training=True),
            measures=DROPPED,
        ),
        Case(
            name="two calls in training, with dropout 0.3",
            inputs=partial(single_words, many=300),
            part="dropout",
            probe=_drawn_twice,
            measures="whether two calls drop different entries",
        ),
        Case(
            name="at evaluation, with dropout 0.3",
            inputs=single_words,
            part="dropout",
            probe=partial(dropped, training=False),
            measures=DROPPED,
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(block_inputs, b=2, n=5, sizes=(12, 3)),
            part="dropout",
            probe=in_training,
        ),
        Case(
            name="d_model = 13 for 3 heads",
            inputs=partial(block_inputs, b=2, n=5, sizes=(13, 3)),
            part="robustness",
            raises=True,
        ),
    ),
    pairs=("padding_looked_at", "one_norm_twice", "gelu_by_tanh", "no_dropout", "dropout_on_weights"),
    few={
        "attention": (
            "exchanged",
            "keys_values_exchanged",
            "no_scale",
            "scaled_by_d",
            "multiplied_by_root_d",
            "scaled_by_root_d_model",
            "fixed_scale",
            "over_queries",
            "over_heads",
            "over_first_axis",
            "no_softmax",
            "softmax_twice",
            "dropout_returned",
            "weights_transposed",
        ),
        "heads": (
            "no_error",
            "assertion",
            "split_by_reshape",
            "split_and_merged_by_reshape",
            "split_taking_turns",
            "heads_taking_turns",
            "heads_left_behind_words",
            "never_split",
            "merged_by_reshape",
            "merged_taking_turns",
            "no_output_projection",
            "output_projection_transposed",
        ),
        "masks": (
            *KEY_MASKS,
            "mask_after_softmax",
            "scores_times_mask",
            "mask_added",
            "empty_rows_nan",
            "nan_swept_forward",
        ),
    },
    without=("fixed_scale_2",),  # right where a head is 4 wide
    same={
        "padding_on_queries": "padding_looked_at",
        "second_norm_never_made": "one_norm_layer",
        "width_ignored": "ratio_ignored",
    },
)


MEND_ENCODER_BLOCK = WrittenExercise(
    name="mend_encoder_block",
    lesson=LESSON,
    contract="a pre-LN block: x + attn(norm1(x)), then x + mlp(norm2(x))",
    parts={"values": 2},
    kind="module",
    reference=EncoderBlock,
    attends=True,
    forbidden=WHOLE_BLOCKS,
    weight_scale=1.2,
    cases=(
        *(
            case
            for case in usual_cases(
                block_inputs,
                {"b": 2, "n": 5, "sizes": (12, 3, 2.65)},
                one={"b": 1, "n": 3, "sizes": (20, 5)},
            )
            if case.part == "values"
        ),
        padding_case("sentences of 5, 3 and 2 words", part="values", lengths=(5, 3, 2), sizes=(12, 3, 2.65)),
        padding_case("padding between the words", part="values", lengths=(5, 7, 2), sizes=(12, 3, 1.3), between=True),
        *_mask_by_mask("values"),
        Case(name="other sizes", inputs=partial(block_inputs, b=3, n=7, sizes=(32, 2, 1.9)), hidden=True),
        Case(
            name="in training, with dropout 0.3",
            inputs=single_words,
            probe=partial(dropped, training=True),
            measures=DROPPED,
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(block_inputs, b=2, n=5, sizes=(12, 3)),
            probe=in_training,
            hidden=True,
        ),
    ),
    pairs=("first_norm_forgotten", "first_residual_from_the_norm", "one_norm_twice", "padding_looked_at"),
    few={"masks": KEY_MASKS},
    without=(
        "first_residual_from_the_norm_and_one_norm_twice",  # that is how the code is given
        "first_norm_forgotten_and_first_residual_from_the_norm",  # without norm1 there is nothing to take it from
        "dropout_by_default",  # the constructor is given
        "dropout_on_a_branch",
        "dropout_of_the_sum",
    ),
    same={"padding_on_queries": "padding_looked_at"},
)


class PostNormBlock(attnlib.EncoderBlock):
    """The contract's form, without dropout."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0) -> None:
        super().__init__(d_model, num_heads, mlp_ratio=mlp_ratio, norm_first=False)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(x, key_mask=key_mask)


def _two_branches(draw: Draw) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    """Draw words far from mean 0 and variance 1, to show where they are normalised."""
    return (12, 3, 1.3), (draw.normal(2, 7, 12, scale=3.0, shift=2.0),)


POST_NORM_BLOCK = WrittenExercise(
    name="PostNormBlock",
    lesson=LESSON,
    contract="PostNormBlock(d_model, num_heads, mlp_ratio=4.0), forward(x, key_mask=None): (b, n, d_model) -> "
    "(b, n, d_model); norm1(x + attn(x)), then norm2(x + mlp(x))",
    parts={"values": 3, "mask": 1, "gradient": 1, "robustness": 1},
    stretch=True,
    kind="module",
    reference=PostNormBlock,
    attends=True,
    forbidden=WHOLE_BLOCKS,
    weight_scale=1.2,
    cases=(
        *usual_cases(
            block_inputs,
            {"b": 2, "n": 5, "sizes": (12, 3, 2.65)},
            one={"b": 1, "n": 3, "sizes": (20, 5)},
            more=[
                {"b": 3, "n": 7, "sizes": (8, 2, 1.9)},
                {"b": 2, "n": 11, "sizes": (32, 4, 0.55)},
            ],
        ),
        Case(name="large words, far from zero", inputs=_two_branches),
        padding_case("sentences of 5, 3 and 2 words", lengths=(5, 3, 2), sizes=(12, 3, 2.65)),
        padding_case("a sentence that is nothing but padding", lengths=(5, 0, 3), sizes=(12, 3, 1.3)),
        padding_case("padding between the words", lengths=(5, 7, 2), sizes=(12, 3, 1.3), between=True),
        *_mask_by_mask("mask"),
        _PADDED_AND_STRIDED,
        padding_case("padding before the words", lengths=(7, 2), sizes=(8, 2, 1.9), first=True, hidden=True),
        _LARGE_AND_PADDED,
    ),
    pairs=("first_sum_not_normed", "second_sum_without_x", "padding_looked_at"),
    few={"attention": ("no_scale", "scaled_by_root_d_model", "over_queries"), "masks": KEY_MASKS},
    same={"padding_on_queries": "padding_looked_at", "second_norm_never_made": "one_norm_layer"},
)


def _images(draw: Draw, *, b: int, sizes: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return sizes, (draw.normal(b, sizes[0], sizes[0]),)


def _whether_dropped(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return whether two calls differ, in training and at evaluation."""
    found = []
    for training in (True, False):
        asked.train(training)
        (first,), (second,) = asked(*inputs), asked(*inputs)
        found.append(not torch.equal(first, second))
    return (torch.tensor(found).long(),)


_SIZES = (6, 2, 12, 3, 2)
"""side, patch, d_model, num_heads, depth."""

DIGIT_READER = WrittenExercise(
    name="DigitReader",
    lesson=LESSON,
    contract="DigitReader(side, patch, d_model, num_heads, depth, dropout=0.0), forward: images (b, side, side) -> "
    "logits (b, 10)",
    parts={"values": 6, "dropout": 1, "gradient": 1, "robustness": 1},
    kind="module",
    attends=True,
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _images,
            {"b": 3, "sizes": _SIZES},
            one={"b": 1, "sizes": (9, 3, 20, 5, 1)},
            word={"b": 3, "sizes": _SIZES},  # the number of patches is the constructor's
            more=[
                {"b": 2, "sizes": (8, 4, 8, 2, 3)},
                {"b": 5, "sizes": (10, 2, 4, 1, 1)},
                {"b": 2, "sizes": (5, 5, 6, 2, 2)},
            ],
        ),
        Case(
            name="dropout 0.3, in training and at evaluation",
            inputs=lambda draw: _images(draw, b=2, sizes=(*_SIZES, 0.3)),
            part="dropout",
            probe=_whether_dropped,
            measures="whether two calls differ (in training, at evaluation)",
        ),
        Case(
            name="dropout of nearly 1 in training: the MLPs add nothing",
            inputs=lambda draw: _images(draw, b=2, sizes=(*_SIZES, 1 - 1e-12)),  # at 1, one written by hand is 0 / 0
            part="dropout",
            probe=in_training,
        ),
        Case(
            name="in training, dropout not given",
            inputs=lambda draw: _images(draw, b=2, sizes=_SIZES),
            part="dropout",
            probe=in_training,
            hidden=True,
        ),
    ),
    pairs=("runs_for_squares", "positions_not_added", "last_norm_missing", "first_patch_alone"),
)


def _bill(name: str, *sizes: int, lengths: tuple[int, ...], **more: Any) -> Case:
    def inputs(draw: Draw) -> tuple[Any, ...]:
        return torch.tensor(lengths), *sizes

    return Case(name=name, inputs=inputs, **more)


BLOCK_COST = WrittenExercise(
    name="block_cost",
    lesson=LESSON,
    contract="lengths (n,), d_model, num_heads, d_hidden -> three int64 (n,): multiplications word by word, "
    "multiplications between words, numbers in the tables of weights",
    parts={"values": 3},
    excused={
        "the device that was given": "The products may be counted in Python, one length after the other.",
    },
    outputs=("word by word", "between words", "tables"),
    cases=(
        _bill("three lengths", 15, 3, 7, lengths=(1, 13, 101), mutation=True),
        _bill("one head", 5, 1, 11, lengths=(7, 2)),
        _bill("the block of GPT-2", 768, 12, 3072, lengths=(1, 512, 1024)),
        _bill("one length", 14, 7, 3, lengths=(17,)),
        replace(
            _bill("called a second time, with other lengths", 15, 3, 7, lengths=(2, 5, 19)),
            after=(_bill("", 15, 3, 7, lengths=(1, 13, 101)).inputs,),
        ),
        _bill("the block of GPT-3, and long texts", 12288, 96, 49152, lengths=(1000003, 2048), hidden=True),
    ),
    example=lambda: (torch.tensor([10, 20]), 6, 2, 24),
    pairs=("three_projections_counted", "mixture_left_out", "one_table_counted", "additions_counted"),
)

EXERCISES = (
    PREDICT_NO_RESIDUALS,
    LAYER_NORM,
    MLP_BY_HAND,
    ENCODER_BLOCK,
    DIGIT_READER,
    MEND_ENCODER_BLOCK,
    POST_NORM_BLOCK,
    BLOCK_COST,
)
