"""`nbgrader export --exporter=...`: the tables that Canvas and Moodle import: a row a student, a column a lesson.

What was not graded stays empty: both leave the grade of an empty cell as it is. Why it was not stands in the status of
`CsvWithStatus`'s table.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from nbgrader.api import Gradebook

from autograder.in_nbgrader.export_grades import CsvWithStatus
from autograder.showing.spreadsheet import write_rows


class _OneRowAStudent(CsvWithStatus):
    file: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    above: ClassVar[tuple[str, ...]] = ()
    """The beginning of the row that holds the points of each lesson, if there is one."""

    def who(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that identify the student."""
        raise NotImplementedError

    def export(self, gradebook: Gradebook) -> None:
        students: dict[str, dict[str, Any]] = {}
        possible: dict[str, float] = {}
        for row in self.rows(gradebook):
            possible[row["assignment"]] = row["max_score"]
            grades = students.setdefault(row["student_id"], self.who(row))
            grades[row["assignment"]] = row.get("score")
        above = [{self.columns[0]: text, **possible} for text in self.above]
        ordered = [students[name] for name in sorted(students)]
        write_rows(Path(self.to or self.file), [*self.columns, *possible], [*above, *ordered])


class Canvas(_OneRowAStudent):
    """Canvas, "Grades / Import": students are found by their SIS login, which has to be nbgrader's student id."""

    file = "canvas.csv"
    columns = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
    above = ("Points Possible",)

    def who(self, row: Mapping[str, Any]) -> dict[str, Any]:
        name = ", ".join(filter(None, (row["last_name"], row["first_name"])))
        return {"Student": name or row["student_id"], "SIS Login ID": row["student_id"]}


class Moodle(_OneRowAStudent):
    """Moodle, "Grades / Import / CSV file": map "ID number" to useridnumber, or "Email address" to useremail."""

    file = "moodle.csv"
    columns = ("First name", "Last name", "ID number", "Email address")

    def who(self, row: Mapping[str, Any]) -> dict[str, Any]:
        values = (row["first_name"], row["last_name"], row["student_id"], row["email"])
        return dict(zip(self.columns, values, strict=True))
