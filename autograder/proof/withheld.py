"""The report on a slip as if it were on no list: a slip earns its place only if its text teaches more.

One that doesn't moves to dropped.toml, by its exercise, by a piece of what is said instead, and by its title, with its
wrong line, which is still tried.
"""

import builtins
import tomllib
from dataclasses import fields
from pathlib import Path

from attnlib.checks import Exercise
from attnlib.checks.asking.observation import Asking
from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.wronglines import WORLD, applied
from attnlib.checks.verdict.judge import cases_of, findings, try_case
from autograder.proof.answers import Answer, run_source
from autograder.proof.counts import Withheld

PACKAGES = {name: thing for name, thing in WORLD.items() if name not in vars(builtins)}
"""The packages that programs of slips use, imported by their lesson or not."""
DROPPED: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("dropped.toml").read_text(encoding="utf-8")
)


def told_instead(exercise: WrittenExercise, answer: Answer, asking: Asking) -> list[Withheld]:
    """Report on each slip with a wrong line, in its first spelling, as if there were no catalogue."""
    bare = Exercise(
        **{field.name: getattr(exercise, field.name) for field in fields(Exercise) if field.name != "wrong"}
    )
    slips = [m for m in exercise.misconceptions if m.id in exercise.programs and not (m.same_as or m.both)]
    programs = exercise.programs
    return [
        Withheld(exercise.name, m.id, f"{m.title}. {m.explanation}", _said(bare, answer, programs[m.id], asking))
        for m in slips
    ]


def told_of_dropped(exercise: WrittenExercise, answer: Answer, asking: Asking) -> list[Withheld]:
    """Report on each dropped slip of the exercise, as a student hears of it."""
    return [
        Withheld(exercise.name, title, wanted, _said(exercise, answer, applied(exercise.right, change, title), asking))
        for wanted, slips in DROPPED.get(exercise.name, {}).items()
        for title, change in slips.items()
    ]


def _said(exercise: Exercise, answer: Answer, program: str, asking: Asking) -> tuple[str, ...]:
    names = {**PACKAGES, **answer.namespace}
    attempt = run_source(Answer(answer.exercise, program, exercise.name, names), program)
    trials = [try_case(exercise, attempt, case, asking) for case in cases_of(exercise, hidden=False)]
    return tuple(f"{finding.title}. {finding.explanation}" for finding in findings(exercise, attempt, trials, asking))
