"""The calls that a lesson makes: the visible check, its grading twin, and `run`, which both use.

Here the two halves meet: the course, which has the exercises, and the engine, which judges any exercise it is given.
"""

import os
import sys
from dataclasses import replace
from typing import Any

import torch

from attnlib.checks import course
from attnlib.checks.asking.limits import on_the_cpu
from attnlib.checks.asking.observation import Asking, Memory
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.asking.window import go_on_handling, interrupts_held
from attnlib.checks.course.another import another
from attnlib.checks.standing.kept import in_a_notebook, note, running_shell
from attnlib.checks.standing.own_code import keep_answer
from attnlib.checks.standing.stale import remember_cells, staleness
from attnlib.checks.verdict.judge import require_device, run_exercise
from attnlib.checks.verdict.report import Report, Section, headline


def run(
    name: str,
    attempt: Any,
    hidden: bool = False,
    seed: int = 0,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    limits: TimeLimits | None = None,
) -> Report:
    """Judge an attempt at the exercise `name`: see `run_exercise`.

    On another `device`, a GPU, an attempt is tried that has passed on the CPU, where the exercise asks for the device
    of its inputs: a wrong index ends CUDA for the whole process, so wrong answers, and those of the course that may be
    wrong in the same way, stay on the CPU.

    >>> run("attention_scores", lambda q, k: q @ k.mT).diagnosis
    'no_scale'

    Raises ValueError for an exercise that does not exist, or a device or dtype that cannot be used.
    """
    exercise, memory = course.find(name), _memory(name, torch.get_default_dtype())
    require_device(device)
    asking, before = Asking(seed=seed, limits=limits, memory=memory), sys.exc_info()[1]
    with interrupts_held(), torch.inference_mode(False), on_the_cpu():
        report = run_exercise(exercise, attempt, asking, hidden=hidden, dtype=dtype)
        if device != "cpu" and report.passed and any(case.other_device for case in exercise.cases):
            report = run_exercise(exercise, attempt, replace(asking, device=device), hidden=hidden, dtype=dtype)
    go_on_handling(before)
    return report


_MEMORIES: dict[tuple[str, torch.dtype], Memory] = {}


def _memory(name: str, default_dtype: torch.dtype) -> Memory:
    """Return what the course's own answers did: a student checks the same exercise many times in a row.

    Of other exercises only the reference's is kept, for a notebook that is run again: the misconceptions are many.
    """
    asked = name, default_dtype
    if (last := next(reversed(_MEMORIES), asked)) != asked:
        _MEMORIES[last] = {key: seen for key, seen in _MEMORIES[last].items() if seen.exact}
    _MEMORIES[asked] = _MEMORIES.pop(asked, {})
    return _MEMORIES[asked]


VALIDATING = "NBGRADER_VALIDATING"
"""Set by nbgrader while it validates: it then shows errors and stderr of the cells without full points."""


class CheckFailed(AssertionError):
    """The attempt is not all right yet; the report is shown above and kept as `report`."""

    def __init__(self, report: Report) -> None:
        super().__init__(headline(report))
        self.report = report

    def _render_traceback_(self) -> list[str]:
        """In IPython, one line instead of a traceback: the fault is not in its lines, and the report stands above."""
        return ["Stopped here. Change your answer, run it, and run this cell again."]


class Points(float):
    """The points of an attempt, which a notebook shows as its report.

    Its text is the number alone: where that is the result of a test's cell, nbgrader takes it for the points, and
    Validate for a failure.
    """

    def __new__(cls, report: Report) -> "Points":
        points = super().__new__(cls, report.points)
        points.report = report
        return points

    report: Report

    def _repr_mimebundle_(self, **_of_ipython: Any) -> dict[str, Any]:
        return {**self.report._repr_mimebundle_(), "text/plain": repr(self)}


def check(name: str, attempt: Any) -> Points | None:
    """Show the verdict on an attempt at the exercise `name`; raise `CheckFailed` if it is wrong.

    If it is right, another right answer is shown, and yours is kept in `my_attention/` beside the notebook. One that is
    not written yet does not stop a notebook: the cell's result is its points.

    >>> check("pairwise_dot", lambda x, y: x @ y.mT)
    ✓ pairwise_dot: all right (4 of 4 points)
    <BLANKLINE>
      Another right answer:
        def pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
            return (x[:, :, None] * y[:, None]).sum(dim=-1)
    <BLANKLINE>
      Why it works:
      Broadcasting pairs every x with every y; einsum adds up the same products without holding them
      all in memory.
    >>> check("predict_largest_dot", None)
    ○ predict_largest_dot: is not answered yet: choose 'A', 'B', 'C' or 'D' (0 of 1 point)
    0.0
    """
    report = run(name, attempt)
    note(report)
    if told := staleness(attempt):
        report = replace(report, sections=(Section(told, ""), *report.sections))
    if report.passed:
        report = _with_another(report)
        if told := keep_answer(course.find(name), attempt, _passes):
            report = replace(report, sections=(*report.sections, Section(told, "")))
        _show(report)
        return None
    if os.environ.get(VALIDATING):
        print(headline(report), file=sys.stderr)
    if report.unanswered:
        if not in_a_notebook():
            _show(report)
        return Points(report)
    _show(report)
    raise CheckFailed(report)


remember_cells()


def keep(name: str, attempt: Any) -> None:
    """Write an answer that passes into the learner's own package, even where its file was edited by hand; say where.

    >>> keep("predict_largest_dot", "D")
    Not kept: predict_largest_dot: is not 'D' (0 of 1 point)

    Raises ValueError for an exercise that does not exist.
    """
    report = run(name, attempt)
    if not report.passed:
        print(f"Not kept: {headline(report)[2:]}")
    else:
        print(keep_answer(course.find(name), attempt, _passes, even_if_edited=True) or "Nothing to keep")


def _passes(name: str, attempt: Any) -> bool:
    return run(name, attempt).passed


def _with_another(report: Report) -> Report:
    if (other := another(course.find(report.exercise))) is None:
        return report
    shown = (Section("Another right answer", other.source, fixed=True), Section("Why it works", other.why))
    return replace(report, sections=(*report.sections, *shown))


def grade(name: str, attempt: Any) -> float:
    """Judge on the grader's cases as well, show the verdict and return the points: nbgrader's partial credit."""
    report = run(name, attempt, hidden=True)
    _show(report)
    return report.points


def _show(report: Report) -> None:
    if running_shell() is not None:
        from IPython.display import display

        display(report)
    else:
        print(report.message)
