"""Choose what to ask next: something due, or else, in turn, a lesson's question and a bug of the learner's level."""

import random
import re
from collections.abc import Sequence
from datetime import datetime

from attnlib.checks import course
from attnlib.checks.course.asked_again import AskedAgain, asked_again
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.review import NOT_INSTALLED, Review
from attnlib.checks.practising.table import Row, rows

QUESTIONS = "questions"
ONLY = ("silent", "two", QUESTIONS)
ENOUGH = 3
"""The number of a level's bugs that have to be found without help to reach the next level."""


Item = Row | AskedAgain


class Refused(ValueError):
    """Raised for an impossible request or answer; IPython shows the sentence that says why, and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def wanted(passed: set[str], *, lesson: str | None, only: str | None, everything: bool) -> list[Item]:
    """Return the bugs and questions on what has passed, in one lesson or in all; of one kind if `only` names it.

    Raises Refused, which says why, if there are none, or if the lesson or the kind does not exist.
    """
    if only is not None and only not in ONLY:
        raise Refused(f"only must be {', '.join(map(repr, ONLY[:-1]))} or {ONLY[-1]!r}, got {only!r:.40}")
    found = questions(passed, lesson=lesson, everything=everything) if only in (None, QUESTIONS) else []
    if only == QUESTIONS and not found:
        raise Refused(_no_question(lesson))
    if only == QUESTIONS:
        return [*found]
    try:
        return [*candidates(passed, lesson=lesson, only=only, everything=everything), *found]
    except Refused:
        if not found:
            raise
        return [*found]


def questions(passed: set[str], *, lesson: str | None, everything: bool) -> list[AskedAgain]:
    """Return the predictions that were right (with `everything`, all of them), in course order."""
    lesson = None if lesson is None else _lesson(lesson)
    opened = (one for one in asked_again().values() if everything or one.prediction in passed)
    return [one for one in opened if lesson is None or one.declared.lesson == lesson]


def _no_question(lesson: str | None) -> str:
    where = f" of lesson {_lesson(lesson)}" if lesson else ""
    if lesson and not questions(set(), lesson=lesson, everything=True):
        return f"Lesson {_lesson(lesson)} has no predictions to ask again."
    return (
        f"Practice asks the predictions again that were right, and none{where} has been yet; or ask for "
        "everything=True; --everything in a terminal."
    )


def candidates(passed: set[str], *, lesson: str | None, only: str | None, everything: bool) -> list[Row]:
    """Return the bugs of exercises that have passed, in one lesson or in all; only silent ones, or only double ones.

    Raises Refused, which says why, if there are none, or if the lesson does not exist.
    """
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
            f"Begin with {first.name} in lesson {first.lesson}, or pass everything=True (in a terminal, --everything)."
        )
    what = "is silent" if only == "silent" else "has two wrong lines"
    raise Refused(f"None of the bugs in the exercises{where} that you have passed {what}. Leave out `only` for others.")


def _lesson(name: str) -> str:
    """Return the whole name of a lesson, which may be named by its number alone."""
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


def is_new(item: Item, seen: Review) -> bool:
    """True for a question that practice has never asked, which is due at once; False for all without `fsrs`."""
    return isinstance(item, AskedAgain) and item.card not in seen.cards and seen.trouble != NOT_INSTALLED


def choose(found: Sequence[Item], seen: Review, now: datetime, asked: Sequence[Item] = ()) -> Item:
    """Choose the next one: anything due, or else anything new, or else what is due soonest, except `asked` just now.

    New questions and new bugs take turns.
    """
    by_card: dict[str, list[Item]] = {}
    for item in found:
        by_card.setdefault(item.card, []).append(item)
    chance = random.Random(f"{len(asked)} {sorted(seen.cards)} {[item.key for item in asked]}")
    just_now = {item.card for item in asked}
    for card in seen.due(now):
        if card in by_card and card not in just_now:
            return chance.choice(by_card[card])
    new = [item for card, several in by_card.items() if card not in {*seen.cards} | just_now for item in several]
    bugs = [item for item in new if isinstance(item, Row)]
    to_ask = [item for item in new if isinstance(item, AskedAgain)]
    met = sum(isinstance(several[0], AskedAgain) for card, several in by_card.items() if card in seen.cards)
    is_its_turn = isinstance(asked[-1], Row) if asked else 2 * met < len(seen.cards)
    if to_ask and (is_its_turn or not bugs):
        return to_ask[0]
    if bugs:
        last = next((item.exercise for item in asked[-1:] if isinstance(item, Row)), "")
        return _of_level([row for row in bugs if row.exercise != last] or bugs, seen, chance)
    later = [card for _, card in seen.schedule() if card in by_card and card not in just_now]
    return chance.choice(by_card[later[0]]) if later else chance.choice(list(found))


def _of_level(new: Sequence[Row], seen: Review, chance: random.Random) -> Row:
    """Choose a bug of the lowest level in which the learner has found too few; large repairs come before small ones."""
    levels = sorted({row.level for row in new})
    level = next((level for level in levels if seen.solved.get(level, 0) < ENOUGH), levels[-1])
    pool = sorted((row for row in new if row.level == level), key=lambda row: -row.size)
    found = seen.solved.get(level, 0)
    start = len(pool) * found // (found + 2 * ENOUGH)
    return chance.choice(pool[start : start + max(1, len(pool) // 3)])
