"""Measure how hard a bug is: by what the check observes of it, and within a level by the size of its repair."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnlib.checks.asking.failure import Failure
from attnlib.checks.trial.trial import Trial

LEVELS = {
    1: "an exception",
    2: "a wrong shape or dtype",
    3: "wrong values",
    4: "a wrong gradient",
    5: "seen only in a second call, at another length, in another dtype or with an option",
    6: "two bugs at once",
}
"""The observation that defines each level, the easiest first."""


@dataclass(frozen=True)
class Difficulty:
    """The level of a bug, whether no case of its check raises, and the case that shows it."""

    level: int
    silent: bool
    case: str


def difficulty(trials: Sequence[Trial]) -> Difficulty | None:
    """Return how hard the bug in these trials is; None if none is wrong, or if one broke a limit, died, or the like.

    The first case is the one that everybody tries: a bug that shows there has the level of its symptom. Next comes a
    bug that shows only in a gradient, and last one that only other cases show.
    """
    wrong = [trial for trial in trials if trial.difference is not None]
    failures = [t.got.failure for t in wrong if t.got.failure is not None]
    if not wrong or any(failure.kind in ("time", "memory", "died", "forbidden", "unwritten") for failure in failures):
        return None
    first, silent = trials[0], not failures
    if first.difference is not None:
        aspect = first.difference.aspect
        raised = isinstance(first.difference.got, Failure) and first.difference.got.kind == "raised"
        level = 1 if raised else 2 if aspect in ("failure", "shape", "dtype", "device") else 3
        return Difficulty(level, silent, first.case.name)
    telling = [t for t in wrong if not t.case.other_device] or wrong
    if all(t.difference is not None and t.difference.aspect == "gradient" for t in telling):
        return Difficulty(4, silent, telling[0].case.name)
    shown = next(t for t in telling if t.difference is not None and t.difference.aspect != "gradient")
    return Difficulty(5, silent, shown.case.name)
