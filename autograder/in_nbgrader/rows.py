"""Rows of nbgrader's gradebook, read and written for many submissions at once.

nbgrader's own methods commit after each step and load again what the commit has expired. These use its tables, commit
nothing, and leave the same rows.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.api import new_uuid as new_id
from sqlalchemy import bindparam, insert, select, update

STUDENTS, ASSIGNMENTS, NOTEBOOKS, CELLS = (one.__table__ for one in (Student, Assignment, Notebook, BaseCell))
SUBMITTED, SHEETS, GRADES, COMMENTS = (
    one.__table__ for one in (SubmittedAssignment, SubmittedNotebook, Grade, Comment)
)


@dataclass(frozen=True)
class Mark:
    """A row of the table `grade`: a test's points, by the grader and by hand."""

    id: str
    auto: float | None
    manual: float | None
    extra: float | None
    waits: bool
    """True if a person has to look at it."""

    @property
    def score(self) -> float:
        """The score that counts, as nbgrader computes it in its database."""
        counts = self.auto if self.manual is None else self.manual
        return 0.0 if counts is None else counts + (self.extra or 0.0)


@dataclass(frozen=True)
class Sheet:
    """A submission's row, its notebook's, and those of the notebook's tests and answers by their grade ids."""

    submission: str
    notebook: str
    told: datetime | None
    late: float
    """Seconds after the deadline, an extension included."""
    penalty: float | None
    marks: dict[str, Mark] = field(default_factory=dict)
    comments: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    @property
    def score(self) -> float:
        """The points of all its tests, before any penalty."""
        return sum(mark.score for mark in self.marks.values())


def read(book: Gradebook, lesson: str, students: Collection[str]) -> dict[str, Sheet]:
    """The sheets of the students who have handed in this lesson."""
    found: dict[str, Sheet] = {}
    by_notebook: dict[str, Sheet] = {}
    columns = (SUBMITTED.c.student_id, SUBMITTED.c.id, SHEETS.c.id, SUBMITTED.c.timestamp, SUBMITTED.c.extension)
    query = (
        select(*columns, ASSIGNMENTS.c.duedate, SHEETS.c.late_submission_penalty)
        .join_from(SUBMITTED, ASSIGNMENTS, ASSIGNMENTS.c.id == SUBMITTED.c.assignment_id)
        .join(SHEETS, SHEETS.c.assignment_id == SUBMITTED.c.id)
        .join(NOTEBOOKS, NOTEBOOKS.c.id == SHEETS.c.notebook_id)
        .where(ASSIGNMENTS.c.name == lesson, NOTEBOOKS.c.name == lesson, SUBMITTED.c.student_id.in_(students))
    )
    for student, submission, notebook, told, extension, due, penalty in book.db.execute(query):
        late = 0.0
        if told is not None and due is not None:
            late = max(0.0, (told - (due if extension is None else due + extension)).total_seconds())
        found[student] = by_notebook[notebook] = Sheet(submission, notebook, told, late, penalty)
    for row in _of_cells(book, GRADES, by_notebook):
        by_notebook[row.notebook_id].marks[row.name] = Mark(
            row.id, row.auto_score, row.manual_score, row.extra_credit, row.needs_manual_grade
        )
    for row in _of_cells(book, COMMENTS, by_notebook):
        by_notebook[row.notebook_id].comments[row.name] = (row.id, row.auto_comment)
    return found


def _of_cells(book: Gradebook, table: Any, notebooks: Iterable[str]) -> Any:
    """The rows of these notebooks in a table of cells, each with its cell's grade id as its name."""
    query = select(table, CELLS.c.name).join_from(table, CELLS, CELLS.c.id == table.c.cell_id)
    return book.db.execute(query.where(table.c.notebook_id.in_(list(notebooks)))).all()


def hand_in(book: Gradebook, lesson: str, told: Mapping[str, datetime | None]) -> None:
    """Make rows for submissions that have none, and set the time at which each was handed in."""
    lesson_id = book.db.scalar(select(ASSIGNMENTS.c.id).where(ASSIGNMENTS.c.name == lesson))
    if lesson_id is None:
        raise MissingEntry(f"No such assignment: {lesson}")
    known = set(book.db.scalars(select(STUDENTS.c.id).where(STUDENTS.c.id.in_(list(told)))))
    _insert(book, STUDENTS, [{"id": student} for student in told if student not in known])
    query = select(SUBMITTED.c.student_id, SUBMITTED.c.id, SUBMITTED.c.timestamp)
    mine = SUBMITTED.c.assignment_id == lesson_id, SUBMITTED.c.student_id.in_(list(told))
    before = {student: (id_, time) for student, id_, time in book.db.execute(query.where(*mine))}
    moved = [{"key": id_, "timestamp": told[who]} for who, (id_, time) in before.items() if time != told[who]]
    _update(book, SUBMITTED, moved)
    new = {student: new_id() for student in told if student not in before}
    _insert(
        book,
        SUBMITTED,
        [{"id": id_, "assignment_id": lesson_id, "student_id": s, "timestamp": told[s]} for s, id_ in new.items()],
    )
    for notebook in book.db.scalars(select(NOTEBOOKS.c.id).where(NOTEBOOKS.c.assignment_id == lesson_id)).all():
        sheets = [{"id": new_id(), "notebook_id": notebook, "assignment_id": id_} for id_ in new.values()]
        cells = book.db.execute(select(CELLS.c.id, CELLS.c.type).where(CELLS.c.notebook_id == notebook)).all()
        _insert(book, SHEETS, sheets)
        for table, kinds in ((GRADES, ("GradeCell", "TaskCell")), (COMMENTS, ("SolutionCell", "TaskCell"))):
            cells_of_kind = [cell for cell, kind in cells if kind in kinds]
            _insert(
                book, table, [{"cell_id": c, "notebook_id": sheet["id"]} for sheet in sheets for c in cells_of_kind]
            )


def save(book: Gradebook, changes: Iterable[tuple[Sheet, Sheet]]) -> None:
    """Write the differences between each sheet as it was read and as it should be."""
    marks: list[dict[str, Any]] = []
    comments: list[dict[str, Any]] = []
    penalties: list[dict[str, Any]] = []
    for was, now in changes:
        marks += [
            {"key": mark.id, "auto_score": mark.auto, "needs_manual_grade": mark.waits}
            for name, mark in now.marks.items()
            if mark != was.marks[name]
        ]
        changed = [one for name, one in now.comments.items() if one != was.comments[name]]
        comments += [{"key": id_, "auto_comment": text} for id_, text in changed]
        if now.penalty != was.penalty:
            penalties.append({"key": now.notebook, "late_submission_penalty": now.penalty})
    for table, rows in ((GRADES, marks), (COMMENTS, comments), (SHEETS, penalties)):
        _update(book, table, rows)


def _insert(book: Gradebook, table: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        book.db.execute(insert(table), rows)


def _update(book: Gradebook, table: Any, rows: list[dict[str, Any]]) -> None:
    if rows:
        values: Any = {name: bindparam(name) for name in rows[0] if name != "key"}
        book.db.execute(update(table).where(table.c.id == bindparam("key")).values(**values), rows)
