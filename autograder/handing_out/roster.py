"""A class's list of students, as nbgrader takes it: a CSV file with a column `id`."""

import csv
import unicodedata
from pathlib import Path

from autograder.in_nbgrader.names import fault_of_name
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

COLUMNS = ("id", "student_id")


def read_roster(path: Path) -> list[str]:
    """Return the students' ids; a CourseError for a table without any, or for an id that can't name a folder."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            rows = [(table.line_num, row) for row in table]
            heads = table.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CourseError(f"{shown(path)} cannot be read as a table: {error}.") from None
    column = next((name for name in COLUMNS if name in heads), None)
    if column is None:
        named = printable(", ".join(heads))[:80] or "nothing"
        raise CourseError(f"{shown(path)} needs a first line with a column {' or '.join(COLUMNS)}, got {named}.")
    if not rows:
        raise CourseError(f"{shown(path)} names no student: it needs a line for each below its headings.")
    found: dict[str, tuple[int, str]] = {}
    for number, row in rows:
        student = (row[column] or "").strip()
        if why := _fault(student):
            raise CourseError(f"{shown(path)}, line {number}: {why}.")
        key = unicodedata.normalize("NFC", student).casefold()  # many disks ignore case
        if key in found:
            before, other = found[key]
            raise CourseError(
                f"{shown(path)}: lines {before} and {number} name one student, {printable(other)} and "
                f"{printable(student)}; each needs an id of their own."
            )
        found[key] = (number, student)
    return [student for _, student in found.values()]


def _fault(student: str) -> str:
    """Return the reason why this can't name a student's folder, as a clause; empty if it can."""
    if not student:
        return "the student's id is empty"
    if any(sign in student for sign in "/\\") or student.startswith("."):
        return f"{printable(student)[:60]!r} is a path or begins with a dot, and an id is the name of one folder"
    return fault_of_name(student)
