"""The time a submission was handed in: by the system that received it if that is known, else by its timestamp.txt."""

import csv
import re
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.names import fault_of_name
from autograder.judging.intake.folder import HandedIn, collect, digest_of_files
from autograder.judging.intake.timestamp import parse_time, told_time, weighed
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError, NotGraded

COLUMNS = ("student_id", "assignment", "timestamp")
LINE = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})? UTC) (?P<digest>[0-9a-f]{64})")


def time_of(coursedir: Any, student: str, lesson: str, found: HandedIn | None = None) -> tuple[datetime | None, str]:
    """Return the time that counts, in UTC and without a zone, or None; and in a clause what is doubtful about it.

    `found` is what the folder holds, where that has been read already and its notebook's own time is to be doubted.
    """
    folder = Path(coursedir.format_path(coursedir.submitted_directory, student, lesson))
    told, doubt = told_time(folder, found.changed if found else None)
    if not _file(coursedir, student, lesson).is_file():
        return told, doubt
    known = _received(coursedir, student, lesson)
    received = known.get(digest_of_files(found.files if found else _files(folder, lesson)))
    if received is None:  # it came after every known receipt, whatever it claims
        last = max(known.values()).isoformat(" ", "minutes") if known else "a time that cannot be read any more"
        earliest = max(filter(None, (told, *known.values())), default=None)
        return earliest, f"it is not what was received at {last}: when it was handed in is not known"
    return weighed(told, doubt, received)


def record_received(coursedir: Any, student: str, lesson: str, time: datetime, folder: Path | None = None) -> None:
    """Keep the time at which a submission was received, where no student writes, with the digest of what it was.

    A time belongs to what the folder held when the time was first recorded, and to nothing later. If the folder
    holds nothing that can be read, there is nothing to keep. `folder` is where it is, before it is put into the course.
    """
    folder = folder or Path(coursedir.format_path(coursedir.submitted_directory, student, lesson))
    files = _files(folder, lesson)
    known, digest = _received(coursedir, student, lesson), digest_of_files(files)
    if files and time not in (at for other, at in known.items() if other != digest):
        lines = (f"{at.isoformat(' ')} UTC {other}\n" for other, at in {**known, digest: time}.items())
        write_whole(_file(coursedir, student, lesson), "".join(lines))


def record_all_received(coursedir: Any, table: Path, lessons: Collection[str]) -> None:
    """Keep the times in a CSV file with the columns student_id, assignment and timestamp, from a learning platform."""
    rows = list(_rows(table))  # all of them, or none
    if unknown := [lesson for _, lesson, _ in rows if lesson not in lessons]:
        raise CourseError(f"{shown(table)}: no lesson is called {unknown[0]!r}.")
    for student, lesson, time in rows:
        record_received(coursedir, student, lesson, time)


def _rows(table: Path) -> Iterator[tuple[str, str, datetime]]:
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"{shown(table)} cannot be read as a table: {error}.") from None
    for number, row in enumerate(rows, 2):
        student, lesson, time = ((row.get(name) or "").strip() for name in COLUMNS)
        if not student or not lesson or "/" in student + lesson or ".." in (student, lesson):
            raise CourseError(f"{shown(table)}, line {number}: it needs {', '.join(COLUMNS)}, got {dict(row)}.")
        if why := fault_of_name(student):
            raise CourseError(f"{shown(table)}, line {number}: {why}.")
        try:
            yield student, lesson, parse_time(time)
        except ValueError:
            problem = f"timestamp must be a time such as 2026-01-31 23:59:59 UTC, got {time!r}"
            raise CourseError(f"{shown(table)}, line {number}: {problem}.") from None


def _files(folder: Path, lesson: str) -> dict[str, bytes]:
    """Return the files that were handed in; none if they can't be read."""
    try:
        return collect(folder, lesson).files
    except NotGraded:
        return {}


def _received(coursedir: Any, student: str, lesson: str) -> dict[str, datetime]:
    """Return the time each thing was received, by its digest; lines in any other form are ignored."""
    path = _file(coursedir, student, lesson)
    lines = path.read_text(encoding="ascii", errors="replace").splitlines() if path.is_file() else []
    found = map(LINE.fullmatch, lines)
    return {line["digest"]: parse_time(line["time"]) for line in found if line}


def _file(coursedir: Any, student: str, lesson: str) -> Path:
    """The file in nbgrader's own layout, beside the folders of its steps: received/STUDENT/LESSON/received.txt."""
    return Path(coursedir.format_path("received", student, lesson)) / "received.txt"
