"""`practice()`: open a bug or a question, judge the answer, and schedule it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from attnlib.checks.check import run
from attnlib.checks.course import called
from attnlib.checks.course.asked_again import AskedAgain
from attnlib.checks.practising.choose import Item, Refused, choose, is_new, wanted
from attnlib.checks.practising.opened import Opened, OpenedBug, OpenedQuestion
from attnlib.checks.practising.quiz import judged_lines, line_named
from attnlib.checks.practising.repairs import is_unchanged, still_wrong
from attnlib.checks.practising.review import GIVEN_UP, SOLVED, WITH_HELP, Review, remember, review
from attnlib.checks.practising.shown import Shown
from attnlib.checks.practising.table import Row
from attnlib.checks.standing.kept import best_scores
from attnlib.checks.verdict.report import Section

MOST_COSTS = 3
"""The number of hints and wrong answers with which a mistake counts as not known."""
SHOW = ("line", "because", "repaired", "answer", "hint", "give_up", "next")


@dataclass
class Round:
    """A request for practice, its limits, and the results so far."""

    found: list[Item]
    seen: Review
    ends: float | None = None
    minutes: float = 0
    most: int | None = None
    """The largest number of bugs and questions to ask."""
    asked: list[Item] = field(default_factory=list)
    solved: int = 0
    given_up: int = 0

    @property
    def is_over(self) -> bool:
        """True if its minutes have passed, or if the largest number has been asked."""
        late = self.ends is not None and time.monotonic() >= self.ends
        return late or (self.most is not None and len(self.asked) >= self.most)


class Practice:
    """Bugs to find, in what has passed so far, and questions about it.

    >>> practice("02_scaled_dot_product_attention", everything=True, only="silent").headline  # doctest: +ELLIPSIS
    'Find the bug in ... (level 2: a wrong shape or dtype)'
    """

    def __init__(self, *, terminal: bool = False) -> None:
        self.terminal = terminal
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.opened: Opened | None = None
        self.round: Round | None = None

    def __repr__(self) -> str:
        return "practice() opens a bug; answer it with " + ", ".join(f"practice.{name}" for name in SHOW[:3]) + "."

    def __call__(
        self,
        lesson: str | None = None,
        *,
        only: str | None = None,
        minutes: float | None = None,
        everything: bool = False,
    ) -> Shown:
        """Open a bug or a question: what is due again, or else a new one; bugs have the level that you have reached.

        It comes from the exercises that you have passed, of one `lesson` if it is named; with `everything`, from all.
        `only="silent"` leaves out exceptions, `only="two"` has two wrong lines, `only="questions"` asks the lessons'
        predictions again, with other numbers. Once the `minutes` are over, `practice.next()` says how it went. In a
        notebook, the code is put into the next cell.

        Raises Refused, a ValueError with a sentence, for a lesson that doesn't exist, for impossible values of `only`
        and `minutes`, and if nothing has passed.
        """
        if minutes is not None and (
            isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0
        ):
            raise Refused(f"minutes must be a number above 0, got {minutes!r:.40}")
        passed, seen, trouble = self._learner()
        try:
            found = wanted(passed, lesson=lesson, only=only, everything=everything)
        except Refused as error:
            raise Refused(f"{error} {trouble}".strip()) from None
        ends = None if minutes is None else time.monotonic() + 60 * minutes
        self.round = Round(found, seen, ends, minutes or 0)
        return self._open(self.round, [seen.trouble] if seen.trouble else [])

    def due(self, most: int = 3) -> Shown:
        """Say what is due again, and open nothing: `practice.next()` asks about `most` of it, then ends."""
        passed, seen, _ = self._learner()
        try:
            found = wanted(passed, lesson=None, only=None, everything=False)
        except Refused:
            found = []
        by_card = {item.card: item for item in found}
        cards = [card for card in seen.due(self.now()) if card in by_card]
        cards = [*cards, *(card for card, item in by_card.items() if is_new(item, seen))][:most]
        sections = tuple(Section("", note) for note in (seen.trouble,) if note)
        if not cards:
            self.round = None
            return Shown("Nothing is due. practice() asks about bugs in what you have passed.", sections)
        self.round = Round([item for item in found if item.card in cards], seen, most=len(cards))
        questions = sum(isinstance(by_card[card], AskedAgain) for card in cards)
        told = [_many(len(cards) - questions, "mistake you have met before"), _many(questions, "question from lessons")]
        verb = "are" if len(cards) > 1 else "is"
        opens = "the first" if questions else "a bug"
        headline = f"{' and '.join(filter(None, told))} {verb} due again"
        return Shown(headline, (*sections, Section("", f"`practice.next()` opens {opens}.")))

    def _learner(self) -> tuple[set[str], Review, str]:
        """Return the exercises that have passed, the history of practice, and what is wrong with the file, or ""."""
        best, trouble = best_scores(terminal=self.terminal)
        seen = review(terminal=self.terminal)
        seen.trouble = trouble or seen.trouble
        return {name for name, score in best.items() if score == 1}, seen, trouble

    def next(self, *asked: Any, **named: Any) -> Shown:
        """Open the next one of the same kind, or say how it went if that was all, or the minutes are over.

        Raises Refused if anything is asked for: that is what `practice()` takes.
        """
        if given := ", ".join([*map(repr, asked), *(f"{name}={value!r}" for name, value in named.items())]):
            raise Refused(f"next() takes nothing, as it goes on with the same kind, got {given:.60}: use practice().")
        if self.round is None:
            return self()
        if self.round.is_over:
            return self._ended(self.round)
        return self._open(self.round, [])

    def line(self, *where: int | str) -> Shown:
        """Answer by naming the wrong line, by its number or a piece of its text; both lines if two are wrong."""
        opened = self._open_bug()
        if not where:
            raise TypeError('line() needs the number of a line, as in line(7), or a piece of it, as in line("softmax")')
        named = [line_named(opened.bug.code, one) for one in where]
        told = judged_lines(opened.bug, named)
        if told:
            return self._not_yet(opened, Section("", told))
        return self._found(opened, f"Right: line{'s' * (len(named) > 1)} {' and '.join(map(str, named))}")

    def because(self, letter: str) -> Shown:
        """Answer by choosing the explanation that is true."""
        return self._chosen(self._open_bug(), letter, "an explanation")

    def answer(self, letter: str) -> Shown:
        """Answer a question by the letter of the right option."""
        opened = self._now_open()
        if isinstance(opened, OpenedBug):
            raise Refused("A bug is open: name its line, `practice.line(7)`, or what is true, `practice.because('A')`.")
        return self._chosen(opened, letter, "an option")

    def _chosen(self, opened: Opened, letter: Any, what: str) -> Shown:
        chosen = letter.strip().upper() if isinstance(letter, str) else letter
        if chosen not in opened.options:
            raise Refused(f"{what} is named by {', '.join(opened.options)}, got {letter!r:.40}")
        if opened.options[chosen] != opened.right:
            return self._not_yet(opened, opened.against(chosen))
        return self._found(opened, f"Right: {chosen}")

    def repaired(self, attempt: Any) -> Shown:
        """Answer by repairing the code: run its check on what the cell defines."""
        opened = self._open_bug()
        asked, given = opened.bug.exercise, getattr(attempt, "__name__", "")
        if given != asked and called(given):  # an earlier bug's cell
            raise Refused(f"The bug that is open is in {asked}, and this is {given}.")
        if is_unchanged(opened.bug, attempt):
            return Shown("Nothing was changed", (Section("", "That costs nothing: repair the code, then check it."),))
        report = run(opened.bug.exercise, attempt)
        if not report.passed:
            return self._not_yet(opened, *still_wrong(opened.bug, report))
        opened.repaired = True
        return self._found(opened, "Right: the check passes")

    def hint(self) -> Shown:
        """Give a hint, which costs: with hints, the same is asked again sooner."""
        opened = self._now_open()
        told = opened.hints_told
        if opened.hints == len(told):
            return Shown("There are no more hints.", (Section("", "\n".join(told)),))
        opened.hints += 1
        return Shown(f"Hint {opened.hints} of {len(told)}", (Section("", told[opened.hints - 1]),))

    def give_up(self) -> Shown:
        """Show the one change that repairs the code, or the right option, and the reason; it is asked again soon."""
        opened = self._now_open()
        if round := self._round_of(opened):
            round.given_up += 1
        return self._close(opened, GIVEN_UP, "The bug" if isinstance(opened, OpenedBug) else "The answer")

    def _open(self, round: Round, told: list[str]) -> Shown:
        item = choose(round.found, round.seen, self.now(), round.asked)
        round.asked.append(item)
        if isinstance(item, Row):
            self.opened = OpenedBug(item, item.bug)
        else:
            self.opened = OpenedQuestion(item, round.seen.seed(item.card, self.now()))
        headline, sections = self.opened.asked(known=item.card in round.seen.cards, terminal=self.terminal)
        return Shown(headline, (*(Section("", note) for note in told), *sections))

    def _now_open(self) -> Opened:
        if self.opened is None or self.opened.closed:
            raise Refused("Nothing is open: practice() opens a bug or a question.")
        return self.opened

    def _round_of(self, opened: Opened) -> Round | None:
        """The round in which it was opened; None if another one has begun since."""
        begun = self.round is not None and any(item.card == opened.card for item in self.round.asked)
        return self.round if begun else None

    def _open_bug(self) -> OpenedBug:
        opened = self._now_open()
        if not isinstance(opened, OpenedBug):
            raise Refused("A question is open: it is answered with a letter, `practice.answer('A')`.")
        return opened

    def _not_yet(self, opened: Opened, *told: Section) -> Shown:
        opened.wrong += 1
        return Shown("Not yet", told)

    def _found(self, opened: Opened, told: str) -> Shown:
        cost = opened.hints + opened.wrong
        if round := self._round_of(opened):
            round.solved += 1
        return self._close(opened, SOLVED if not cost else WITH_HELP if cost < MOST_COSTS else GIVEN_UP, told)

    def _close(self, opened: Opened, rating: str, told: str) -> Shown:
        opened.closed, notes = True, []
        seen = self.round.seen if self.round is not None else Review()
        card, now = opened.card, self.now()
        trouble = remember(seen, card, opened.level, rating, now, terminal=self.terminal)
        if card in seen.cards:
            due = datetime.fromisoformat(seen.cards[card]["due"])
            days = max(1, round((due - now).total_seconds() / 86400))
            notes.append(f"This {opened.thing} is due again in {_many(days, 'day')}.")
        if trouble:
            notes.append(trouble)
        if self.round is not None and self.round.ends is not None:
            left = max(0, round((self.round.ends - time.monotonic()) / 60))
            notes.append(f"{left} of {self.round.minutes:g} minutes are left.")
        return Shown(told, (*opened.solution(), *(Section("", " ".join(notes)) for _ in notes[:1])))

    def _ended(self, round: Round) -> Shown:
        questions = sum(isinstance(item, AskedAgain) for item in round.asked)
        asked = [_many(len(round.asked) - questions, "bug"), _many(questions, "question")]
        over = f"{round.minutes:g} minutes are over" if round.most is None else "That was all"
        told = f"{over}: {' and '.join(filter(None, asked))}, {round.solved} found"
        return Shown(f"{told}, {round.given_up} given up. practice() continues.")


def _many(number: int, thing: str) -> str:
    """Return a number of things, in words; empty for none.

    >>> _many(1, "mistake you have met before"), _many(2, "day"), _many(0, "day")
    ('1 mistake you have met before', '2 days', '')
    """
    first, *rest = thing.split(" ", 1)
    return " ".join([str(number), first + "s" * (number != 1), *rest]) if number else ""


practice = Practice()
