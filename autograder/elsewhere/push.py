"""Take a class's grades to a learning platform: read what is there, show what would change, send only that.

Nothing is sent twice, however a run ends: each run first reads the platform's own grades, and what is there already
needs no sending. A grade that somebody changed there stays, unless it is to be overwritten.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from nbgrader.api import MissingEntry

from autograder.elsewhere.web import NoAccess, Refused
from autograder.in_nbgrader.course_files import write_whole
from autograder.in_nbgrader.export_grades import row_of
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.status import submitted_students
from autograder.lesson_text.layout import Layout, shown
from autograder.showing.errors import CourseError


@dataclass(frozen=True)
class Account:
    """A student as the platform knows them, and their score there."""

    id: str
    score: float | None


def by_id(accounts: Sequence[Account], ids: Sequence[tuple[Any, ...]]) -> dict[str, Account]:
    """Each account by its ids, given with the one that counts most first.

    Of two with the same id it is that of the one who has it in an earlier place; in the same place, of neither.

    >>> ann, eve = Account("1", None), Account("2", None)
    >>> {id: one.id for id, one in by_id([ann, eve], [("a7", "ann"), ("e7", "a7")]).items()}
    {'a7': '1', 'e7': '2', 'ann': '1'}
    """
    found: dict[str, Account] = {}
    seen = {""}
    for place in zip(*ids, strict=True):
        said = [str(id or "") for id in place]
        counts = Counter(said)
        found |= {id: one for id, one in zip(said, accounts, strict=True) if counts[id] == 1 and id not in seen}
        seen |= counts.keys()
    return found


@dataclass(frozen=True)
class Remote:
    """An assignment on the platform: its id, its points, and the accounts by nbgrader's student ids."""

    id: str
    possible: float
    accounts: Mapping[str, Account]


class Platform(Protocol):
    """A course on a platform. Both methods raise Refused or NoAccess, and `remote` a CourseError if nothing matches."""

    name: str

    def remote(self, wanted: str) -> Remote:
        """The assignment of this name or id."""

    def send(self, remote: Remote, account: Account, score: float) -> None:
        """Set one student's score."""


@dataclass(frozen=True)
class Grade:
    """A student's score in the gradebook; None, with the reason, if there is none."""

    score: float | None
    status: str


@dataclass(frozen=True)
class Row:
    """The effect of a push on one student."""

    student: str
    here: float | None
    there: float | None
    do: Literal["send", "nothing", "keep", "missing"]
    why: str


def grades_of(layout: Layout, lesson: str, *, lateness: bool = True) -> tuple[float, dict[str, Grade]]:
    """Return the points of a lesson, and each student's grade, with the penalty for lateness or without."""
    course = NbgraderCourse(layout.course)
    with course.gradebook() as gradebook:
        try:
            assignment = gradebook.find_assignment(lesson)
        except MissingEntry:
            raise CourseError(f"{lesson} is not in the gradebook: grade it first.") from None
        students = sorted({one.id for one in gradebook.students} | submitted_students(course.directory, lesson))
        rows = [row_of(gradebook, course.directory, assignment, student, None) for student in students]
        key = "score" if lateness else "raw_score"
        return float(assignment.max_score), {r["student_id"]: Grade(r.get(key), r["status"]) for r in rows}


def graded_lessons(layout: Layout) -> list[str]:
    """The lessons with at least one submission."""
    with NbgraderCourse(layout.course).gradebook() as gradebook:
        return [one.name for one in gradebook.assignments if one.num_submissions]


def plan(grades: Mapping[str, Grade], remote: Remote, sent: Mapping[str, float], *, overwrite: bool) -> list[Row]:
    """Decide what to do for each student; `sent` holds the scores that earlier runs have sent there."""
    rows = []
    for student, grade in grades.items():
        account, here = remote.accounts.get(student), grade.score
        there = account.score if account is not None else None
        if here is None:
            rows.append(Row(student, here, there, "nothing", grade.status))
        elif account is None:
            rows.append(Row(student, here, there, "missing", "nobody there has this id"))
        elif same(here, there):
            rows.append(Row(student, here, there, "nothing", "is there already"))
        elif there is not None and not same(there, sent.get(student)) and not overwrite:
            rows.append(Row(student, here, there, "keep", "was changed there; --overwrite replaces it"))
        else:
            rows.append(Row(student, here, there, "send", "new" if there is None else "changed here"))
    return rows


def same(one: float | None, other: float | None) -> bool:
    """True if two scores are equal to the cent, as a platform keeps them."""
    return one is not None and other is not None and round(one, 2) == round(other, 2)


class Sent:
    """The scores sent to a platform, kept in the course's folder."""

    def __init__(self, layout: Layout, platform: str) -> None:
        self.path = layout.course / "pushed" / f"{platform}.json"
        try:
            self.scores: dict[str, dict[str, float]] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.scores = {}
        except ValueError:
            raise CourseError(
                f"{shown(self.path)} is not what was written there: remove it, and see --dry-run."
            ) from None

    def of(self, lesson: str) -> Mapping[str, float]:
        """The scores of a lesson by student."""
        return self.scores.get(lesson, {})

    def note(self, lesson: str, student: str, score: float) -> None:
        """Record that a score was sent."""
        if self.of(lesson).get(student) != score:
            self.scores.setdefault(lesson, {})[student] = score
            write_whole(self.path, json.dumps(self.scores, indent=1), mode=0o600)


def look(
    platform: Platform, layout: Layout, lesson: str, wanted: str, *, overwrite: bool, lateness: bool
) -> tuple[Remote, list[Row]]:
    """Return what a push of one lesson would change; a CourseError if the platform gives the lesson other points."""
    possible, grades = grades_of(layout, lesson, lateness=lateness)
    try:
        remote = platform.remote(wanted)
    except Refused as error:
        raise CourseError(f"{lesson} cannot be looked up on {platform.name}: {error}. Nothing was sent.") from None
    if not same(remote.possible, possible):
        raise CourseError(
            f"{lesson} has {possible:g} points, and {remote.possible:g} on {platform.name}: "
            f"set them to {possible:g} there."
        )
    return remote, plan(grades, remote, Sent(layout, platform.name).of(lesson), overwrite=overwrite)


def send(platform: Platform, layout: Layout, lesson: str, remote: Remote, rows: list[Row]) -> dict[str, str]:
    """Send what is to be sent, one student after the other; return the reasons for failures, by student.

    Raises NoAccess as soon as the token is refused: those before are there, and the next run goes on.
    """
    sent, failed = Sent(layout, platform.name), dict[str, str]()
    for row in rows:
        if row.here is None or row.do in ("keep", "missing"):
            continue
        if row.do == "send":
            try:
                platform.send(remote, remote.accounts[row.student], row.here)
            except NoAccess:
                raise
            except Refused as error:
                failed[row.student] = str(error)
                continue
        sent.note(lesson, row.student, row.here)
    return failed
