"""Record a reason, and no score, for a submission that could not be graded."""

from pathlib import Path
from typing import Any, cast

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry

from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.handed_in import time_of
from autograder.judging.intake.bounded import bounded
from autograder.judging.intake.custody import take_in
from autograder.judging.intake.folder import collect
from autograder.lesson_text.released import released_cells
from autograder.showing.errors import NotGraded, first_line
from autograder.showing.text import printable


def reason_file(coursedir: Any, student: str, assignment: str) -> Path:
    """The file with the reason, in nbgrader's own layout: not_graded/STUDENT/ASSIGNMENT/reason.txt."""
    return Path(coursedir.format_path("not_graded", student, assignment)) / "reason.txt"


def forget_scores(db_url: str, assignment: str, student: str) -> None:
    """Take back the automatic scores of an earlier run; those given by hand stay."""
    with Gradebook(db_url) as gradebook:
        forget(gradebook, assignment, student)


def forget(gradebook: Gradebook, assignment: str, student: str) -> None:
    """`forget_scores` in a gradebook that is open."""
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        return
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            grade.auto_score = None
            grade.needs_manual_grade = True
    gradebook.db.commit()


class RecordFailures(NotebookExporter):
    """nbgrader's exporter while autograding, which sees every notebook first, even one that isn't JSON.

    Without it the database keeps what an earlier run found, or nothing, which counts as 0.
    """

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        place, converter = (resources or {})["nbgrader"], cast(Any, self.parent)
        reason = reason_file(converter.coursedir, place["student"], place["assignment"])
        forget_scores(place["db_url"], place["assignment"], place["student"])
        found: tuple[NotebookNode, dict[str, Any]]
        try:
            if converter._sanitizing:
                found = cast(Any, self).from_notebook_node(
                    self._taken_in(Path(filename).parent, place), resources, **kwargs
                )
            else:
                found = super().from_filename(filename, resources, **kwargs)
        except Exception as error:
            forget_scores(place["db_url"], place["assignment"], place["student"])
            record(reason, explain(error))
            raise
        reason.unlink(missing_ok=True)
        return found

    def _taken_in(self, folder: Path, place: dict[str, str]) -> NotebookNode:
        """Return the notebook that a student handed in under any name, found and read as `grade` does."""
        released = released_cells(place["db_url"], place["assignment"], place["notebook"])
        with bounded():
            handed_in = collect(folder, place["notebook"])
            taken = take_in(handed_in.files, place["notebook"], released)
        _, doubt = time_of(cast(Any, self.parent).coursedir, place["student"], place["assignment"], handed_in)
        for remark in filter(None, (*handed_in.remarks, doubt, *taken.remarks)):
            self.log.warning("%s, %s: %s", printable(place["student"]), place["assignment"], remark)
        return taken.notebook


def record(path: Path, reason: str) -> None:
    """Keep the reason for later readers: the table, the export."""
    write_whole(path, reason_line(reason))


def reason_line(reason: str) -> str:
    """The reason as it is kept."""
    return printable(reason) + "\n"


def explain(error: Exception) -> str:
    """The error as a clause that can follow "not graded:"."""
    if isinstance(error, NotGraded):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}"
