"""The report on a slip as if it were on no list: a slip earns its place only if its text teaches more."""

import builtins
from dataclasses import fields

from attnlib.checks import Exercise, Misconception
from attnlib.checks.asking.observation import Asking
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.wronglines import WORLD
from attnlib.checks.verdict.judge import cases_of, findings, try_case
from autograder.proof.answers import Answer, run_source
from autograder.proof.counts import Withheld

PACKAGES = {name: thing for name, thing in WORLD.items() if name not in vars(builtins)}
"""The packages that programs of slips use, imported by their lesson or not."""


def told_instead(exercise: WrittenExercise, answer: Answer, asking: Asking) -> list[Withheld]:
    """Report on each slip with a wrong line, in its first spelling, as if there were no catalogue."""
    bare = Exercise(
        **{field.name: getattr(exercise, field.name) for field in fields(Exercise) if field.name != "wrong"}
    )
    slips = [m for m in exercise.misconceptions if m.id in exercise.programs and not (m.same_as or m.both)]
    return [_told(bare, slip, answer, exercise.programs[slip.id], asking) for slip in slips]


def _told(exercise: Exercise, slip: Misconception, answer: Answer, program: str, asking: Asking) -> Withheld:
    names = {**PACKAGES, **answer.namespace}
    attempt = run_source(Answer(answer.exercise, program, exercise.name, names), program)
    trials = [try_case(exercise, attempt, case, asking) for case in cases_of(exercise, hidden=False)]
    instead = findings(exercise, attempt, trials, asking)
    said = tuple(f"{finding.title}. {finding.explanation}" for finding in instead)
    return Withheld(exercise.name, slip.id, f"{slip.title}. {slip.explanation}", said)
