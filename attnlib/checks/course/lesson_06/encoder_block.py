"""`EncoderBlock`: attention, then the perceptron, each after a norm and around a residual."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.asking.ready_made import BLOCKS
from attnlib.checks.course.lesson_06.feed_forward import MANY, PROBABILITY, SHARES, in_training, plain_perceptron
from attnlib.checks.course.lesson_06.mistakes_between import MISTAKES_BETWEEN
from attnlib.checks.course.lesson_06.mistakes_inside import MISTAKES_INSIDE
from attnlib.checks.course.lesson_06.mistakes_of_heads import MISTAKES_OF_HEADS
from attnlib.checks.course.lesson_06.plain_block import PlainBlock
from attnlib.checks.course.usual import usual_cases, usual_misconceptions
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case, Exercise

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


def block_inputs(draw: Draw, *, b: int, n: int, sizes: tuple[Any, ...]) -> tuple[tuple, tuple[Tensor]]:
    """Constructor arguments, and vectors around a mean that is not 0."""
    return sizes, (draw.normal(b, n, sizes[0], scale=1.3, shift=0.5),)


def _padded(
    draw: Draw, *, lengths: tuple[int, ...], sizes: tuple[Any, ...], first: bool = False
) -> tuple[tuple, tuple[Tensor, Tensor]]:
    """Sentences of these lengths; the padding is `first`, or at the end."""
    longest = max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    x = draw.normal(len(lengths), longest, sizes[0], scale=1.3, shift=0.5)
    return sizes, (x, mask.flip(-1) if first else mask)


def _at_real_positions(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The output with zeros at padded positions: what a block makes of those is left open."""
    (output,) = asked(*inputs)
    return (output.masked_fill(~inputs[1][..., None], 0.0),)


def single_words(draw: Draw) -> tuple[tuple, tuple[Tensor]]:
    return (12, 3, 2.65, PROBABILITY), (torch.zeros(MANY, 1, 12, dtype=draw.dtype),)


def dropped(asked: Asked, inputs: tuple[Any, ...], *, training: bool) -> tuple[Tensor, ...]:
    """What dropout makes of many single words, sorted: see `feed_forward._dropped`.

    A word that is alone in its sentence has the weight 1 for itself. With the weights set here attention is then
    1 + 1, value and bias, and any dropout in it shows; the perceptron sees ones.
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
    asked.train(training)
    (output,) = asked(*inputs)
    words = output.reshape(MANY, -1)
    apart = (words.amax(dim=-1) - words.amin(dim=-1) > 1e-3).sort().values[MANY // 2]  # entries dropped each by itself
    return (torch.cat([words.sort(dim=0).values[list(SHARES)], apart.to(words).expand(1, words.shape[-1])]),)


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


ENCODER_BLOCK = Exercise(
    name="EncoderBlock",
    lesson="06_encoder_block",
    contract="EncoderBlock(d_model, num_heads, mlp_ratio=4.0, dropout=0.0), forward(x, key_mask=None): "
    "(b, n, d_model) -> (b, n, d_model)",
    parts={"values": 3, "mask": 1, "dropout": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=EncoderBlock,
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
        Case(
            name="called before with a key mask, now without one",
            inputs=partial(block_inputs, b=3, n=5, sizes=(12, 3, 1.3)),
            part="mask",
            after=(partial(_padded, lengths=(5, 3, 2), sizes=(12, 3, 1.3)),),
        ),
        Case(
            name="called before without a key mask, and with another one",
            inputs=partial(_padded, lengths=(2, 5, 3), sizes=(12, 3, 1.3)),
            part="mask",
            probe=_at_real_positions,
            after=(
                partial(block_inputs, b=3, n=5, sizes=(12, 3, 1.3)),
                partial(_padded, lengths=(5, 3, 2), sizes=(12, 3, 1.3)),
            ),
        ),
        Case(
            name="padding, and memory that is not contiguous",
            inputs=partial(_padded, lengths=(5, 0, 2), sizes=(12, 3, 2.65)),
            part="robustness",
            probe=_at_real_positions,
            strided=True,
            mutation=True,
        ),
        padding_case("padding before the words", lengths=(7, 2), sizes=(8, 2, 1.9), first=True, hidden=True),
        padding_case("a single real word", lengths=(1, 11, 6), sizes=(20, 5), hidden=True),
        Case(
            name="in training, with dropout 0.3",
            inputs=single_words,
            part="dropout",
            probe=partial(dropped, training=True),
        ),
        Case(
            name="at evaluation, with dropout 0.3",
            inputs=single_words,
            part="dropout",
            probe=partial(dropped, training=False),
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(block_inputs, b=2, n=5, sizes=(12, 3)),
            part="dropout",
            probe=in_training,
            hidden=True,
        ),
        Case(
            name="d_model = 13 for 3 heads",
            inputs=partial(block_inputs, b=2, n=5, sizes=(13, 3)),
            part="robustness",
            raises=True,
        ),
    ),
    misconceptions=(
        *MISTAKES_BETWEEN,
        *MISTAKES_INSIDE,
        *MISTAKES_OF_HEADS,
        *usual_misconceptions(PlainBlock),
    ),
)
