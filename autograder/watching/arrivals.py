"""Arriving attempts: nbgrader's exchange, with a folder for each, or a folder with each student's last one."""

import glob
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nbgrader.exchange import ExchangeFactory

from autograder.in_nbgrader.names import fault_of_name
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.intake.folder import MOST_ENTRIES, collect, digest_of_files
from autograder.judging.intake.survey import survey
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError, NotGraded

Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class HandIn:
    """One hand-in: its key tells it from the student's one before, and `came` orders the waiting ones."""

    key: str
    student: str
    lesson: str
    came: float
    place: Path


class Arrivals(Protocol):
    """A place where attempts arrive."""

    lessons: list[str]
    """The lessons whose attempts are looked for."""
    submitted: Path
    """The folder in which the grader reads what was taken in."""
    keeps: bool
    """True if attempts stay there: else a student's earlier one, handed in again, is new."""

    def look(self, known: set[str]) -> list[HandIn]:
        """Return the whole attempts that are not known yet, the earliest first; a CourseError if the place is gone."""

    def take(self, attempt: HandIn) -> str:
        """Put the attempt where the grader reads it; return a reason if it isn't a submission."""

    def release(self, attempt: HandIn) -> None:
        """Give the student the feedback written for the attempt."""


class Settled:
    """Tells whether a folder has changed since the last look: while files are being copied, it isn't whole."""

    def __init__(self) -> None:
        self.seen: dict[Path, Signature] = {}

    def is_whole(self, folder: Path) -> bool:
        """True if the folder is as it was at the last look."""
        now = tuple(_signature(folder))
        before, self.seen[folder] = self.seen.get(folder), now
        return before == now


def _signature(folder: Path) -> Iterator[tuple[str, int, int]]:
    for number, (place, _, files) in enumerate(os.walk(folder)):
        for name in sorted(files)[:MOST_ENTRIES]:
            state = Path(place, name).lstat()
            yield f"{place}/{name}", state.st_size, state.st_mtime_ns
        if number > MOST_ENTRIES:
            return


class Exchange:
    """nbgrader's exchange: ROOT/COURSE/inbound/STUDENT+LESSON+TIME. Each attempt is answered by itself."""

    keeps = True

    def __init__(self, course: NbgraderCourse, lessons: list[str]) -> None:
        self.course, self.lessons, self.settled = course, lessons, Settled()
        self.submitted = Path(course.path(course.directory.submitted_directory, "x", "x")).parents[1]
        self.factory = ExchangeFactory(config=course.config)
        self.collector = self._of(self.factory.Collect)
        if not hasattr(self.collector, "root"):
            raise CourseError(
                f"nbgrader's own exchange, a folder, is required here, got {type(self.collector).__module__}: collect "
                "with `nbgrader collect`, and name the folder of what it collects."
            )
        name = course.directory.course_id
        if not name:
            raise CourseError("The exchange needs c.CourseDirectory.course_id in course_settings.py, which names none.")
        self.inbound = Path(self.collector.root, name, "inbound")
        self.look(set())

    def _of(self, make: Any) -> Any:
        return make(coursedir=self.course.directory, config=self.course.config)

    def look(self, known: set[str]) -> list[HandIn]:
        found = []
        try:
            with os.scandir(self.inbound) as entries:
                new = [entry for entry in entries if entry.name not in known]
        except OSError as error:
            raise CourseError(f"{shown(self.inbound)} cannot be read: {error.strerror}.") from None
        for entry in new:
            parts = entry.name.split("+")
            lesson = next((part for part in parts[1:] if part in self.lessons), None)
            if lesson is None:
                continue
            student, place = entry.name.partition(f"+{lesson}+")[0], Path(entry.path)
            try:
                whole = (place / "timestamp.txt").is_file() and self.settled.is_whole(place)
                came = entry.stat(follow_symlinks=False).st_ctime
            except OSError:  # it is gone, or not to be read yet
                continue
            if whole:
                found.append(HandIn(entry.name, student, lesson, came, place))
        return sorted(found, key=lambda attempt: (attempt.came, attempt.key))

    def take(self, attempt: HandIn) -> str:
        collector, directory = self.collector, self.course.directory
        directory.assignment_id, directory.student_id = attempt.lesson, glob.escape(attempt.student)
        collector.refused = {}
        try:
            collector._path_to_record(str(attempt.place))
            if why := collector.refused.get(attempt.place.name):
                return str(why)
            target = self.course.path(directory.submitted_directory, attempt.student, attempt.lesson)
            collector.take(attempt.place, target, attempt.student)
        except (CourseError, RuntimeError) as error:
            return str(error)
        return ""

    def release(self, attempt: HandIn) -> None:
        directory = self.course.directory
        directory.assignment_id, directory.student_id = attempt.lesson, glob.escape(attempt.student)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbgrader leaves files open
            self._of(self.factory.ReleaseFeedback).start()


class Folder:
    """A folder STUDENT/LESSON/ with each student's last attempt; feedback stays in the course's folder."""

    keeps = False

    def __init__(self, folder: Path, lessons: list[str]) -> None:
        self.submitted, self.lessons, self.settled = folder, lessons, Settled()
        self.digests: dict[Path, tuple[Signature, str]] = {}
        self.look(set())

    def look(self, known: set[str]) -> list[HandIn]:
        if not self.submitted.is_dir():
            raise CourseError(f"{shown(self.submitted)} is not there.")
        found = []
        for student, lesson in survey(self.submitted)[0]:
            place = self.submitted / student / lesson
            if lesson not in self.lessons or fault_of_name(student):
                continue
            try:
                if not self.settled.is_whole(place):
                    continue
                key = f"{student}/{lesson}/{self._digest(place, lesson)}"
                came = max((path.lstat().st_ctime for path in place.iterdir()), default=0.0)
            except OSError:
                continue
            if key not in known:
                found.append(HandIn(key, student, lesson, came, place))
        return sorted(found, key=lambda attempt: (attempt.came, attempt.key))

    def _digest(self, place: Path, lesson: str) -> str:
        """Return a digest of the folder's files, read once for each of its states."""
        signature = self.settled.seen[place]
        if self.digests.get(place, (None, ""))[0] != signature:
            try:
                digest = digest_of_files(collect(place, lesson).files)
            except NotGraded as error:
                digest = digest_of_files({"": str(error).encode()})
            self.digests[place] = signature, digest
        return self.digests[place][1]

    def take(self, attempt: HandIn) -> str:  # noqa: ARG002  it is where the grader reads
        return ""

    def release(self, attempt: HandIn) -> None:
        """Do nothing: the feedback is in the course's folder."""
