"""Deal the bugs: equally many of each level for everybody, and no bug twice before all have been dealt."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnlib.checks.practising.review import slip_of
from attnlib.checks.practising.table import Row

Bug = Mapping[str, Any]
"""A bug's record, as a student's source notebook keeps it."""


def levels_for(pool: Iterable[Row], students: int, count: int) -> list[int]:
    """The level of each bug of an assignment, the same for everybody, spread over all levels that have enough bugs.

    A level comes as often as it has another bug for each student; each place that is left over is of the level with
    the most bugs left for a student, so that nobody gets one twice. The pool has `count` bugs at least.
    """
    counts = Counter(row.level for row in pool)
    turns = sorted((turn, level) for level, bugs in counts.items() for turn in range(bugs // students))
    levels = [level for _, level in turns[:count]]
    while len(levels) < count:
        [(commonest, _)] = (counts - Counter(levels)).most_common(1)
        levels.append(commonest)
    return sorted(levels)


def deal(
    students: Iterable[str], pool: Mapping[Row, int], levels: Sequence[int], seed: str, dealt: Iterable[Sequence[Bug]]
) -> dict[str, list[Row]]:
    """Deal each student's bugs from a pool with the wrong line of each; the same seed and `dealt` give the same bugs.

    The least dealt comes first: of bugs, then of answers at this place of the assignment, then of mistakes; then an
    exercise that the student has not got yet.
    """
    assignments = [[(bug["id"], bug["lines"][0]) for bug in bugs] for bugs in dealt]
    given = Counter(key for bugs in assignments for key, _ in bugs)
    mistakes = Counter(_mistake(key) for bugs in assignments for key, _ in bugs)
    answers = Counter((place, line) for bugs in assignments for place, (_, line) in enumerate(bugs))
    found: dict[str, list[Row]] = {}
    for student in students:
        chance = random.Random(f"{seed} {student}")
        mine: list[Row] = []
        for place, level in enumerate(levels):
            had = {row.exercise for row in mine}
            order = {
                row: (
                    row in mine,
                    given[row.key],
                    answers[place, line],
                    mistakes[_mistake(row.key)],
                    row.exercise in had,
                    chance.random(),
                )
                for row, line in pool.items()
                if row.level == level
            }
            mine.append(row := min(order, key=order.__getitem__))
            given[row.key] += 1
            answers[place, pool[row]] += 1
            mistakes[_mistake(row.key)] += 1
        found[student] = mine
    return found


def _mistake(key: str) -> str:
    """Return the key that spellings and dialects of one mistake in one exercise have in common."""
    exercise, slip, *_ = key.split("/")
    return f"{exercise}/{slip_of(slip)}"


def with_letters(found: Bug, student: str, seed: str, given: Counter[str]) -> dict[str, Any]:
    """Shuffle the explanations of a record under letters, so that the right letter is one that few students have."""
    letters, title = list(found["options"]), found["options"][found["letter"]]
    chance = random.Random(f"{seed} {student} {found['id']}")
    others = sorted({*found["options"].values()} - {title})
    chance.shuffle(others)
    letter = min(chance.sample(letters, len(letters)), key=given.__getitem__)
    given[letter] += 1
    rest = iter(others)
    options = {each: title if each == letter else next(rest) for each in letters}
    return {**found, "options": options, "letter": letter}
