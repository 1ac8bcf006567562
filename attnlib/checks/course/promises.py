"""The promises lesson 00 makes for every exercise, with cases that try them where an exercise declares none.

Inputs have to be left as they were, too. That needs no case of its own: `asking.observe` checks it in every case.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking.given import MODEL
from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise, Inputs

LARGE = 1e3
"""Scores of this size are too large for a softmax that does not subtract the largest."""
TIMES = {"function": 30.0, "module": 1000.0}
"""Factors on the numbers a function gets, or on a module's matrices, whose inputs may be normalised first.

Scores are then beyond 709, whose exp is larger than any float64. But they are still below the 1e9 that some take for
infinite: a function may get its matrices as inputs, and a module's scores may grow with one matrix alone.
"""


@dataclass(frozen=True)
class Promise:
    """One property that holds for every exercise."""

    name: str
    is_tried: Callable[[Case], bool]
    change: Mapping[str, Any] | Callable[[Exercise, Case], Mapping[str, Any]]
    """The changes that make a case try the promise, or a function that returns them."""
    can_try: Callable[[Exercise, Case], bool]
    """True if the case can be changed to try the promise."""


def tensors_of(exercise: Exercise, case: Case) -> list[Tensor]:
    """The tensors among the inputs of the judged call."""
    inputs = case.inputs(Draw(exercise.name, "promised", dtype=case.dtype))
    return tensors_in(inputs[1] if exercise.kind == "module" else inputs)


def _has_tensors(exercise: Exercise, case: Case) -> bool:
    return bool(tensors_of(exercise, case))


def _is_floating(exercise: Exercise, case: Case) -> bool:
    return exercise.kind == "module" or any(t.is_floating_point() for t in tensors_of(exercise, case))


def _has_two_axes(exercise: Exercise, case: Case) -> bool:
    """True if some tensor has several rows and several columns, so that their order in memory can be swapped."""
    return any(sum(size > 1 for size in t.shape) > 1 for t in tensors_of(exercise, case))


def _models(inputs: Inputs) -> list[dict[str, Any]]:
    return [value[MODEL] for value in inputs if isinstance(value, dict) and MODEL in value]


@cache
def _modes(make: Callable[[Draw], Inputs], dtype: torch.dtype) -> tuple[bool, ...]:
    """The modes of the models that are lent; several promises ask, and some inputs take long to draw."""
    return tuple(bool(model["mode"]) for model in _models(make(Draw("promised", dtype=dtype))))


def _comes_with_models(case: Case, training: bool | None = None) -> bool:
    """True if models are lent: all in this mode, or in any."""
    modes = _modes(case.inputs, case.dtype)
    return bool(modes) and not case.raises and all(training in (None, mode) for mode in modes)


def _lends_models(exercise: Exercise) -> bool:
    """True if models are lent in the first case, because then they are in all of them."""
    return exercise.kind == "function" and _comes_with_models(exercise.cases[0])


def leaves_models(case: Case, training: bool | None = None) -> bool:
    """True if models are lent, in this mode or in any, and compared after the call."""
    return case.mutation and _comes_with_models(case, training)


def _part_of(exercise: Exercise, case: Case) -> str:
    return "robustness" if "robustness" in exercise.parts else case.part


def _in_evaluation_mode(draw: Draw, make: Callable[[Draw], Inputs]) -> Inputs:
    inputs = make(draw)
    for model in _models(inputs):
        model["mode"].fill_(False)
    return inputs


PROMISES = (
    Promise(
        "the dtype that was given",
        lambda case: case.dtype == torch.float64 and not (case.raises or case.other_device or case.times != 1),
        {"name": "float64", "dtype": torch.float64},
        _is_floating,
    ),
    Promise(
        "the device that was given",
        lambda case: case.other_device,
        {"name": "on another device", "other_device": True, "probe": None},
        _has_tensors,
    ),
    Promise(
        "memory that is not contiguous",
        lambda case: case.strided,
        {"name": "memory that is not contiguous", "strided": True},
        _has_two_axes,
    ),
    Promise(
        "a second call with the same objects",
        lambda case: bool(case.after),
        lambda _exercise, case: {"name": "called a second time, with other numbers", "after": (case.inputs,)},
        _has_tensors,
    ),
    Promise(
        "a model that is left as it should be",
        leaves_models,
        lambda exercise, case: {"name": "the model afterwards", "mutation": True, "part": _part_of(exercise, case)},
        lambda exercise, _case: _lends_models(exercise),
    ),
    Promise(
        "a model in evaluation mode",  # whoever calls eval() and then train() leaves it in training mode
        partial(leaves_models, training=False),
        lambda exercise, case: {
            "name": "a model that comes in evaluation mode, and is left in it",
            "inputs": partial(_in_evaluation_mode, make=case.inputs),
            "mutation": True,
            "part": _part_of(exercise, case),
        },
        lambda exercise, case: _lends_models(exercise) and _comes_with_models(case, training=True),
    ),
    Promise(
        "large scores",
        lambda case: case.times > 1 and case.probe is None,  # a probe may look at some rows alone
        lambda exercise, _case: {
            "name": "scores that are far too large for exp",
            "dtype": torch.float64,
            "times": TIMES[exercise.kind],
            "magnitude": LARGE,
        },
        lambda exercise, _case: exercise.attends,
    ),
)


def promised(exercise: Exercise) -> Iterator[Case]:
    """Yield cases for the promises that no case of the exercise tries, each made from the first suitable case."""
    part = "robustness" if "robustness" in exercise.parts else next(iter(exercise.parts))
    visible = [case for case in exercise.cases if not (case.hidden or case.raises)]
    visible.sort(key=lambda case: case.probe is not None)  # a probe may call with other inputs than the case's
    for promise in PROMISES:
        if promise.name in exercise.excused or any(promise.is_tried(case) for case in visible):
            continue
        first = next((case for case in visible if promise.can_try(exercise, case)), None)
        if first is not None:
            change = promise.change(exercise, first) if callable(promise.change) else promise.change
            yield replace(first, **{"part": part, **change})
