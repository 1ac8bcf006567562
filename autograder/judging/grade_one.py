"""Grading one submission, without a course tree or a database."""

import secrets
from os import PathLike
from pathlib import Path
from typing import Any

from autograder.judging.submission import Task, judge_task
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import to_text
from autograder.sandbox.layers import Layers


def grade(
    source: str | PathLike[str],
    submission: str | PathLike[str] | bytes,
    *,
    layers: Layers | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """What one submission earned, as plain data.

    `source` is the path of the instructor's notebook or of the lesson's text; `submission` that of a notebook, or its
    bytes. `layers` keep the student's code in, the strongest that work here if none are named; `seed` draws the numbers
    on which answers are compared, which are new ones each time if there is none: one that students know lets a table of
    results pass.

    Returns a dict with `lesson`, `points` (None if it was not graded), `max_points`, `problem` (None, or why it was not
    graded), `remarks`, and `tests`: by the test's grade id, `points`, `max_points` and the report (`exercise`,
    `passed`, `score`, `diagnosis`, `parts`, `headline`, `message`).

    Raises CourseError where there is no such lesson, or no sandbox.
    """
    assignment = Assignment.read(Path(source))
    data = submission if isinstance(submission, bytes) else Path(submission).read_bytes()
    seed = secrets.randbits(128) if seed is None else seed
    task = Task("", assignment.name, to_text(assignment.source), {f"{assignment.name}.ipynb": data}, seed)
    judged = judge_task(task, layers)
    most = {question.test: question.points for question in assignment.questions}
    return {
        "lesson": assignment.name,
        "points": sum(judged.points.values()) if judged.problem is None else None,
        "max_points": sum(most.values()),
        "problem": judged.problem,
        "remarks": list(judged.remarks),
        "tests": {
            test: {**report, "points": judged.points[test], "max_points": most[test]}
            for test, report in judged.reports.items()
        },
    }
