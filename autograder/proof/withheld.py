"""What a student would be told of a misconception if it were on no list: a slip earns its place if it teaches more."""

from collections.abc import Sequence
from typing import Any

from attnlib.checks import Exercise, Misconception
from attnlib.checks.asking.attempt import Local
from attnlib.checks.asking.observe import Asking
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.naming.errors import exception
from attnlib.checks.naming.one_change.search import one_change
from attnlib.checks.naming.symptoms import broken_contract, gradient_cut_off, one_property, relation_of_numbers
from attnlib.checks.trial.trial import Trial
from attnlib.checks.verdict.judge import cases_of, try_case
from autograder.proof.counts import Withheld
from autograder.proof.observed import Observed


def by_symptoms(observed: Observed) -> list[Withheld]:
    """What the result of each misconception shows by itself; other spellings of a slip are left out."""
    exercise = observed.exercise
    return [
        _withheld(exercise, m, "symptom", symptom(exercise, observed.trials(m.implementation, hidden=False)))
        for m in exercise.misconceptions
        if m.same_as is None
    ]


def by_one_change(exercise: Exercise, shown: str, attempt: Any, limits: TimeLimits) -> Withheld:
    """What the one change would say of an attempt that shows the misconception of this id."""
    asked = Local(attempt, limits)
    trials = [try_case(exercise, asked, c) for c in cases_of(exercise, hidden=False)]
    found = one_change(exercise, attempt, trials, Asking(limits=limits))
    return _withheld(exercise, next(m for m in exercise.misconceptions if m.id == shown), "change", found)


def symptom(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """The first symptom of a wrong answer."""
    ways = (broken_contract(trials), one_property(exercise, trials), relation_of_numbers(exercise, trials))
    return next((by for by in (*ways, exception(exercise, trials), gradient_cut_off(trials)) if by is not None), None)


def _withheld(exercise: Exercise, listed: Misconception, way: str, instead: Misconception | None) -> Withheld:
    return Withheld(exercise.name, listed.id, listed.title, way, instead.title if instead else "")
