"""Which bug comes next: a mistake that is due, or else a new one of the learner's level."""

import random
import re
from collections.abc import Sequence
from datetime import datetime

from attnlib.checks import course
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.review import Review, slip_of
from attnlib.checks.practising.table import Row, rows

ONLY = ("silent", "two")
ENOUGH = 3
"""So many bugs of a level found without help open the next one."""


class Refused(ValueError):
    """What was asked for or answered cannot be; IPython shows the sentence that says why, and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def candidates(passed: set[str], *, lesson: str | None, only: str | None, everything: bool) -> list[Row]:
    """The bugs of exercises that have passed, of one lesson or of all, silent ones alone or those of two at once.

    Raises Refused, which says why, if there is none, and for a lesson or a kind that isn't there.
    """
    if only is not None and only not in ONLY:
        raise Refused(f"only must be {' or '.join(map(repr, ONLY))}, got {only!r:.40}")
    known = course.exercises()
    lesson = None if lesson is None else _lesson(lesson)
    mine = [e for e in known.values() if lesson is None or e.lesson == lesson]
    opened = {e.name for e in mine if everything or e.name in passed}
    in_lesson = [row for row in rows() if row.exercise in {e.name for e in mine}]
    found = [row for row in in_lesson if row.exercise in opened and _is(row, only)]
    if found:
        return found
    where = f" of lesson {lesson}" if lesson else ""
    if lesson and not in_lesson:
        raise Refused(f"Lesson {lesson} has no bugs to find.")
    if not any(row.exercise in opened for row in in_lesson):
        first = next(e for e in mine if any(row.exercise == e.name for row in in_lesson))
        raise Refused(
            f"Practice asks about exercises that you have passed, and none{where} has passed its check yet. "
            f"Begin with {first.name} in lesson {first.lesson}, or ask for everything=True; --everything in a terminal."
        )
    what = "is silent" if only == "silent" else "has two wrong lines"
    raise Refused(f"No bug in the exercises{where} that you have passed {what}; leave out `only` for the others.")


def _lesson(name: str) -> str:
    """The lesson's whole name, of which its number is enough."""
    known = dict.fromkeys(exercise.lesson for exercise in course.exercises().values())
    numbered = [lesson for lesson in known if re.fullmatch(r"\d\d", str(name)) and lesson.startswith(f"{name}_")]
    try:
        return numbered[0] if numbered else course.lesson_called(name)
    except ValueError as error:
        raise Refused(str(error)) from None


def _is(row: Row, only: str | None) -> bool:
    if only == "two":
        return row.level == max(LEVELS)
    return row.silent or only is None


def choose(found: Sequence[Row], seen: Review, now: datetime, asked: Sequence[str] = ()) -> Row:
    """The next one: what is due first, then what is new, then what is due soonest. `asked` were asked just now."""
    by_slip: dict[str, list[Row]] = {}
    for row in found:
        by_slip.setdefault(slip_of(row.slip), []).append(row)
    chance = random.Random(f"{len(asked)} {sorted(seen.cards)} {asked}")
    just_now = {slip_of(key.split("/")[1]) for key in asked}
    for slip in seen.due(now):
        if slip in by_slip and slip not in just_now:
            return chance.choice(by_slip[slip])
    last = asked[-1].split("/")[0] if asked else ""
    new = [
        row for slip, several in by_slip.items() if slip not in seen.cards and slip not in just_now for row in several
    ]
    if new:
        return _of_level([row for row in new if row.exercise != last] or new, seen, chance)
    later = [slip for _, slip in seen.schedule() if slip in by_slip and slip not in just_now]
    return chance.choice(by_slip[later[0]]) if later else chance.choice(list(found))


def _of_level(new: Sequence[Row], seen: Review, chance: random.Random) -> Row:
    """One of the lowest level in which the learner has not found enough; larger repairs come before small ones."""
    levels = sorted({row.level for row in new})
    level = next((level for level in levels if seen.solved.get(level, 0) < ENOUGH), levels[-1])
    pool = sorted((row for row in new if row.level == level), key=lambda row: -row.size)
    found = seen.solved.get(level, 0)
    start = len(pool) * found // (found + 2 * ENOUGH)
    return chance.choice(pool[start : start + max(1, len(pool) // 3)])
