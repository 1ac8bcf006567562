"""Run a wrong program as its check does, and keep the report and the symptoms."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attnlib.checks import Exercise, Misconception, Report
from attnlib.checks.asking.observation import Asking, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.course import find
from attnlib.checks.exercise import Asked, Case, Inputs
from attnlib.checks.verdict.judge import cases_of, on_example, try_case
from attnlib.checks.verdict.write import write_report
from autograder.building.gallery.mistakes import Mistake
from autograder.building.gallery.symptoms import symptoms

PROCESSES = 2


@dataclass(frozen=True)
class Seen:
    """A mistake with the report on its first program, without the mistake's own text, and its symptoms' ids."""

    mistake: Mistake
    report: Report
    symptoms: tuple[str, ...]


def seen(mistakes: Sequence[Mistake]) -> list[Seen]:
    """Try each mistake where the course first meets it; two processes share the work."""
    first: dict[str, list[str]] = {}
    for mistake in mistakes:
        first.setdefault(mistake.places[0].exercise.name, []).append(mistake.id)
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn"), _one_thread) as pool:
        tried = {id: found for batch in pool.map(try_all, first, first.values()) for id, found in batch.items()}
    return [Seen(mistake, *tried[mistake.id]) for mistake in mistakes]


def _one_thread() -> None:
    torch.set_num_threads(1)  # these tensors are tiny, and two threads would wait for each other


def try_all(name: str, ids: Sequence[str]) -> dict[str, tuple[Report, tuple[str, ...]]]:
    """Try these mistakes of an exercise."""
    exercise, asking = find(name), Asking(memory={})
    causal = _causal(exercise, asking)
    known = {told.id: told for told in exercise.misconceptions}
    return {id: _tried(exercise, known[id], asking, causal) for id in ids}


def _tried(
    exercise: Exercise, told: Misconception, asking: Asking, causal: Case | None
) -> tuple[Report, tuple[str, ...]]:
    answer, cases = told.implementation, cases_of(exercise, hidden=False)
    trials = [try_case(exercise, answer, case, asking) for case in cases]
    example = on_example(exercise, answer) if exercise.example else None
    report = write_report(exercise, trials, cases=cases, findings=[told], example=example)
    own = f"{told.heading}: {told.title}"
    sections = tuple(section for section in report.sections if section.heading != own)
    leaks = causal is not None and _moved(observe(exercise, answer, causal, asking.anew))
    return replace(report, sections=sections), tuple(symptoms(exercise, trials, leaks=leaks))


def _causal(exercise: Exercise, asking: Asking) -> Case | None:
    """Return a case that changes the last position between two calls, where no earlier right result moves."""
    for case in cases_of(exercise, hidden=False):
        if case.probe is None and not (case.raises or case.other_device or case.after or case.mutation):
            changed = replace(case, name=f"{case.name}, the end changed", probe=_earlier_results, gradient=False)
            right = observe(exercise, exercise.reference, changed, asking.anew)
            if right.failure is None and right.outputs and any(t.numel() for t in right.outputs) and not _moved(right):
                return changed
            return None
    return None


def _moved(seen: Observation) -> bool:
    return seen.failure is None and any(bool((t.abs() > 1e-5).any()) for t in seen.outputs or () if t.numel())


def _earlier_results(asked: Asked, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return, for each output, how far its earlier rows move when the last row of all inputs of that length changes."""
    before = [t.clone() for t in asked(*inputs)]
    if before[0].dim() < 2:
        return tuple(t.new_zeros(0) for t in before)
    n = before[0].shape[-2]
    after = asked(*tree_map_only(Tensor, lambda t: _end_changed(t, n), inputs))
    pairs = zip(before, after, strict=True)
    return tuple(_of_earlier(one, other, n) for one, other in pairs)


def _end_changed(tensor: Tensor, n: int) -> Tensor:
    changed = tensor.clone()
    if tensor.is_floating_point() and tensor.dim() > 1 and tensor.shape[-2] == n:
        changed[..., -1, :] = changed[..., -1, :].flip(-1) + 1.0
    elif tensor.dtype == torch.int64 and tensor.dim() and tensor.shape[-1] == n:
        changed[..., -1] = changed[..., 0]
    return changed


def _of_earlier(before: Tensor, after: Tensor, n: int) -> Tensor:
    if before.shape != after.shape or before.dim() < 2 or before.shape[-2] != n or not before.is_floating_point():
        return before.new_zeros(0, dtype=torch.float32)
    moved = (after - before).abs()
    return moved[..., :-1, :].nan_to_num() if bool((moved[..., -1, :] > 0).any()) else moved.new_zeros(0)
