"""One case of one attempt: what was expected, what was received, and where they differ."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnlib.checks.asking.observe import Observation
from attnlib.checks.exercise import Case
from attnlib.checks.trial.compare import Difference


@dataclass
class Trial:
    """One case: what the reference does, what the attempt does, and the first difference."""

    case: Case
    expected: Observation
    got: Observation
    difference: Difference | None


def visibly_wrong(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that may be spoken of: of a hidden case nothing is said but that it failed."""
    return [trial for trial in trials if trial.difference is not None and not trial.case.hidden]
