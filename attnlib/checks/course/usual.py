"""Shared by nearly every exercise: the usual cases, and the mistakes that can be made in any code."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.exercise import AS_GIVEN, Asked, Case, Inputs, Misconception

Make = Callable[..., tuple[Any, ...]]
Sizes = Mapping[str, Any]
FEW_LEFT = 4e6
"""The magnitude in float64 where weights may be masked after the softmax: 1e-12 shows beside a small sum."""


def as_given(implementation: Any) -> Misconception:
    """The untouched code of a "find the bug" exercise: finding its mistake is left to the student."""
    return Misconception(
        id=AS_GIVEN,
        title="This is still what the given code computes",
        explanation="Take one of the wrong numbers, work out by hand what it should be, and "
        "follow it back through the code: in which line does it first differ from yours?",
        implementation=implementation,
        heading="Find the bug",
    )


def of_sizes(name: str, *sizes: Any, part: str = "values", **more: Any) -> Case:
    """A case of an exercise that takes sizes alone: a mask or a table of positions."""
    return Case(name=name, inputs=lambda _draw: sizes, part=part, **more)


def usual_cases(
    make: Make,
    sizes: Sizes,
    *,
    one: Sizes,
    more: Sequence[Sizes] = (),
    word: Sizes | None = None,
    gradient: bool = True,
    magnitude: float = 0.0,
    in_float64: float = 0.0,
    room: bool = True,
) -> tuple[Case, ...]:
    """Cases for `make(draw, **sizes)`: sizes all different, a batch of one, one word, earlier calls, gradients, memory.

    `sizes` are those of the visible cases, `one` those of the smallest batch, `more` those of the grader's own cases;
    `word` those of sentences of a single word, if they don't follow from the names in `COUNTS`. `magnitude` is the size
    of what is subtracted on the way to a gradient, if few digits of it are left; `in_float64` is that of a result in
    float64. Without `room`, no more words fit than those of `sizes`. No axis has length 0: the right answer for an
    empty batch is left open.
    """
    inputs = partial(make, **sizes)
    exact: dict[str, Any] = {"dtype": torch.float64, "part": "robustness", "magnitude": in_float64}
    backward: dict[str, Any] = {"dtype": torch.float64, "part": "gradient", "gradient": True, "magnitude": magnitude}
    words = [name for name in COUNTS if name in sizes and name != "b"]
    word = word or {**sizes, **dict.fromkeys(words, 1)}
    cases = [
        Case(name="every axis of another length", inputs=inputs),
        Case(name="a batch of one" if "b" in sizes else "other sizes", inputs=partial(make, **one)),
        *(_of_one_word(inputs, partial(make, **word), _shortest(sizes)) if word != sizes else ()),
        Case(name="called a second time, with other numbers", inputs=inputs, after=(inputs,)),
        Case(
            name="called before with other sizes",
            inputs=inputs,
            after=tuple(partial(make, **other) for other in _other_sizes(sizes, [*more[:1], one])),
        ),
        Case(name="float64", inputs=inputs, **exact),
        Case(name="memory that is not contiguous", inputs=inputs, strided=True, part="robustness"),
        Case(name="on another device", inputs=inputs, other_device=True, part="robustness"),
    ]
    if "b" in sizes:  # a mistake with the batch must not look like one with another size
        cases.insert(2, Case(name="one entry of the batch", inputs=partial(make, **{**sizes, "b": 1})))
    if words and room:  # reveals a size taken from the notebook and not from the argument
        many = {**sizes, **dict(zip(words, MANY, strict=False))}
        cases.append(Case(name="more words than in the lesson", inputs=partial(make, **many)))
    if gradient:
        cases.append(Case(name="gradients", inputs=inputs, **backward))
    for number, other in enumerate(more, 1):
        inputs = partial(make, **other)
        name = f"other sizes ({number})"
        cases.append(Case(name=name, inputs=inputs, hidden=True))
        cases.append(Case(name=f"{name}, float64", inputs=inputs, hidden=True, **exact))
        if gradient:
            cases.append(Case(name=f"{name}, gradients", inputs=inputs, hidden=True, **backward))
    return tuple(cases)


def only_built(asked: Asked, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """A probe that never calls the module: only the constructor can refuse anything."""
    return inputs[0], inputs[0]


def _shortest(sizes: Sizes) -> str:
    """Name inputs that are as short as can be: not all of them are sentences."""
    counted = tuple(name for name in COUNTS if name in sizes)
    names = {("b", "n"): "sentences of one word", ("n",): "a single row"}
    return names.get(counted) or ("one query and one key" if "k" in counted else "axes of length 1")


def _of_one_word(inputs: Make, word: Make, name: str) -> tuple[Case, Case]:
    """Reuse a first mask of one entry: it fits any size, so the mistake shows in the numbers and not as an error."""
    return (
        Case(name=name, inputs=word),
        Case(name=f"called before with {name}", inputs=inputs, after=(word,)),
    )


COUNTS = ("b", "n", "q", "k")
"""The numbers of sentences and words, which may differ from one call of a module to the next."""


MANY = (37, 41, 43)
"""More words than any sentence a lesson has computed with before an exercise; each count is another prime."""


def _other_sizes(sizes: Sizes, unlike: Sequence[Sizes]) -> list[Sizes]:
    """Sizes of earlier calls: fewer words, then each count larger by itself; `unlike` where nothing is counted.

    A value kept from the first call is too small then, and one kept from the last is too large.
    """
    counted = [name for name in COUNTS if name in sizes]
    fewer = {name: max(1, sizes[name] - 2) for name in counted if name != "b"}
    return [{**sizes, **fewer}, *({**sizes, name: sizes[name] + 2} for name in counted)] if counted else list(unlike)
