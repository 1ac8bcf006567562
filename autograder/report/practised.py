"""Assignments of bugs in the item analysis: students have different bugs, so these are counted by kind."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.practising.assigned import LINE, POINTS, REASON
from attnlib.checks.practising.review import slip_of
from autograder.grading.results import NOT_ANSWERED
from autograder.handing_out.assigning import bugs_of
from autograder.lesson_text.layout import Layout
from autograder.report.collect import Mark, Submission

KINDS = {
    1: "an exception",
    2: "a wrong shape or dtype",
    3: "wrong values",
    4: "a wrong gradient",
    5: "shown by some calls alone",
}
Bug = Mapping[str, Any]


def by_kind(layout: Layout, submissions: Iterable[Submission]) -> tuple[list[Submission], dict[str, Exercise]]:
    """Replace each bug's number by its kind; return the submissions, and the kinds as exercises.

    A mistake in such an exercise is one that somebody did not find.
    """
    dealt = {assignment: bugs_of(layout, assignment) for assignment in layout.individual_assignments()}
    found = []
    for one in submissions:
        bugs = dealt.get(one.lesson, {}).get(one.student, [])
        numbered = {f"bug_{number}": bug for number, bug in enumerate(bugs, 1)}
        marks = (
            _of_kind(mark, numbered[mark.exercise]) if mark.exercise in numbered else mark for mark in one.attempts
        )
        found.append(replace(one, attempts=tuple(marks)))
    everything = [bug for of_students in dealt.values() for bugs in of_students.values() for bug in bugs]
    return found, {KINDS[level]: _kind(level, everything) for level in sorted({bug["level"] for bug in everything})}


def _of_kind(mark: Mark, bug: Bug) -> Mark:
    parts = {LINE: mark.points >= POINTS[LINE], REASON: mark.points in (POINTS[REASON], mark.max_points)}
    lost = mark.diagnosis if mark.passed or mark.diagnosis == NOT_ANSWERED else _mistake(bug)
    return replace(mark, exercise=KINDS[bug["level"]], diagnosis=lost, parts=parts)


def _kind(level: int, bugs: Iterable[Bug]) -> Exercise:
    of_level = {_mistake(bug): bug for bug in bugs if bug["level"] == level}
    return Exercise(
        name=KINDS[level],
        lesson="",
        contract="",
        parts=POINTS,
        reference="",
        kind="choice",
        wrong=tuple(
            Misconception(id=slip, title=bug["title"], explanation=bug["explanation"], implementation="")
            for slip, bug in of_level.items()
        ),
    )


def _mistake(bug: Bug) -> str:
    """Return the slip, the same for every exercise, spelling and dialect it is dealt in."""
    return slip_of(bug["id"].split("/")[1])
