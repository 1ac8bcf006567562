"""Judging an attempt: every case, part by part, then the diagnosis, then the report."""

from typing import Any

import torch
from torch import nn

from attnlib.checks import course
from attnlib.checks.compare import first_difference
from attnlib.checks.diagnose import Trial, diagnose
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.observe import Failure, Observation, observe
from attnlib.checks.report import Report, write_report

NO_USE_TO_GO_ON = ("time", "unwritten", "forbidden")


def run(
    name: str,
    attempt: Any,
    hidden: bool = False,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> Report:
    """Judge an attempt at the exercise `name`; never raises because of what the attempt does.

    `hidden` adds the grader's cases; `seed` draws other numbers; `dtype` replaces that of every case.

    >>> run("attention_scores", lambda q, k: q @ k.mT).diagnosis
    'no_scale'

    Raises ValueError for an exercise that does not exist, or a device or dtype that cannot be used.
    """
    return run_exercise(course.find(name), attempt, hidden=hidden, seed=seed, device=device, dtype=dtype)


def run_exercise(
    exercise: Exercise,
    attempt: Any,
    *,
    hidden: bool = False,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> Report:
    """`run`, for an exercise that is not (yet) part of the course."""
    _require_device(device)
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be a floating dtype such as torch.float64, got {dtype}")
    if exercise.kind == "choice":
        return _judge_choice(exercise, attempt)
    if (unfit := unfit_reason(exercise, attempt)) is not None:
        return write_report(exercise, [], failure=Failure("type", unfit))
    trials = []
    for case in cases_of(exercise, hidden=hidden, dtype=dtype):
        trials.append(try_case(exercise, attempt, case, seed=seed, device=device))
        failure = trials[-1].got.failure
        if failure is not None and failure.kind in NO_USE_TO_GO_ON:
            break
    last = trials[-1].got.failure
    if last is not None and last.kind in NO_USE_TO_GO_ON:
        return write_report(exercise, trials)
    misconception = diagnose(exercise, trials, seed=seed, device=device)
    example = _on_example(exercise, attempt) if any(t.difference for t in trials) else None
    return write_report(exercise, trials, misconception=misconception, example=example)


def cases_of(exercise: Exercise, *, hidden: bool, dtype: torch.dtype | None = None) -> list[Case]:
    """The exercise's cases in the order in which they are judged: part by part, visible ones first."""
    from dataclasses import replace

    chosen = [c for c in exercise.cases if hidden or not c.hidden]
    chosen.sort(key=lambda c: (list(exercise.parts).index(c.part), c.hidden))
    return chosen if dtype is None else [replace(c, dtype=dtype) for c in chosen]


def try_case(exercise: Exercise, attempt: Any, case: Case, *, seed: int, device: str) -> Trial:
    """Compare the attempt with the reference on one case."""
    expected = observe(exercise, exercise.reference, case, seed=seed, device=device, exact=True)
    if (expected.failure is not None) != case.raises:
        raise AssertionError(
            f"the reference of {exercise.name} does not do what {case.name!r} says: {expected.failure}"
        )
    got = observe(exercise, attempt, case, seed=seed, device=device, watched=True)
    return Trial(case, expected, got, first_difference(exercise, case, expected, got, device=device))


def unfit_reason(exercise: Exercise, attempt: Any) -> str | None:
    """Why the attempt cannot be called at all, as a sentence without its subject; None if it can."""
    is_class = isinstance(attempt, type)
    if exercise.kind == "function" and is_class:
        return f"must be a function, but you passed the class {attempt.__name__}"
    if exercise.kind == "module" and isinstance(attempt, nn.Module):
        name = type(attempt).__name__
        return f"must be the class, but you passed an object made from it: pass {name}, not {name}(…)"
    if exercise.kind == "module" and is_class and not issubclass(attempt, nn.Module):
        name = attempt.__name__
        return f"must be a subclass of nn.Module, but the class {name} is not: write class {name}(nn.Module)"
    if not callable(attempt):
        wanted = "a class" if exercise.kind == "module" else "a function"
        hint = ": pass the function itself, without calling it" if isinstance(attempt, (torch.Tensor, tuple)) else ""
        return f"must be {wanted}, but you passed {_described(attempt)}{hint}"
    return None


def _described(attempt: Any) -> str:
    if attempt is None or attempt is Ellipsis:
        return str(attempt)
    return f"a value of type {type(attempt).__name__}"


def _require_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used here: {str(error).splitlines()[0]}") from None


def _on_example(exercise: Exercise, attempt: Any) -> tuple[Observation, Observation] | None:
    """The reference and the attempt on the exercise's tiny example."""
    if exercise.example is None:
        return None
    inputs = exercise.example
    case = Case(name="the small example", inputs=lambda draw: inputs())
    return (
        observe(exercise, exercise.reference, case, seed=0, device="cpu", exact=True),
        observe(exercise, attempt, case, seed=0, device="cpu"),
    )


def _judge_choice(exercise: Exercise, attempt: Any) -> Report:
    """A prediction: a letter, compared with the right one; every wrong one is a misconception with its explanation."""
    letters = sorted([exercise.reference, *(m.implementation for m in exercise.misconceptions)])
    listed = f"{', '.join(map(repr, letters[:-1]))} or {letters[-1]!r}"
    if attempt is None or attempt is Ellipsis:
        return write_report(exercise, [], failure=Failure("unwritten", f"is not answered yet: choose {listed}"))
    if type(attempt) is not str:
        return write_report(
            exercise, [], failure=Failure("type", f"must be {listed}, but you passed {_described(attempt)}")
        )
    letter = attempt.strip().upper()
    if letter == exercise.reference:
        return write_report(exercise, [])
    for misconception in exercise.misconceptions:
        if letter == misconception.implementation:
            return write_report(
                exercise, [], misconception=misconception, failure=Failure("choice", f"is not {letter!r}")
            )
    return write_report(exercise, [], failure=Failure("type", f"must be {listed}, got {attempt!r:.40}"))
