"""Which names a student can have in a gradebook."""

from nbgrader.api import Student

LONGEST: int = Student.__table__.c.id.type.length
"""PostgreSQL refuses a longer one, and with it whatever else is entered at the same time; SQLite takes any."""


def fault_of_name(student: str) -> str:
    """Why a folder's name can be no student's, as a clause; empty if it can.

    After unpacking a zip file, some names are bytes alone. At a line break in a name, nbgrader's commands end, whoever
    comes next.
    """
    if any("\ud800" <= letter <= "\udfff" for letter in student):
        return "the name of the student's folder is not text in UTF-8"
    if "\n" in student:
        return "the name of the student's folder has a line break"
    if len(student) > LONGEST:
        return f"the name of the student's folder has {len(student)} letters, and a gradebook takes {LONGEST}"
    return ""
