"""Observations of the course's own answers to an exercise, made once for each seed; verdicts and names follow."""

from collections.abc import Sequence
from typing import Any

from attnlib.checks import Case, Exercise, Misconception, Report
from attnlib.checks.asking.observation import Asking, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.naming.diagnose import diagnose
from attnlib.checks.trial.trial import Trial, judged
from attnlib.checks.verdict.judge import cases_of, run_exercise


class Observed:
    """One exercise and one seed."""

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise, self.asking = exercise, Asking(seed=seed, memory={})

    def seen(self, attempt: Any, cases: Sequence[Case]) -> dict[str, Observation]:
        """Observe the attempt on each case, by the case's name."""
        return {case.name: observe(self.exercise, attempt, case, self.asking) for case in cases}

    def trials(self, attempt: Any, *, hidden: bool) -> list[Trial]:
        """Compare the attempt with the reference, case by case."""
        exercise, trials = self.exercise, []
        cases = cases_of(exercise, hidden=hidden)
        for case, got in zip(cases, self.seen(attempt, cases).values(), strict=True):
            right = observe(exercise, exercise.reference, case, self.asking, exact=True)
            trials.append(judged(exercise, case, right, got))
        return trials

    def wrong(self, *, hidden: bool) -> dict[str, list[Trial]]:
        """Return the trials of every misconception, by its id."""
        return {m.id: self.trials(m.implementation, hidden=hidden) for m in self.exercise.misconceptions}

    def diagnosis(self, trials: Sequence[Trial]) -> Misconception | None:
        """The misconception that fits."""
        known = diagnose(self.exercise, trials, self.asking)
        return known[0] if known else None

    def report(self, attempt: Any, *, hidden: bool) -> Report:
        """Report everything a student would be told, and the score."""
        known = self.seen(attempt, cases_of(self.exercise, hidden=hidden))
        return run_exercise(self.exercise, attempt, self.asking, hidden=hidden, known=known)
