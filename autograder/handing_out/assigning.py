"""Assign bugs to each student: the same levels for all, but different bugs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlib.checks.course import find
from attnlib.checks.practising.choose import Refused, candidates
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.table import Row
from autograder.building.build_course import prepare, write_if_changed
from autograder.handing_out.dealing import deal, levels_for, with_letters
from autograder.handing_out.notebooks import generic_source, own_release, own_source, told
from autograder.in_nbgrader.course_files import course_seed, write_whole
from autograder.lesson_text.assignment import DEALT
from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.showing.errors import CourseError


@dataclass(frozen=True)
class Assigned:
    """The outcome: for whom it was made, who had theirs before, each bug's level, how many share the commonest bug."""

    assignment: str
    new: tuple[str, ...]
    before: tuple[str, ...]
    levels: tuple[int, ...]
    shared_by: int


def assign(layout: Layout, lesson: str, students: Sequence[str], count: int) -> Assigned:
    """Make the assignment of each student who has none yet; existing ones stay as they are.

    Raises CourseError for a lesson that isn't there or has too few bugs, and for another `count` than was dealt before.
    """
    pool = pool_of(lesson)
    assignment = f"practice_{find(next(iter(pool)).exercise).lesson[:2]}"
    dealt = bugs_of(layout, assignment)
    if not dealt and count > len(pool):
        raise CourseError(f"Lesson {lesson} has {len(pool)} bugs in a single line, and {count} were asked for.")
    levels = [bug["level"] for bug in next(iter(dealt.values()))] if dealt else levels_for(pool, len(students), count)
    if len(levels) != count:
        raise CourseError(f"{assignment} has {len(levels)} bugs for each student already, and {count} were asked for.")
    seed = f"{course_seed(layout.course)} {assignment}"
    before = [student for student in students if student in dealt]
    new = sorted({*students} - {*before})
    letters = [Counter(bugs[place]["letter"] for bugs in dealt.values()) for place in range(count)]
    for student, rows in deal(new, pool, levels, seed, [*dealt.values()]).items():
        dealt[student] = [
            with_letters(told(row), student, seed, given) for row, given in zip(rows, letters, strict=True)
        ]
        source = own_source(assignment, student, dealt[student])
        write_whole(layout.individual("release", student, assignment), to_text(own_release(assignment, source)))
        write_whole(layout.individual("source", student, assignment), to_text(source))  # last: it says "done"
    write_if_changed(layout.source(assignment), to_text(generic_source(assignment, count)).encode())
    prepare(layout, (assignment,))
    shared_by = Counter(bug["id"] for bugs in dealt.values() for bug in bugs).most_common(1)[0][1]
    return Assigned(assignment, tuple(new), tuple(before), tuple(levels), shared_by)


def pool_of(lesson: str) -> dict[Row, int]:
    """The bugs of a lesson with exactly one wrong line, each with the number of that line."""
    try:
        every = candidates(set(), lesson=lesson, only=None, everything=True)
    except Refused as error:
        raise CourseError(str(error)) from None
    single = ((row, row.bug.lines) for row in every if row.level != max(LEVELS))
    pool = {row: lines[0] for row, lines in single if len(lines) == 1}
    if not pool:
        raise CourseError(f"Lesson {lesson} has no bug in a single line.")
    return pool


def bugs_of(layout: Layout, assignment: str) -> dict[str, list[dict[str, Any]]]:
    """The bugs dealt to each student."""
    paths = sorted((layout.course / "individual" / "source").glob(f"*/{assignment}/{assignment}.ipynb"))
    return {path.parent.parent.name: _bugs(path) for path in paths}


def _bugs(path: Path) -> list[dict[str, Any]]:
    bugs = read_notebook(path).metadata.get(DEALT)
    if not bugs:
        raise CourseError(f"{shown(path)} holds no bugs: it was made by another program, so move it away.")
    return [dict(bug) for bug in bugs]
