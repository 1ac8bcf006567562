"""Everything a diagnosis may name, by its id."""

from dataclasses import replace

from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.one_change.kinds import CHANGES
from attnlib.checks.naming.symptom_names import SYMPTOMS

IN_ANY_EXERCISE = {change.id: change for change in CHANGES.values()} | {
    name: replace(symptom, title=symptom.title.format("…", "…", "…")) for name, symptom in SYMPTOMS.items()
}


def names_in(exercise: Exercise | None) -> dict[str, Misconception]:
    """The exercise's misconceptions, what results show by themselves, and single changes."""
    of_exercise = {m.id: m for m in exercise.misconceptions} if exercise is not None else {}
    return IN_ANY_EXERCISE | of_exercise
