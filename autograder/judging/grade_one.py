"""Grading one submission, without a course tree or a database."""

import secrets
from os import PathLike
from pathlib import Path
from typing import Any

import nbformat

from autograder.judging.intake.custody import bytes_of
from autograder.judging.intake.folder import HandedIn, collect
from autograder.judging.submission import Judged, Task, judge_task
from autograder.judging.verdict import pages
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import to_text
from autograder.sandbox.layers import Layers
from autograder.showing.errors import NotGraded


def grade(
    source: str | PathLike[str],
    submission: str | PathLike[str] | bytes,
    *,
    layers: Layers | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Grade one submission and return the result as plain data.

    `source` is the path of the instructor's notebook or of the lesson's text; `submission` that of a notebook or of a
    folder with a notebook and the files that it reads, or a notebook's bytes. `layers` keep the student's code in, the
    strongest that work here if none are named; `seed` draws the numbers on which answers are compared, which are new
    ones each time if there is none: one that students know lets a table of results pass.

    Returns a dict with `lesson`, `points` (None if it was not graded), `max_points`, `problem` (None, or why it was not
    graded), `remarks`, `again` (True where the same submission may be graded at another try, as after a fault of the
    grader's own), `fault` (that fault's traceback, or an empty text), and `tests`: by the test's grade id, `points`,
    `max_points`, and the report (`exercise`, `passed`, `score`, `diagnosis`, `parts`, `headline`, `message`, and
    `html`, the message as a notebook shows it).

    Raises CourseError where there is no such lesson, or no sandbox.
    """
    assignment = Assignment.read(Path(source))
    seed = secrets.randbits(128) if seed is None else seed
    left_out: tuple[str, ...] = ()
    try:
        handed_in = _handed_in(submission, assignment.name)
        left_out = handed_in.remarks
        judged = judge_task(Task("", assignment.name, to_text(assignment.source), handed_in.files, seed), layers)
    except NotGraded as reason:
        judged = Judged.failed("", assignment.name, reason)
    html = pages(nbformat.reads(judged.notebook, as_version=4)) if judged.notebook else {}
    most = {question.test: question.points for question in assignment.questions}
    return {
        "lesson": assignment.name,
        "points": sum(judged.points.values()) if judged.problem is None else None,
        "max_points": sum(most.values()),
        "problem": judged.problem,
        "remarks": [*left_out, *judged.remarks],
        "again": judged.passing or bool(judged.fault),
        "fault": judged.fault,
        "tests": {
            test: {**report, "points": judged.points[test], "max_points": most[test], "html": html.get(test, "")}
            for test, report in judged.reports.items()
        },
    }


def _handed_in(submission: str | PathLike[str] | bytes, lesson: str) -> HandedIn:
    if isinstance(submission, bytes):
        return HandedIn({f"{lesson}.ipynb": submission})
    path = Path(submission)
    return collect(path, lesson) if path.is_dir() else HandedIn({f"{lesson}.ipynb": bytes_of(path.resolve())})
