"""`python -m autograder grade`: every submission graded by nbgrader, and what came of it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.build_course import prepare
from autograder.errors import CourseError
from autograder.layout import Layout, shown
from autograder.nbgrader_course import NbgraderCourse
from autograder.notebook import read_notebook
from autograder.released import longest_answer
from autograder.status import GRADED, status_of
from autograder.steps.record_failures import reason_file, record
from autograder.verdict import error_in, reports

Step = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """What one graded cell earned, and the misconception that its report names, or the error with which it ended."""

    exercise: str
    points: float
    max_points: float
    diagnosis: str | None = None


@dataclass(frozen=True)
class Graded:
    """One submission: its results, or why there are none."""

    student: str
    lesson: str
    results: list[Result] = field(default_factory=list)
    problem: str | None = None

    @property
    def points(self) -> float:
        """All points of the submission."""
        return sum(result.points for result in self.results)

    @property
    def max_points(self) -> float:
        """All points that the lesson has."""
        return sum(result.max_points for result in self.results)


def find_submissions(folder: Path) -> list[tuple[str, str]]:
    """The (student, assignment) pairs in a folder of nbgrader's layout, STUDENT/ASSIGNMENT/NOTEBOOK.ipynb."""
    if not folder.exists():
        raise CourseError(f"{shown(folder)} does not exist.")
    if not folder.is_dir():
        raise CourseError(f"{shown(folder)} is no folder; grade takes a folder STUDENT/LESSON/LESSON.ipynb.")
    found = (path for path in folder.glob("*/*") if path.is_dir() and not path.name.startswith("."))
    return sorted((path.parent.name, path.name) for path in found if not path.parent.name.startswith("."))


def grade(layout: Layout, folder: Path, wanted: tuple[str, ...], step: Step = lambda _: None) -> list[Graded]:
    """Grade the submissions in `folder` into the course's gradebook; one that fails never stops the others."""
    lessons = layout.chosen(wanted)
    everything = find_submissions(folder)
    submissions = [(student, lesson) for student, lesson in everything if not wanted or lesson in wanted]
    if not submissions:
        of = f" of {' or '.join(wanted)}" if wanted and everything else ""
        raise CourseError(f"{shown(folder)} has no submission{of}; it needs the layout STUDENT/LESSON/LESSON.ipynb.")
    prepare(layout, tuple(sorted({lesson for _, lesson in submissions if lesson in lessons})) or tuple(lessons))
    course = NbgraderCourse(layout.course, submitted=folder.resolve())
    graded = []
    for student, lesson in submissions:
        step(f"{student} {lesson}")
        if lesson not in lessons:
            graded.append(Graded(student, lesson, problem="not graded: there is no such lesson"))
        elif set(student) & set("*?["):
            graded.append(
                Graded(student, lesson, problem="not graded: nbgrader takes *, ? and [ in a name for a pattern")
            )
        else:
            graded.append(grade_one(course, student, lesson))
    return graded


def grade_one(course: NbgraderCourse, student: str, lesson: str) -> Graded:
    """Have nbgrader grade one submission, then read what it earned from the gradebook and why from its reports."""
    reason = reason_file(course.directory, student, lesson)
    reason.unlink(missing_ok=True)
    problem = course.autograde(lesson, student)
    if problem is not None and not reason.exists():
        record(reason, problem)
    with course.gradebook() as gradebook:
        status = status_of(gradebook, course.directory, lesson, student)
        if status != GRADED:
            return Graded(student, lesson, problem=status)
        submission = gradebook.find_submission_notebook(lesson, lesson, student)
        scores = {grade.name: (grade.score, grade.max_score) for grade in submission.grades}
    return Graded(student, lesson, results_of(course, student, lesson, scores))


def results_of(
    course: NbgraderCourse, student: str, lesson: str, scores: dict[str, tuple[float, float]]
) -> list[Result]:
    """The graded cells in the notebook's order, with their diagnoses."""
    notebook = read_notebook(course.path(course.directory.autograded_directory, student, lesson) / f"{lesson}.ipynb")
    cells = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "grade_id" in c.metadata.get("nbgrader", {})}
    answers = [name for name, cell in cells.items() if cell.metadata.nbgrader.solution]
    said = reports(notebook)
    results = []
    for name, cell in cells.items():
        if name in scores:
            answer = longest_answer(name, answers)
            diagnosis = what_happened(cell, cells.get(answer), said.get(name, {}))
            results.append(Result(answer or name, *scores[name], diagnosis))
    return results


def what_happened(test: NotebookNode, answer: NotebookNode | None, report: dict[str, Any]) -> str | None:
    """That there is no answer; or the misconception; or the error that the answer or its test ended with.

    If there is no error either, the first line of the report says what is wrong.
    """
    if answer is not None and answer.metadata.nbgrader.get("checksum") == compute_checksum(answer):
        return "not answered"
    if report.get("diagnosis"):
        return report["diagnosis"]
    if answer is not None and (error := error_in(answer)):
        return error
    if error := error_in(test):
        return error
    found = re.match(r"[✗✓] \w+: (.*?)(?: \([\d.]+ of \d+ points?\))?\n", f"{report.get('message', '')}\n")
    return found[1] if found else None
