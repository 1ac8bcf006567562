"""The two calls that stand in a lesson: the visible check, and its grading twin."""

import sys
from typing import Any

from attnlib.checks.verdict.judge import run
from attnlib.checks.verdict.render import headline
from attnlib.checks.verdict.report import Report


class CheckFailed(AssertionError):
    """The attempt is not all right yet; the report is shown above and kept as `report`."""

    def __init__(self, report: Report) -> None:
        super().__init__(headline(report))
        self.report = report

    def _render_traceback_(self) -> list[str]:
        """In IPython, one line instead of a traceback: the fault is not in the lines that it would show."""
        return [f"CheckFailed: {self}"]


def check(name: str, attempt: Any) -> None:
    """Show the verdict on an attempt at the exercise `name`; raise `CheckFailed` if it is not all right.

    >>> import torch
    >>> check("pairwise_dot", lambda x, y: torch.einsum("b q d, b k d -> b q k", x, y))
    ✓ pairwise_dot: all right (4 of 4 points)
    """
    report = run(name, attempt)
    _show(report)
    if not report.passed:
        raise CheckFailed(report)


def grade(name: str, attempt: Any) -> float:
    """Judge on the grader's cases, too, show the verdict and return the points: nbgrader's partial credit."""
    report = run(name, attempt, hidden=True)
    _show(report)
    return report.points


def _show(report: Report) -> None:
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        from IPython.display import display

        display(report)
    else:
        print(report.message)
