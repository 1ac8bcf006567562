"""What lesson 00 promises of every exercise, and the cases that try it where an exercise declares none of its own.

That inputs are left as they were needs no case here: it is looked at in each of them (`asking.observe`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise

LARGE = 1e3
"""Scores of this size are too large for a softmax that does not subtract the largest."""
TIMES = {"function": 30.0, "module": 1000.0}
"""Scores of thirty times the queries and keys are beyond 709, whose exp is larger than any float64.

A module's inputs may be normalised first, so its matrices are made larger; additive scores grow with only one of them.
"""


@dataclass(frozen=True)
class Promise:
    """One thing that holds for every exercise."""

    name: str
    is_tried: Callable[[Case], bool]
    changes: Callable[[Exercise, Case], Mapping[str, Any]]
    """What makes, of an exercise's first case, one that tries the promise."""
    means_nothing: Callable[[Exercise, list[Tensor]], bool] = lambda exercise, tensors: not tensors
    """Whether there is nothing to try, with these tensors among the inputs."""


def _nothing_floats(exercise: Exercise, tensors: list[Tensor]) -> bool:
    return exercise.kind == "function" and not any(t.is_floating_point() for t in tensors)


def _not_turned(_exercise: Exercise, tensors: list[Tensor]) -> bool:
    return all(t.dim() < 2 for t in tensors)


PROMISES = (
    Promise(
        "the dtype that was given",
        lambda case: case.dtype == torch.float64 and not (case.raises or case.other_device or case.times != 1),
        lambda _exercise, _case: {"name": "float64", "dtype": torch.float64},
        _nothing_floats,
    ),
    Promise(
        "the device that was given",
        lambda case: case.other_device,
        lambda _exercise, _case: {"name": "on another device", "other_device": True, "probe": None},
    ),
    Promise(
        "memory that is not contiguous",
        lambda case: case.strided,
        lambda _exercise, _case: {"name": "memory that is not contiguous", "strided": True},
        _not_turned,
    ),
    Promise(
        "a second call with the same objects",
        lambda case: case.twice,
        lambda _exercise, case: {"name": "called a second time, with other numbers", "after": (case.inputs,)},
    ),
    Promise(
        "large scores",
        lambda case: case.magnitude >= LARGE,
        lambda exercise, _case: {
            "name": "scores that are far too large for exp",
            "dtype": torch.float64,
            "times": TIMES[exercise.kind],
            "magnitude": LARGE,
        },
        lambda exercise, _tensors: not exercise.attends,
    ),
)


def promised(exercise: Exercise) -> tuple[Case, ...]:
    """The cases that try what none of the exercise's own does, made of its first one."""
    first = exercise.cases[0]
    part = "robustness" if "robustness" in exercise.parts else next(iter(exercise.parts))
    tensors = tensors_of(exercise, first)
    return tuple(
        replace(first, part=part, **promise.changes(exercise, first))
        for promise in PROMISES
        if promise.name not in exercise.excused
        and not promise.means_nothing(exercise, tensors)
        and not any(promise.is_tried(case) for case in exercise.cases if not case.hidden)
    )


def tensors_of(exercise: Exercise, case: Case) -> list[Tensor]:
    """The tensors among the inputs of the judged call; drawn once, when the exercise is declared."""
    inputs = case.inputs(Draw(exercise.name, "promised", dtype=case.dtype))
    judged = inputs[1] if exercise.kind == "module" else inputs
    return [leaf for leaf in tree_leaves(judged) if isinstance(leaf, Tensor)]
