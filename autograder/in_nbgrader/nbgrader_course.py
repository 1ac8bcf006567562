"""nbgrader in this process: the same config and the same converters as its command line."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
from sqlalchemy.exc import OperationalError
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.in_nbgrader.course_config import write_course_config
from autograder.in_nbgrader.course_files import FULL
from autograder.lesson_text.layout import CONFIG, SETTINGS
from autograder.showing.errors import CourseError, first_line

OTHER_CELLS = (
    "This version of the lesson has other exercises. The grades stay, and the other lessons are graded. To have this "
    'one graded anew, see "When something goes wrong" in docs/instructors.md.'
)


class NbgraderCourse:
    """A course directory with its gradebook, under the one config and what its course_settings.py changes.

    `submitted` is a folder of submissions elsewhere, in nbgrader's layout STUDENT/ASSIGNMENT/NOTEBOOK.ipynb.
    A `scratch` course keeps its gradebook in its folder, even if AUTOGRADER_DB names the real one.
    """

    def __init__(self, root: Path, submitted: Path | None = None, *, scratch: bool = False) -> None:
        root.mkdir(parents=True, exist_ok=True)
        write_course_config(root)
        self.config: Config = PyFileConfigLoader(CONFIG.name, path=str(CONFIG.parent)).load_config()
        if (root / SETTINGS).is_file():
            self.config.merge(PyFileConfigLoader(SETTINGS, path=str(root)).load_config())
        if scratch:
            self.config.CourseDirectory.pop("db_url", None)
        self.config.CourseDirectory.root = str(root)
        if submitted is not None:
            self.config.CourseDirectory.submitted_directory = str(submitted)
        self.directory = CourseDirectory(config=self.config)

    def gradebook(self) -> Gradebook:
        """The course's gradebook, as a context manager; a CourseError if it can't be opened now."""
        try:
            return Gradebook(self.directory.db_url, self.directory.course_id)
        except OperationalError as error:  # somebody else holds it, or the database is gone
            raise CourseError(f"The gradebook cannot be opened: {first_line(error)}.") from error

    def path(self, step: str, student: str, assignment: str) -> Path:
        """nbgrader's folder of a step, a student and an assignment."""
        return Path(self.directory.format_path(step, student, assignment))

    def generate_assignment(self, assignment: str) -> Path:
        """Release the assignment; returns the notebook for the students."""
        result = self._run(GenerateAssignment, assignment, ".")
        if not result["success"]:
            why = last_error(result)
            told = f" {OTHER_CELLS}" if "submissions associated" in why else ""
            raise CourseError(f"nbgrader cannot release {assignment}: {why}.{told}")
        return self.path(self.directory.release_directory, ".", assignment) / f"{assignment}.ipynb"

    def autograde(self, assignment: str, student: str) -> str | None:
        """Grade one submission, again if it was graded before; return why it could not be graded, or None."""
        result = self._run(Autograde, assignment, student)
        return None if result["success"] else last_error(result)

    def generate_feedback(self, assignment: str, student: str = "*") -> None:
        """Write the feedback as HTML; raises CourseError, or OSError on a full disk."""
        result = self._run(GenerateFeedback, assignment, student)
        if not result["success"]:
            why = last_error(result)
            if (found := re.match(r"\[Errno (\d+)\] ([\w ]+)", why)) and int(found[1]) in FULL:
                raise OSError(int(found[1]), found[2])
            raise CourseError(f"nbgrader cannot write feedback on {assignment}: {why}.")

    def _run(self, converter: Callable[..., Any], assignment: str, student: str) -> dict[str, Any]:
        self.directory.assignment_id, self.directory.student_id = assignment, student
        app = converter(coursedir=self.directory, config=self.config)
        app.force = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings inside nbgrader and its libraries, which we can't fix
            result: dict[str, Any] = capture_log(app)
        if "KeyboardInterrupt" in result.get("error", ""):
            raise KeyboardInterrupt  # nbgrader would go on with the next submission
        return result


def last_error(result: dict[str, Any]) -> str:
    """Return the exception that a converter logged, as one clause: the end of its first traceback.

    The log indents all lines of a message but the first by four spaces, the lines of a traceback's frames by more.
    """
    log = result.get("log", "") + "\n" + result.get("error", "")
    if found := re.search(r"Traceback \(most recent call last\):\n(?: {6,}.*\n)*? {4}(\w[\w.]*(?:: .+)?)", log):
        return found[1].split(": ", 1)[-1].rstrip(".")
    lines = [line for line in log.splitlines() if line.strip()]
    return re.sub(r"^[\w.]+: ", "", lines[-1]).rstrip(".") if lines else "it gave no reason"
