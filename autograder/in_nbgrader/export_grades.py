"""`nbgrader export`: one row for each student and lesson, and no score where none was found."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.in_nbgrader.names import fault_of_name
from autograder.in_nbgrader.status import Status, status_of, submitted_students
from autograder.lesson_text.notebook import read_notebook
from autograder.showing.errors import CourseError
from autograder.showing.spreadsheet import write_rows

COLUMNS = [
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
    "status",
]


class CsvWithStatus(ExportPlugin):
    """nbgrader's columns and `status`: graded, not submitted, or "not graded: " and why.

    Stock nbgrader exports a submission that could not be graded as 0, and does not quote commas.
    """

    def export(self, gradebook: Gradebook) -> None:
        write_rows(Path(self.to or "grades.csv"), COLUMNS, self.rows(gradebook))

    def rows(self, gradebook: Gradebook) -> Iterator[dict[str, Any]]:
        """One row for each assignment and student that are wanted."""
        coursedir = self.parent.coursedir
        students = {student.id: student for student in gradebook.students}
        return (
            row_of(gradebook, coursedir, assignment, student, students.get(student))
            for assignment in gradebook.assignments
            for student in sorted({*students, *submitted_students(coursedir, assignment.name)})
            if self._wanted(assignment.name, student)
        )

    def _wanted(self, assignment: str, student: str) -> bool:
        assignments, students = map(str, self.assignment), map(str, self.student)
        return (not self.assignment or assignment in assignments) and (not self.student or student in students)


def row_of(gradebook: Gradebook, coursedir: Any, assignment: Any, student: str, known: Any) -> dict[str, Any]:
    """The columns of one student and lesson; no score where none was found."""
    status = status_of(gradebook, coursedir, assignment.name, student)
    if status.kind == "graded" and has_other_points(coursedir, assignment, student):
        status = Status("not graded", "the points have changed since it was judged: run `grade` again")
    row = {
        "assignment": assignment.name,
        "duedate": assignment.duedate,
        "student_id": student,
        "last_name": getattr(known, "last_name", None),
        "first_name": getattr(known, "first_name", None),
        "email": getattr(known, "email", None),
        "max_score": assignment.max_score,
        "status": str(status),
    }
    if fault_of_name(student):
        return row
    try:
        submission = gradebook.find_submission(assignment.name, student)
    except MissingEntry:
        return row
    row["timestamp"] = submission.timestamp
    if status.kind == "graded":
        penalty = submission.late_submission_penalty or 0.0
        row["raw_score"] = submission.score
        row["late_submission_penalty"] = penalty
        row["score"] = max(0.0, submission.score - penalty)
    return row


def has_other_points(coursedir: Any, assignment: Any, student: str) -> bool:
    """True if the lesson has been released with other points since the submission was judged."""
    now = {cell.name: cell.max_score for notebook in assignment.notebooks for cell in notebook.grade_cells}
    folder = Path(coursedir.format_path(coursedir.autograded_directory, student, assignment.name))
    try:
        graded = [one.metadata.get("nbgrader", {}) for one in read_notebook(folder / f"{assignment.name}.ipynb").cells]
    except CourseError:  # it is no notebook: `report` says so
        return False
    return any(now.get(cell.get("grade_id"), cell["points"]) != cell["points"] for cell in graded if "points" in cell)
