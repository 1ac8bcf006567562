"""The questions about a bug: its line, and the one of four explanations that is true; and the hints, which cost."""

import random
import textwrap
from collections.abc import Sequence

from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.practising.bug import Bug, bug_of
from attnlib.checks.practising.choose import Refused
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.review import slip_of
from attnlib.checks.practising.table import rows

LETTERS = "ABCD"
MOST_LOOKED_AT = 20
"""The most mistakes to look through for three made in other lines: each has to be made into a program."""


def line_named(code: str, where: int | str) -> int:
    r"""Return the number of the line named by its number or by a piece of its text.

    >>> line_named("a = 1\nb = 2", "b =")
    2

    Raises Refused with a sentence if there is no such line, or if there are several.
    """
    lines = code.split("\n")
    if isinstance(where, int) and not isinstance(where, bool):
        if 1 <= where <= len(lines) and lines[where - 1].strip():
            return where
        raise Refused(f"The code has the lines 1 to {len(lines)}, and line {where} is empty or not among them.")
    if not isinstance(where, str) or not where.strip():
        raise Refused(f"Name a line by its number or a piece of its text, got {where!r:.60}.")
    wanted = where.strip()
    found = [n for n, line in enumerate(lines, 1) if line.strip() == wanted]
    found = found or [n for n, line in enumerate(lines, 1) if wanted in line]
    if len(found) != 1:
        which = f"lines {', '.join(map(str, found))} have" if found else "no line has"
        raise Refused(f"Name one line: {which} {wanted!r:.60} in it.")
    return found[0]


def explanations(bug: Bug) -> dict[str, str]:
    """Return the bug's explanation and up to three others of its exercise, by letter; always the same for a bug.

    As far as possible, the others are of mistakes in lines that are right here, so that only one of the four is true,
    and of the bug's level: the symptom alone excludes none of them.
    """
    chance = random.Random(bug.key)
    others: list[str] = []
    for strict, slips in ((True, _of_its_level), (True, _served), (False, _served), (False, _known)):
        if len(others) == len(LETTERS) - 1:
            break
        for slip in chance.sample(found := slips(bug), min(MOST_LOOKED_AT, len(found))):
            rival = bug_of(bug.exercise, slip)
            if rival.title not in (bug.title, *others) and not (strict and _same_place(rival, bug)):
                others.append(rival.title)
            if len(others) == len(LETTERS) - 1:
                break
    titles = [bug.title, *others]
    chance.shuffle(titles)
    return dict(zip(LETTERS, titles, strict=False))


def _of_its_level(bug: Bug) -> list[str]:
    """Return those of `_served` that show as the bug does: an exception, a wrong shape, wrong values, and so on."""
    levels = {row.slip: row.level for row in rows() if row.exercise == bug.exercise and not row.dialect}
    level = next((row.level for row in rows() if row.exercise == bug.exercise and row.key == bug.key), None)
    return [slip for slip in _served(bug) if levels[slip] == level]


def _served(bug: Bug) -> list[str]:
    """Return the exercise's other slips in the table, for the plain answer; double ones for a double bug."""
    two = len(bug.changes) == 2
    mine = (row for row in rows() if row.exercise == bug.exercise and not row.dialect)
    return [row.slip for row in mine if slip_of(row.slip) != slip_of(bug.slip) and (row.level == max(LEVELS)) is two]


def _known(bug: Bug) -> list[str]:
    """Return all the exercise's other slips, in the table or not: some exercises have few in it."""
    declared, two = bug.declared, len(bug.changes) == 2
    told = [wrong.told for wrong in declared.wrongs] if isinstance(declared, WrittenExercise) else []
    return [t.id for t in told if slip_of(t.id) != slip_of(bug.slip) and bool(t.both) is two]


def _same_place(one: Bug, other: Bug) -> bool:
    here, there = ({line.strip() for line in bug.repair.split("\n")} - {""} for bug in (one, other))
    return bool(here & there) or not (here or there)  # two lines one too many may be explained alike


def hints(bug: Bug, options: dict[str, str]) -> list[str]:
    """Return the hints: a few lines of which one is wrong, then all but one of the wrong explanations."""
    lines, wrong = bug.code.split("\n"), bug.lines
    first = next(n for n, line in enumerate(lines, 1) if line.startswith(("def ", "class ", "@")))
    third = max(3, (len(lines) - first) // 3)
    start = max(first, wrong[0] - (wrong[0] - first) % third)
    last = max(n for n in range(start, min(len(lines), start + third - 1) + 1) if lines[n - 1].strip())
    start = min(n for n in range(start, last + 1) if lines[n - 1].strip())
    ends = [textwrap.shorten(lines[n - 1], 40, placeholder=" …") for n in (start, last)]
    told = [f"A wrong line is among lines {start} to {last}, from `{ends[0]}` to `{ends[1]}`."]
    chance = random.Random(f"{bug.key} hints")
    wrong_letters = [letter for letter, title in options.items() if title != bug.title]
    if len(wrong_letters) > 1:
        gone = sorted(chance.sample(wrong_letters, len(wrong_letters) - 1))
        told.append(f"These explanations are not true of it: {', '.join(gone)}.")
    return told


def judged_lines(bug: Bug, named: Sequence[int]) -> str:
    """Return "" if the named lines are wrong and cover every wrong place; else a sentence that says what is off."""
    right = [n for n in named if n in bug.lines]
    places = [change for change in bug.changes if any(line in named for line in change.lines)]
    if len(places) == len(bug.changes) and len(right) == len(named):
        return ""
    if right and len(right) == len(named):
        return f"Line {right[0]} is wrong, and it is not the only one: name both at once."
    wrong = [n for n in named if n not in bug.lines]
    text = textwrap.shorten(bug.code.split("\n")[wrong[0] - 1], 60, placeholder=" …")
    return f"Line {wrong[0]} does what it should: {text}"
