"""Collect the graded submissions of a course from the gradebook and the autograded notebooks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook

from autograder.grading.results import Result, results_of
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.record_failures import reason_file
from autograder.in_nbgrader.status import Status, status_of, submitted_students
from autograder.judging.intake.bounded import bounded
from autograder.judging.verdict import reports
from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.notebook import read_notebook
from autograder.showing.errors import CourseError, NotGraded
from autograder.showing.text import printable

Step = Callable[[int, int], None]


@dataclass(frozen=True)
class Mark:
    """A student's points in one exercise, why not more, and which parts the check's report says are right."""

    exercise: str
    points: float
    max_points: float
    diagnosis: str | None = None
    parts: Mapping[str, bool] | None = None
    in_short: str | None = None

    @property
    def passed(self) -> bool:
        """True if all points were earned."""
        return self.points >= self.max_points


@dataclass(frozen=True)
class Submission:
    """One student's lesson: the attempts, or the reason for having none."""

    student: str
    lesson: str
    attempts: tuple[Mark, ...] = ()
    problem: str | None = None


def collect(layout: Layout, lessons: tuple[str, ...], step: Step = lambda *_: None) -> list[Submission]:
    """Every submission of the lessons, of all lessons if none is named, by lesson and student.

    `step` is called with the number read so far, and the total.
    """
    if not has_gradebook(layout):
        raise CourseError(f"{shown(layout.course)} holds nothing that was graded; first: python -m autograder grade")
    chosen = layout.gradable(lessons)
    course = NbgraderCourse(layout.course)
    found: list[Submission] = []
    with course.gradebook() as gradebook:
        wanted = [(lesson, student) for lesson in chosen for student in _students(course, gradebook, lesson)]
        for number, (lesson, student) in enumerate(wanted):
            step(number, len(wanted))
            if (submission := _read(course, gradebook, lesson, student)) is not None:
                found.append(submission)
    return found


def has_gradebook(layout: Layout) -> bool:
    """True if anything was graded there; asking makes no folder and no database."""
    if not layout.course.is_dir():
        return False
    url = NbgraderCourse(layout.course).directory.db_url
    return not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).is_file()


def _students(course: NbgraderCourse, gradebook: Gradebook, lesson: str) -> list[str]:
    """Return everybody known to have handed in the lesson, even if grading never got as far as the gradebook."""
    entered = {submission.student_id for submission in gradebook.assignment_submissions(lesson)}
    failed = {
        path.parent.parent.name
        for path in reason_file(course.directory, "*", lesson).parents[2].glob(f"*/{lesson}/reason.txt")
    }
    return sorted(entered | failed | submitted_students(course.directory, lesson))


def _read(course: NbgraderCourse, gradebook: Gradebook, lesson: str, student: str) -> Submission | None:
    status = status_of(gradebook, course.directory, lesson, student)
    if status.kind == "not submitted":
        reason = reason_file(course.directory, student, lesson)
        if not reason.is_file():
            return None
        status = Status("not graded", reason.read_text(encoding="utf-8").strip())  # handed in from another folder
    if status.kind != "graded":
        return Submission(printable(student), lesson, problem=status.why)
    notebook = gradebook.find_submission_notebook(lesson, lesson, student)
    scores = {grade.name: grade.score for grade in notebook.grades}
    answers = [cell.name for cell in notebook.notebook.solution_cells]
    try:
        with bounded():
            results = results_of(course, student, lesson, scores, answers)
            folder = course.path(course.directory.autograded_directory, student, lesson)
            said = reports(read_notebook(folder / f"{lesson}.ipynb"))
    except (CourseError, NotGraded) as error:
        return Submission(student, lesson, problem=str(error).rstrip("."))
    return Submission(student, lesson, attempts=_attempts(results, said))


def _attempts(results: list[Result], said: dict[str, dict[str, Any]]) -> tuple[Mark, ...]:
    """Return one attempt per exercise, with its cells taken together; parts only if one report covers the exercise."""
    exercises = dict.fromkeys(result.exercise for result in results if result.max_points > 0)
    attempts = []
    for name in exercises:
        cells = [result for result in results if result.exercise == name]
        lost = next((cell for cell in cells if cell.points < cell.max_points), None)
        parts = [report.get("parts") for report in said.values() if report.get("exercise") == name]
        attempts.append(
            Mark(
                exercise=name,
                points=sum(cell.points for cell in cells),
                max_points=sum(cell.max_points for cell in cells),
                diagnosis=lost.diagnosis if lost else None,
                in_short=lost.in_short if lost else None,
                parts=parts[0] if len(parts) == 1 and isinstance(parts[0], dict) else None,
            )
        )
    return tuple(attempts)
