"""The names a student can have in a gradebook."""

from nbgrader.api import Student

LONGEST: int = Student.__table__.c.id.type.length
"""PostgreSQL refuses a longer id, and everything entered at the same time; SQLite takes any length."""


def fault_of_name(student: str) -> str:
    """Return the reason why a folder's name can't be a student's, as a clause; empty if it can.

    Unpacked zip files can have names that aren't text. A line break in a name ends nbgrader's commands, for every
    student after that one.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in student):
        return "the name of the student's folder is not text in UTF-8"
    if "\n" in student:
        return "the name of the student's folder has a line break"
    if len(student) > LONGEST:
        return f"the name of the student's folder has {len(student)} letters, and a gradebook takes {LONGEST}"
    return ""
