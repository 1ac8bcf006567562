"""One case of one attempt: what was expected, what was received, and where they differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import Observation
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.trial.compare import Difference, first_difference


@dataclass
class Trial:
    """One case: what the reference does, what the attempt does, and the first difference."""

    case: Case
    expected: Observation
    got: Observation
    difference: Difference | None

    @property
    def failure(self) -> Failure | None:
        """The reason for having no result; None also where an error was asked for, and something else was returned."""
        accepted = self.difference is not None and self.difference.how == "accepted"
        return None if accepted else self.got.failure

    @property
    def is_apart(self) -> bool:
        """True if only a device, or another dtype than float32, is wrong: a mistake beside what else is wrong."""
        if self.difference is None:
            return False
        return self.case.other_device or (self.difference.aspect == "dtype" and self.case.dtype is not torch.float32)


def judged(exercise: Exercise, case: Case, expected: Observation, got: Observation) -> Trial:
    """Compare the two; a difference may count for another part than the case's own (`Exercise.part_for`)."""
    found = first_difference(exercise, case, expected, got)
    part = exercise.part_for(case, found.aspect) if found else case.part
    return Trial(case if part == case.part else replace(case, part=part), expected, got, found)


def visibly_wrong(trials: Sequence[Trial]) -> list[Trial]:
    """Return the wrong trials that may be shown: of a hidden case, only its failure is reported."""
    return [trial for trial in trials if trial.difference is not None and not trial.case.hidden]
