"""The symptom of a bug, before anybody knows where it is: computed from what its code does, never written by hand.

As in real work: an exception, a loss that stays where it was, a row of weights that does not add up to 1, an output
that depends on what it may not see; and if nothing of the kind shows, only numbers that are not those expected.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnlib.checks.asking.attempt import Local
from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import Asking, Observation
from attnlib.checks.asking.observe import argument_names, input_names, observe
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise, Inputs
from attnlib.checks.practising.bug import Bug
from attnlib.checks.trial.trial import Trial
from attnlib.checks.verdict.judge import cases_of, try_case
from attnlib.checks.verdict.words import of_difference

MOST_LINES, LONGEST = 8, 500  # so that it fits on a screen beside the code
BARS = "▁▂▃▄▅▆▇█"
SHIFT = 1.0  # added to one position of an input, to see what depends on it
ROUNDING = 1e-3
PLAIN = ("every axis of another length", "other sizes")
"""Cases whose arguments say all about them."""


def symptom_of(bug: Bug, case: str) -> str:
    """Return the symptom of the bug in the case of this name.

    >>> from attnlib.checks.practising.bug import bug_of
    >>> print(symptom_of(bug_of("scaled_dot_product_attention", "not_normalised"), "every axis of another length"))
    Called with q (2, 3, 5, 11), k (2, 3, 7, 11), v (2, 3, 7, 13):
    Row [0, 0, 0] of `weights` adds up to 8.677, not to 1; 30 of 30 rows are wrong in this way.

    Raises KeyError if its exercise has no such case, and ValueError if nothing is wrong there.
    """
    declared = bug.declared
    chosen = {case.name: case for case in cases_of(declared, hidden=False)}[case]
    attempt = Local(bug.answer)
    trial = try_case(declared, attempt, chosen)
    if trial.difference is None:
        raise ValueError(f"{bug.key} is right in the case {case!r}, required is one in which it is wrong")
    rows = "\n".join(seen_in(declared, attempt, trial)).split("\n")
    return "\n".join(rows[:MOST_LINES])


def seen_in(exercise: Exercise, attempt: Local, trial: Trial) -> Iterator[str]:
    """Yield a line that says when the symptom of a wrong trial shows, then the symptom, in a line or two."""
    difference = trial.difference
    assert difference is not None
    yield f"{_when(exercise, trial)}:"
    if difference.aspect == "failure" and isinstance(difference.got, Failure):
        failure = difference.got
        yield (failure.error if failure.exception else f"`{exercise.name}` {failure.text}")[:LONGEST]
    elif difference.aspect == "shape":
        name = f"`{difference.names[0]}`" if difference.names else "The result"
        yield f"{name} has the shape {difference.got}; the contract promises {difference.expected}."
    elif difference.aspect == "values":
        yield next(filter(None, (look(exercise, attempt, trial) for look in LOOKS)), f"{_sentence(trial)}.")
    elif difference.aspect == "gradient":
        yield f"The outputs are right. {_sentence(trial)}."
    else:
        yield f"{_sentence(trial)}."


def _sentence(trial: Trial) -> str:
    assert trial.difference is not None
    said = of_difference(trial.difference).rstrip(".")
    label = "".join(trial.difference.names[:1])
    if label and said.startswith(f"{label}: "):
        return f"`{label}`: {said.removeprefix(f'{label}: ')}"
    return f"{said[:1].upper()}{said[1:]}"


def _when(exercise: Exercise, trial: Trial) -> str:
    """Return the arguments of the call, and what is special about it."""
    case, given = trial.case, [*(trial.got.inputs or trial.expected.inputs)]
    built_with = trial.got.sizes or trial.expected.sizes  # an answer that could not be built has kept none
    given = [v.to(case.dtype) if isinstance(v, Tensor) and v.is_floating_point() else v for v in given]
    named = [f"{name} {_described(value)}".rstrip() for name, value in zip(input_names(exercise), given, strict=False)]
    arguments = argument_names(exercise.reference) if built_with else []
    built = [f"{name} = {size!r:.40}" for name, size in zip(arguments, built_with, strict=False)]
    sizes = f", built with {', '.join(built)}" if built else ""
    special = "" if case.name in PLAIN else f" ({case.name})"
    if case.after:
        return f"A first call is right, but not a second one, with {', '.join(named)}{sizes}{special}"
    return f"Called with {', '.join(named)}{sizes}{special}" if named else f"In the case “{case.name}”"


def _described(value: Any) -> str:
    """Return a tensor's shape, and its dtype unless that is float32; "= " and a plain value; "" for anything else."""
    if isinstance(value, Tensor):
        dtype = "" if value.dtype == torch.float32 else f" {str(value.dtype).removeprefix('torch.')}"
        return f"{tuple(value.shape)}{dtype}"
    if value is None or isinstance(value, bool | int | float | str):
        return f"= {value!r}"[:40]
    return ""


def _not_finite(_exercise: Exercise, _attempt: Local, trial: Trial) -> str:
    for want, have in zip(trial.expected.outputs or (), trial.got.outputs or (), strict=True):
        if have.is_floating_point() and bool(want.isfinite().all()) and not bool(have.isfinite().all()):
            what = "NaN" if bool(have.isnan().any()) else "infinite"
            return f"{int((~have.isfinite()).sum())} of {have.numel()} numbers of the result are {what}."
    return ""


