"""The points of each graded cell of a submission, and the reason for any that are missing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.submission import Judged
from autograder.judging.verdict import error_in, reports
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import read_notebook
from autograder.lesson_text.released import longest_answer

NOT_ANSWERED = "not answered"


class Why(NamedTuple):
    """The reason a cell lacks points: a misconception's id, or words; and the words that such answers share."""

    diagnosis: str | None = None
    in_short: str | None = None


@dataclass(frozen=True)
class Result:
    """The points of one graded cell, with the misconception its report names or the error it ended with."""

    exercise: str
    points: float
    max_points: float
    diagnosis: str | None = None
    in_short: str | None = None
    in_place_of: float | None = None
    """The points that were judged, if a person has changed them."""


def results_from(judged: Judged, assignment: Assignment, by_hand: Mapping[str, float]) -> Iterator[Result]:
    """The graded cells in the lesson's order, as they were just judged, with the points that a person gave."""
    for question in assignment.questions:
        points, is_open = judged.points[question.test], (question.answer or question.test) in judged.unanswered
        why = Why(NOT_ANSWERED) if is_open else _what_is_said(judged.reports[question.test])
        given = by_hand.get(question.test)
        counts, replaced = (points, None) if given is None else (given, points)
        yield Result(question.exercise.name, counts, question.points, *why, in_place_of=replaced)


def _what_is_said(report: dict[str, Any]) -> Why:
    """Return the misconception or, if there is none, the answer cell's error, or the report's first sentence."""
    if report.get("passed"):
        return Why()
    if not report.get("diagnosis") and (error := report.get("error_of_cell")):
        return _ended_with(error)
    said = report.get("diagnosis") or report.get("headline")
    return Why(str(said), str(report.get("in_short") or said)) if said else Why()


def results_of(
    course: NbgraderCourse, student: str, lesson: str, scores: Mapping[str, float], answers: Iterable[str]
) -> list[Result]:
    """The graded cells in the graded notebook's order, with their diagnoses, by the answers that were released.

    The notebook's own cells don't count: it may have lost its metadata, and its tests are at its end. Each score is out
    of the points that its test had when it was judged: the lesson may have been released with others since.
    """
    notebook = read_notebook(course.path(course.directory.autograded_directory, student, lesson) / f"{lesson}.ipynb")
    cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "grade_id" in c.metadata.get("nbgrader", {})}
    released = list(answers)
    said = reports(notebook)
    results = []
    for name, cell in cells.items():
        if name in scores:
            answer = longest_answer(name, released)
            why = what_happened(cell, cells.get(answer), said.get(name, {}))
            most = float(cell.metadata.nbgrader.get("points", 0))
            results.append(Result(answer or name, scores[name], most, *why))
    return results


def what_happened(test: NotebookNode, answer: NotebookNode | None, report: dict[str, Any]) -> Why:
    """Return the reason: no answer, a misconception, the error that the answer ended with, or the report's words."""
    if answer is not None and answer.metadata.nbgrader.get("checksum") == compute_checksum(answer):
        return Why(NOT_ANSWERED)
    error = error_in(answer) if answer is not None else None
    if not report.get("diagnosis") and (error or (error := error_in(test))):
        return _ended_with(error)
    return _what_is_said(report)


def _ended_with(error: str) -> Why:
    """Name the error; a student's own class may have a name that looks like "not answered"."""
    return Why("Exception", "Exception") if error == NOT_ANSWERED else Why(error, error)
