"""Schedule when a mistake is asked about again: `fsrs` decides, and the learner's progress file remembers.

A card stands for a slip, not for one program: the same mistake comes back in another exercise, or another dialect. Or
it stands for a prediction of a lesson, which comes back with other numbers.
"""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from attnlib.checks.standing.kept import keep_section, section

SECTION, VERSION = "practice", 1
NOT_INSTALLED = "fsrs is not installed, so nothing comes back when it is due. To change that: pip install fsrs"
AFRESH = "The practice history could not be read (it is damaged, or from another version), so it starts afresh."

SOLVED, WITH_HELP, GIVEN_UP = "Good", "Hard", "Again"


def slip_of(id: str) -> str:
    """Return the slip without its spelling's number: `no_scale_2` is the same mistake as `no_scale`.

    >>> slip_of("no_scale_2"), slip_of("no_scale")
    ('no_scale', 'no_scale')
    """
    return re.sub(r"_\d+$", "", id)


@dataclass
class Review:
    """The history of practice: a card for each slip or prediction, and how many bugs of each level were found alone."""

    cards: dict[str, dict[str, Any]] = field(default_factory=dict)
    solved: dict[int, int] = field(default_factory=dict)
    trouble: str = ""

    def due(self, now: datetime) -> list[str]:
        """Return the cards that are due, the one that has waited longest first."""
        return [card for when, card in self.schedule() if when <= now]

    def schedule(self) -> list[tuple[datetime, str]]:
        """Return the time when each card is due and the card's name, the earliest first."""
        return sorted((datetime.fromisoformat(card["due"]), name) for name, card in self.cards.items())

    def seed(self, card: str, now: datetime) -> str:
        """Return the seed for a question's numbers: new after each review or, before the first, each day."""
        last = self.cards.get(card, {}).get("last_review")
        return f"{card} {last or now.date()}"


def review(*, terminal: bool = False) -> Review:
    """Read the learner's history; it is empty, with a sentence in `trouble`, if it can't be read."""
    kept, trouble = section(SECTION, terminal=terminal)
    found = _read(kept)
    if found is None:
        return Review(trouble=AFRESH)
    found.trouble = trouble or ("" if _fsrs() else NOT_INSTALLED)
    return found


def remember(seen: Review, card: str, level: int | None, rating: str, now: datetime, *, terminal: bool = False) -> str:
    """Reschedule the card, in memory and in the file; return what is wrong with the file, or ""."""

    def after(kept: Any) -> dict[str, Any]:
        found = _read(kept) or Review()
        _rate(found, card, level, rating, now)
        return {"version": VERSION, "cards": dict(sorted(found.cards.items())), "solved": _as_keys(found.solved)}

    _rate(seen, card, level, rating, now)
    return keep_section(SECTION, after, terminal=terminal)


def _rate(seen: Review, name: str, level: int | None, rating: str, now: datetime) -> None:
    if rating == SOLVED and level is not None:
        seen.solved[level] = seen.solved.get(level, 0) + 1
    fsrs = _fsrs()
    if fsrs is None:
        return
    # a bug isn't vocabulary: nobody wants it again within the hour
    scheduler = fsrs.Scheduler(learning_steps=(), relearning_steps=(), enable_fuzzing=False)
    card = fsrs.Card.from_dict(seen.cards[name]) if name in seen.cards else fsrs.Card(card_id=0)
    seen.cards[name] = dict(scheduler.review_card(card, fsrs.Rating[rating], now)[0].to_dict())


def _as_keys(solved: Mapping[int, int]) -> dict[str, int]:
    return {str(level): count for level, count in sorted(solved.items())}


def _read(kept: Any) -> Review | None:
    """Parse a kept history; None if it is damaged or of another version."""
    if kept is None:
        return Review()
    try:
        if kept["version"] != VERSION:
            return None
        cards = {str(slip): dict(card) for slip, card in kept["cards"].items()}
        solved = {int(level): int(count) for level, count in kept["solved"].items()}
        found = Review(cards, solved)
        if any(when.tzinfo is not UTC and when.utcoffset() is None for when, _ in found.schedule()):
            return None
        if (fsrs := _fsrs()) is not None:
            for card in cards.values():
                fsrs.Card.from_dict(card)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return found


def _fsrs() -> ModuleType | None:
    try:
        return importlib.import_module("fsrs")
    except ModuleNotFoundError:
        return None