def _losses(exercise: Exercise, _attempt: Local, trial: Trial) -> str:
    """Draw the curve of losses beside the right one, if the exercise returns losses."""
    for name, want, have in zip(exercise.outputs, *_outputs(trial), strict=True):
        if "loss" in name and want.dim() == 1 and len(want) > 2 and not torch.allclose(want, have.double(), rtol=1e-3):
            both = torch.cat([want, have.double()])
            rows = (
                f"{label}  {_curve(losses, both)}  {losses[0]:.4g} → {losses[-1]:.4g}"
                for label, losses in (("this loop ", have.double()), ("a right one", want))
            )
            return "The loss of each step:\n" + "\n".join(f"  {row}" for row in rows)
    return ""


def _curve(losses: Tensor, both: Tensor) -> str:
    low, high = float(both.min()), float(both.max())
    steps = losses[:: max(1, math.ceil(len(losses) / 40))]
    return "".join(BARS[min(7, int(8 * (float(loss) - low) / (high - low + 1e-12)))] for loss in steps)


def _rows_of_weights(exercise: Exercise, _attempt: Local, trial: Trial) -> str:
    """Report rows with a sum other than 1 or with negative numbers, where all the right output's rows are weights."""
    for name, want, have in zip(exercise.outputs, *_outputs(trial), strict=True):
        if want.dim() < 2 or want.shape[-1] < 2 or not want.is_floating_point() or bool((want < 0).any()):
            continue
        sums, ones = want.sum(dim=-1), torch.ones((), dtype=want.dtype)
        if not torch.allclose(sums, ones.expand_as(sums), atol=1e-4):
            continue
        wrong = (have.double().sum(dim=-1) - 1).abs() > ROUNDING
        label = "the result" if name == "output" else f"`{name}`"
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            total = float(have.double().sum(dim=-1)[tuple(place)])
            count = f"{int(wrong.sum())} of {wrong.numel()} rows are wrong in this way"
            return f"Row {place} of {label} adds up to {total:.4g}, not to 1; {count}."
        if bool((have < -ROUNDING).any()):
            return f"{int((have < -ROUNDING).sum())} of {have.numel()} numbers of {label} are below 0."
    return ""


def _leak(exercise: Exercise, attempt: Local, trial: Trial) -> str:
    """Report an output at the first position that changes with an input at the last, and must not."""
    for axis, place in ((-2, "row"), (0, "entry of the batch")):
        for number, name in enumerate(input_names(exercise)):
            if not _can_move(trial.got.inputs, number, axis):
                continue
            moved = replace(trial.case, inputs=_moved(trial.case.inputs, exercise, number, axis), gradient=False)
            asking = Asking()
            right = observe(exercise, exercise.reference, moved, asking, exact=True)
            if right.failure or not _same_first(trial.expected, right, axis):
                continue
            wrong = observe(exercise, attempt, moved, asking)
            if wrong.failure or (gap := _gap_of_first(trial.got, wrong, axis)) < ROUNDING:
                continue
            return (
                f"Change the last {place} of `{name}` alone, and {_first(axis)} of the output changes, by up to "
                f"{gap:.2g}. In a right answer it stays the same."
            )
    return ""


def _first(axis: int) -> str:
    return "row 0" if axis == -2 else "entry 0"


def _moved(make: Callable[[Draw], Inputs], exercise: Exercise, number: int, axis: int) -> Callable[[Draw], Inputs]:
    def inputs(draw: Draw) -> Inputs:
        made = make(draw)
        given = list(made[1] if exercise.kind == "module" else made)
        given[number] = given[number].clone()
        given[number].select(axis, -1).add_(SHIFT)
        return (made[0], tuple(given)) if exercise.kind == "module" else tuple(given)

    return inputs


def _can_move(given: Inputs, number: int, axis: int) -> bool:
    """True if the input is a floating-point tensor with this axis; a batch axis has at least two more behind it."""
    tensor = given[number] if number < len(given) else None
    return isinstance(tensor, Tensor) and tensor.is_floating_point() and tensor.dim() >= (3 if axis == 0 else 2)


def _gap_of_first(before: Observation, after: Observation, axis: int) -> float:
    gaps = [0.0]
    for one, other in zip(before.outputs or (), after.outputs or (), strict=False):
        if (
            one.shape == other.shape
            and one.is_floating_point()
            and one.dim() >= 2
            and min(one.shape[axis], one.numel()) > 1
        ):
            gap = (one.select(axis, 0).double() - other.select(axis, 0).double()).abs().nan_to_num()
            gaps.append(float(gap.max()) if gap.numel() else 0.0)
    return max(gaps)


def _same_first(before: Observation, after: Observation, axis: int) -> bool:
    """True if the first position stays the same in all outputs and something else changes: the input has an effect."""
    changed = any(
        a.shape == b.shape and not torch.equal(a, b)
        for a, b in zip(before.outputs or (), after.outputs or (), strict=False)
    )
    return changed and _gap_of_first(before, after, axis) < 1e-9


def _outputs(trial: Trial) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    return trial.expected.outputs or (), trial.got.outputs or ()


LOOKS: tuple[Callable[[Exercise, Local, Trial], Any], ...] = (_not_finite, _losses, _rows_of_weights, _leak)
