"""`FeedForward`: the perceptron of a block."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

import attnlib
from attnlib.checks.course.slips.perceptron import (
    Bend,
    Drop,
    DropHidden,
    DropOutput,
    HiddenLayers,
    Narrow,
    Probability,
    Widen,
)
from attnlib.checks.course.steps import CourseExercise
from attnlib.checks.course.usual import usual_cases
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Asked, Case

MANY = 1000  # equal vectors, so that the shares of what dropout makes of them can be read off
SHARES = (150, 405, 755)  # places in the sorted results, far from every step: see `_dropped`
PROBABILITY = 0.3


class FeedForward(attnlib.FeedForward):
    """The contract's form: dropout may be given by position."""

    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__(d_model, d_hidden, dropout=dropout)


def _inputs(draw: Draw, *, b: int, n: int, sizes: tuple[int, int]) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return sizes, (draw.normal(b, n, sizes[0], scale=1.3),)


def _equal_vectors(draw: Draw, *, given: bool = True) -> tuple[tuple[Any, ...], tuple[Tensor]]:
    return (3, 5, PROBABILITY) if given else (3, 5), (torch.ones(1, MANY, 3, dtype=draw.dtype),)


def plain_perceptron(shapes: dict[str, tuple[int, ...]], prefix: str = "") -> dict[str, Tensor]:
    """Weights with which each entry x becomes dropout(dropout(gelu(x + 1/2)) + 1)."""
    return {
        f"{prefix}up.weight": torch.eye(*shapes[f"{prefix}up.weight"]),
        f"{prefix}down.weight": torch.eye(*shapes[f"{prefix}down.weight"]),
        f"{prefix}up.bias": torch.full(shapes[f"{prefix}up.bias"], 0.5),
        f"{prefix}down.bias": torch.ones(shapes[f"{prefix}down.bias"]),
    }


def _dropped(asked: Asked, inputs: tuple[Any, ...], *, training: bool) -> tuple[Tensor, ...]:
    """What dropout makes of many equal vectors, sorted: not a matter of chance, but for once in 10^9.

    Where p = 0.3 is dropped, 30 % of the results are 0, 21 % are what the bias of `down` becomes alone, and 49 % come
    through whole. `SHARES` are the middles of these three stretches, six standard deviations from their ends.

    Two more rows tell whether the entries of a vector are dropped each by itself: in 63 % of the vectors some are 0 and
    some are not, and in 40 % some of those that are not are whole and some are the bias alone.
    """
    assert asked.shapes is not None
    asked.load(plain_perceptron(asked.shapes))
    asked.train(training)
    (output,) = asked(*inputs)
    entries = output.reshape(MANY, -1)
    none = entries == 0
    kept = ~none & ~torch.isclose(entries, entries.amax(dim=-1, keepdim=True))
    apart = torch.stack([none.any(dim=-1) & ~none.all(dim=-1), kept.any(dim=-1)]).to(entries.dtype).sort().values
    each = torch.stack([apart[0, MANY // 2], apart[1, MANY * 85 // 100]])
    return (torch.cat([entries.sort(dim=0).values[list(SHARES)], each[:, None].expand(-1, entries.shape[-1])]),)


def _drawn_twice(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Of many equal vectors, sorted: where one of two calls in training drops an entry and the other does not.

    With p = 0.3 that is so in 42 % of them; the two places are the middles of the shares that are alike and apart.
    """
    assert asked.shapes is not None
    asked.load(plain_perceptron(asked.shapes))
    asked.train(True)
    (first,), (second,) = asked(*inputs), asked(*inputs)
    apart = ((first == 0) != (second == 0)).reshape(MANY, -1).to(first.dtype).sort(dim=0).values
    return (apart[[MANY * 29 // 100, MANY * 79 // 100]],)


def in_training(asked: Asked, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """The plain result in training: without a dropout given, the same as at evaluation."""
    asked.train(True)
    return asked(*inputs)


FEED_FORWARD = CourseExercise(
    name="FeedForward",
    lesson="06_encoder_block",
    contract="FeedForward(d_model, d_hidden, dropout=0.0), forward: (b, n, d_model) -> (b, n, d_model)",
    parts={"values": 2, "dropout": 1, "gradient": 1, "robustness": 1},
    kind="module",
    reference=FeedForward,
    forbidden=("attnlib.FeedForward.forward",),
    weight_scale=1.2,
    cases=(
        *usual_cases(
            _inputs,
            {"b": 2, "n": 5, "sizes": (7, 13)},
            one={"b": 1, "n": 3, "sizes": (5, 11)},
            more=[
                {"b": 3, "n": 11, "sizes": (13, 5)},
                {"b": 5, "n": 2, "sizes": (3, 7)},
                {"b": 2, "n": 7, "sizes": (7, 11)},
            ],
        ),
        Case(
            name="in training, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=partial(_dropped, training=True),
        ),
        Case(
            name="two calls in training, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=_drawn_twice,
        ),
        Case(
            name="at evaluation, with dropout 0.3",
            inputs=_equal_vectors,
            part="dropout",
            probe=partial(_dropped, training=False),
        ),
        Case(
            name="in training, dropout not given",
            inputs=partial(_equal_vectors, given=False),
            part="dropout",
            probe=partial(_dropped, training=True),
        ),
    ),
    made_of=(Probability, HiddenLayers, Drop, Widen, Bend, DropHidden, Narrow, DropOutput),
    pairs=("gelu_by_tanh", "relu", "no_dropout"),
)
