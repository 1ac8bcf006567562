"""When a submission was handed in: by the system that received it, if that is known, else by its own timestamp.txt."""

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from autograder.judging.intake.timestamp import parse_time, told_time, weighed
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError

COLUMNS = ("student_id", "assignment", "timestamp")


def time_of(coursedir: Any, student: str, lesson: str, changed: datetime | None = None) -> tuple[datetime | None, str]:
    """The time that counts, in UTC and without a zone, or None; and in a clause what is doubtful about it.

    `changed` is when the notebook was last changed.
    """
    folder = Path(coursedir.format_path(coursedir.submitted_directory, student, lesson))
    return weighed(*told_time(folder, changed), _received(coursedir, student, lesson))


def record_received(coursedir: Any, student: str, lesson: str, time: datetime) -> None:
    """Keep the time at which a submission was received, where no student writes."""
    path = _file(coursedir, student, lesson)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{time.isoformat(' ')} UTC\n", encoding="ascii")


def record_all_received(coursedir: Any, table: Path) -> None:
    """Keep the times in a CSV file with the columns student_id, assignment and timestamp, from a learning platform."""
    for student, lesson, time in list(_rows(table)):  # all of them, or none
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
        try:
            yield student, lesson, parse_time(time)
        except ValueError:
            problem = f"timestamp must be a time such as 2026-01-31 23:59:59 UTC, got {time!r}"
            raise CourseError(f"{shown(table)}, line {number}: {problem}.") from None


def _received(coursedir: Any, student: str, lesson: str) -> datetime | None:
    path = _file(coursedir, student, lesson)
    return parse_time(path.read_text(encoding="ascii").strip()) if path.is_file() else None


def _file(coursedir: Any, student: str, lesson: str) -> Path:
    """In nbgrader's own layout, beside the folders of its steps: received/STUDENT/LESSON/received.txt."""
    return Path(coursedir.format_path("received", student, lesson)) / "received.txt"
