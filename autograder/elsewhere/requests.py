"""Regrade requests: taken from a form's table, read beside verdict and code, decided once, each with a sentence.

Each is a file in the course's `requests` folder, so that several assistants can work at a time. The points go to the
gradebook as a person's, which no later run replaces; the sentence is a comment, which the feedback shows.
"""

import csv
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from nbgrader.api import Gradebook, MissingEntry

from autograder.grading.entering import Entries
from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.shares import in_share
from autograder.judging.verdict import reports
from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.notebook import read_notebook
from autograder.lesson_text.released import longest_answer
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

COLUMNS = ("student_id", "assignment", "exercise", "text")
LONGEST = 4000


@dataclass(frozen=True)
class Request:
    """A student's request for a regrade, and the decision on it."""

    id: str
    student: str
    lesson: str
    test: str
    """The graded cell's id."""
    text: str
    state: Literal["open", "accepted", "refused"] = "open"
    because: str = ""
    by: str = ""


@dataclass(frozen=True)
class Shown:
    """The view of an assistant who decides: the request, the points, the verdict and the student's code."""

    request: Request
    points: float
    most: float
    verdict: str
    code: str


class Requests:
    """The requests of one course."""

    def __init__(self, layout: Layout) -> None:
        if not layout.course.is_dir():
            raise CourseError(f"{layout.course}: required is a course's folder, and there is none.")
        self.course = NbgraderCourse(layout.course)
        self.folder = layout.course / "requests"
        self.folder.mkdir(exist_ok=True)

    def take(self, table: Path) -> tuple[int, list[str]]:
        """Take over a form's table; return the number of new requests, and a clause for each line that isn't one."""
        new, wrong = 0, []
        with self.course.gradebook() as gradebook:
            for number, row in _rows(table):
                try:
                    request = self._request(gradebook, row)
                except CourseError as error:
                    wrong.append(f"line {number}: {error}")
                    continue
                if not self._path(request.id).exists():
                    self._write(request)
                    new += 1
        return new, wrong

    def _request(self, gradebook: Gradebook, row: dict[str, str]) -> Request:
        student, lesson, exercise, text = (row[name].strip() for name in COLUMNS)
        if not text:
            raise CourseError("there is no text")
        try:
            notebook = gradebook.find_submission_notebook(lesson, lesson, student)
        except MissingEntry:
            raise CourseError(f"nothing of {printable(student)} in {printable(lesson)} was graded") from None
        tests = [grade.name for grade in notebook.grades if exercise in (grade.name, grade.name.removeprefix("test_"))]
        if not tests:
            known = ", ".join(sorted(grade.name.removeprefix("test_") for grade in notebook.grades))
            raise CourseError(f"{lesson} has no exercise {printable(exercise)!r}; there are: {known}")
        digest = hashlib.sha256("\0".join((student, lesson, tests[0], text)).encode()).hexdigest()[:8]
        return Request(digest, student, lesson, tests[0], text[:LONGEST])

    def all(self, *, part: tuple[int, int] = (1, 1), decided: bool = False) -> list[Request]:
        """The open requests, or all, of an assistant's share, by lesson and student."""
        found = [self._read(path) for path in self.folder.glob("*.json")]
        chosen = [one for one in found if in_share(one.student, part) and (decided or one.state == "open")]
        return sorted(chosen, key=lambda one: (one.lesson, one.test, one.student, one.id))

    def show(self, request: Request) -> Shown:
        """Return a request with what it is about."""
        with self.course.gradebook() as gradebook:
            grade = gradebook.find_grade(request.test, request.lesson, request.lesson, request.student)
            points, most = float(grade.score), float(grade.max_score)
        folder = self.course.path(self.course.directory.autograded_directory, request.student, request.lesson)
        try:
            notebook = read_notebook(folder / f"{request.lesson}.ipynb")
        except CourseError:
            return Shown(request, points, most, "the graded notebook is not there", "")
        ids = {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "grade_id" in c.metadata.get("nbgrader", {})}
        answer = ids.get(longest_answer(request.test, [name for name in ids if name != request.test]))
        verdict = reports(notebook).get(request.test, {}).get("message", "there is no verdict")
        return Shown(request, points, most, str(verdict), answer.source if answer is not None else "")

    def decide(self, id: str, because: str, by: str, points: float | None = None) -> Request:
        """Accept with points, or refuse without; a CourseError if somebody has decided it already."""
        if not because.strip():
            raise CourseError("A decision needs a sentence: --because.")
        with self._alone():
            request = self._find(id)
            if request.state != "open":
                raise CourseError(f"{id} was {request.state} by {request.by}: {request.because}")
            state: Literal["accepted", "refused"] = "refused" if points is None else "accepted"
            decided = replace(request, state=state, because=because.strip(), by=by)
            self._enter(decided, points)
            self._write(decided)
            return decided

    def _enter(self, decided: Request, points: float | None) -> None:
        """Write points and sentence into the gradebook, in one transaction; a second time changes nothing.

        What lateness costs depends on the points.
        """
        place = (decided.test, decided.lesson, decided.lesson, decided.student)
        with self.course.gradebook() as gradebook:
            grade = gradebook.find_grade(*place)
            if points is not None:
                if not 0 <= points <= grade.max_score:
                    raise CourseError(f"--points should be from 0 to {grade.max_score:g}, got {points:g}.")
                grade.manual_score, grade.needs_manual_grade = points, False
            comments = {comment.name: comment for comment in grade.notebook.comments}
            comment = comments.get(longest_answer(decided.test, comments) or decided.test)
            said = f"Regrade request {decided.state}: {decided.because}"
            if comment is not None and said not in (comment.manual_comment or ""):
                comment.manual_comment = "\n\n".join(filter(None, (comment.manual_comment, said)))
            gradebook.db.commit()
            Entries(self.course, gradebook).charge(decided.lesson, decided.student)

    def _find(self, id: str) -> Request:
        if not self._path(id).is_file():
            raise CourseError(f"There is no request {printable(id)!r}; python -m autograder requests lists them.")
        return self._read(self._path(id))

    def _path(self, id: str) -> Path:
        return self.folder / f"{id if id.isalnum() else '-'}.json"

    def _read(self, path: Path) -> Request:
        try:
            return Request(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            raise CourseError(f"{shown(path)} is no request: remove it, and take the form's table again.") from None

    def _write(self, request: Request) -> None:
        write_whole(self._path(request.id), json.dumps(asdict(request), indent=1), mode=0o660)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no two assistants decide at a time."""
        handle = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT, 0o660)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _rows(table: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a form's table; a CourseError if it lacks a column."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, restval="")
            if missing := [name for name in COLUMNS if name not in (reader.fieldnames or [])]:
                raise CourseError(
                    f"{shown(table)} should have the columns {', '.join(COLUMNS)}; {missing[0]} is missing."
                )
            for row in reader:
                yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error):
        raise CourseError(f"{shown(table)} cannot be read as a CSV file in UTF-8.") from None
