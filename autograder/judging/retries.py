"""A run of a notebook to judge one answer, and the reasons for trying it once more in another way."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from attnlib.checks.verdict.report import Report
from autograder.judging.cells_around import Cells, may_define

OURS = ("attnlib", "autograder")
Stuck = dict[str, tuple[int, str]]
OUTCOME = ("error", "text", "printed", "lacks_name", "lacks_module")


@dataclass(frozen=True)
class Run:
    """The cells to be run for judging an answer."""

    cells: Cells
    below: Cells
    """Cells below the test, which are not run."""
    run: str = "needed"
    """The choice of cells: see `needed` in sandbox/inside/needed.py."""
    show: tuple[str, ...] = ()
    """The demonstrations whose numbers are computed elsewhere, since they need what is withheld."""


@dataclass
class Outcome:
    """The outcome of one attempt: what was run for it, what was left out, and whether the child died in the cells."""

    report: Report
    cells: list[dict[str, Any]] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    unseen: int = 0
    died: bool = False
    task: dict[str, Any] | None = None
    """The task that prepares a process for the hidden cases; None if nothing can be judged."""

    @property
    def is_silent(self) -> bool:
        """True if nothing is shown of its cells: neither an error nor what they print."""
        return not any(cell["error"] or cell["printed"] for cell in self.cells)

    @property
    def lacking(self) -> list[str]:
        """The name it lacked when it failed, in a list."""
        return [self.report.failure.lacks_name] if self.report.failure and self.report.failure.lacks_name else []

    @property
    def lacking_modules(self) -> list[str]:
        """The module it lacked when it failed, in a list; none for one of ours, which no file beside it can replace."""
        module = self.report.failure.lacks_module if self.report.failure else ""
        return [module] if module and module not in OURS else []

    def not_shown(self, cells: Cells) -> tuple[str, ...]:
        """Return, if names were lacking, the demonstrations that didn't finish: they may need what is withheld."""
        given = {cell["name"] for cell in cells if cell["role"] == "given"}
        return tuple(cell["name"] for cell in self.cells if cell["error"] and cell["name"] in given and self.lacking)


def said(told: dict[str, Any], name: str) -> Any:
    """Return what the child says under this name if it is words; a tensor there would be neither true nor false."""
    found = told.get(name)
    return found if isinstance(found, (str, dict)) else None


def outcomes(told: Any) -> list[dict[str, Any]]:
    """Return the child's account of its cells: words for its own student, and nothing else."""
    found: list[dict[str, Any]] = []
    for cell in told if isinstance(told, list) else []:
        if isinstance(cell, dict):
            found.append({key: str(cell.get(key, ""))[:4000] for key in OUTCOME})
            found[-1]["name"] = str(cell.get("cell", ""))[:200]
            line = cell.get("stopped")
            found[-1]["stopped"] = line if type(line) is int and 0 < line < 1_000_000 else 0
    return found[:1000]


def stuck_cells(judged: Iterable[list[dict[str, Any]]]) -> Stuck:
    """Return the cells that did not end in their time, with the line and what was said: none waits for it again."""
    cells = (cell for outcomes_of_one in judged for cell in outcomes_of_one if cell["error"] == "TimeLimit")
    return {cell["name"]: (cell["stopped"], cell["text"]) for cell in cells}


def added(cells: Cells) -> Cells:
    """The cells that are entirely the student's."""
    return [cell for cell in cells if cell["role"] == "added"]


@dataclass(frozen=True)
class Retry:
    """A reason for a failure that isn't the answer's fault, and what to run instead."""

    why: str
    applies: Callable[[Run, Outcome], bool]
    change: Callable[[Run, Outcome], Run]


RETRIES = (
    Retry(
        "students run their cells in any order",
        lambda attempt, asked: may_define(attempt.below, asked.lacking),
        lambda attempt, asked: replace(attempt, cells=attempt.cells + attempt.below, below=[]),
    ),
    Retry(
        "a module's file was written before it was imported",
        lambda attempt, asked: may_define(attempt.below, asked.lacking_modules),
        lambda attempt, asked: replace(attempt, cells=added(attempt.below) + attempt.cells, below=[]),
    ),
    Retry(
        "a demonstration needs what is withheld from the answer",
        lambda attempt, asked: bool(asked.not_shown(attempt.cells)),
        lambda attempt, asked: replace(attempt, show=asked.not_shown(attempt.cells)),
    ),
    Retry(
        "a cell that was left out binds a name that is missing",
        lambda attempt, asked: not asked.left_out.isdisjoint(asked.lacking),
        lambda attempt, asked: replace(attempt, run="all"),
    ),
    Retry(
        "it died, perhaps in a cell that was run only because it hides what it binds",
        lambda attempt, asked: attempt.run == "needed" and asked.died and asked.unseen > 0,
        lambda attempt, asked: replace(attempt, run="seen"),
    ),
)
"""Each is tried once, in this order, on the outcome of the one before."""
