"""The status of a submission: graded, or why not."""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nbgrader.api import Gradebook, MissingEntry

from autograder.in_nbgrader.names import fault_of_name
from autograder.in_nbgrader.record_failures import reason_file


class Status(NamedTuple):
    """The status of a submission, with the reason if it was not graded."""

    kind: Literal["graded", "not submitted", "not graded"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}" if self.why else self.kind


def status_of(gradebook: Gradebook, coursedir: Any, assignment: str, student: str) -> Status:
    """Return the status of a student's submission. Only a graded one has a score."""
    if why := fault_of_name(student):
        return Status("not graded", why)
    submitted = Path(coursedir.format_path(coursedir.submitted_directory, student, assignment))
    autograded = Path(coursedir.format_path(coursedir.autograded_directory, student, assignment))
    file = reason_file(coursedir, student, assignment)
    reason = file.read_text(encoding="utf-8").strip() if file.is_file() else None
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        if not os.path.isdir(submitted):  # noqa: PTH112  unlike Path.is_dir, False for a folder that may not be looked into
            return Status("not submitted")
        return Status("not graded", reason or "it was not autograded yet")
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    scored = all(grade.auto_score is not None or grade.manual_score is not None for grade in grades)
    if scored and any(autograded.glob("*.ipynb")):
        return Status("graded")
    return Status("not graded", reason or "autograding did not finish")


def submitted_students(coursedir: Any, assignment: str) -> set[str]:
    """The students with a folder for this assignment."""
    pattern = Path(coursedir.format_path(coursedir.submitted_directory, "*", assignment))
    return {path.parent.name for path in pattern.parent.parent.glob(f"*/{assignment}") if path.is_dir()}
