"""`practice()`: a bug is opened, answered in one of three ways, and scheduled."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from attnlib.checks.check import run
from attnlib.checks.practising.bug import Bug
from attnlib.checks.practising.choose import Refused, candidates, choose
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.quiz import explanations, hints, judged_lines, line_named
from attnlib.checks.practising.review import GIVEN_UP, SOLVED, WITH_HELP, Review, remember, review, slip_of
from attnlib.checks.practising.shown import Shown
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import Row
from attnlib.checks.standing.kept import best_scores
from attnlib.checks.verdict.report import Section, headline

MOST_COSTS = 3
"""Hints and wrong answers: with so many, the mistake counts as not known."""
SHOW = ("line", "because", "repaired", "hint", "give_up", "next")


@dataclass
class Opened:
    """The bug that is asked about now, and what its answer has cost so far."""

    row: Row
    bug: Bug
    hints: int = 0
    wrong: int = 0
    closed: bool = False

    @cached_property
    def options(self) -> dict[str, str]:
        """The explanations by their letters."""
        return explanations(self.bug)

    @cached_property
    def symptom(self) -> str:
        """What is seen of it."""
        return symptom_of(self.bug, self.row.case)


@dataclass
class Round:
    """What was asked for, and how it went."""

    found: list[Row]
    seen: Review
    ends: float | None = None
    minutes: float = 0
    most: int | None = None
    """How many bugs it has at most."""
    asked: list[str] = field(default_factory=list)
    solved: int = 0
    given_up: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the minutes that were asked for have passed, or as many bugs as it has were asked."""
        late = self.ends is not None and time.monotonic() >= self.ends
        return late or (self.most is not None and len(self.asked) >= self.most)


class Practice:
    """Bugs to find, in what has passed so far.

    >>> practice("02_scaled_dot_product_attention", everything=True, only="silent").headline  # doctest: +ELLIPSIS
    'Find the bug in ... (level 2: a wrong shape or dtype)'
    """

    def __init__(self, *, terminal: bool = False) -> None:
        self.terminal = terminal
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.opened: Opened | None = None
        self.round: Round | None = None

    def __repr__(self) -> str:
        return "practice() opens a bug; it is answered with " + ", ".join(f"practice.{name}" for name in SHOW[:3]) + "."

    def __call__(
        self,
        lesson: str | None = None,
        *,
        only: str | None = None,
        minutes: float | None = None,
        everything: bool = False,
    ) -> Shown:
        """Open a bug: one whose mistake is due again, or else a new one of the level that you have reached.

        It comes from the exercises that you have passed, of one `lesson` if it is named; with `everything`, from all.
        `only="silent"` leaves out exceptions, `only="two"` has two wrong lines. After so many `minutes`,
        `practice.next()` says how it went. In a notebook, the code is put into the next cell.

        Raises Refused, a ValueError with a sentence, for a lesson that doesn't exist, for what `only` and `minutes`
        can't be, and where nothing has passed.
        """
        if minutes is not None and (
            isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0
        ):
            raise Refused(f"minutes must be a number above 0, got {minutes!r:.40}")
        passed, seen, trouble = self._learner()
        try:
            found = candidates(passed, lesson=lesson, only=only, everything=everything)
        except Refused as error:
            raise Refused(f"{error} {trouble}".strip()) from None
        ends = None if minutes is None else time.monotonic() + 60 * minutes
        self.round = Round(found, seen, ends, minutes or 0)
        return self._open(self.round, [seen.trouble] if seen.trouble else [])

    def due(self, most: int = 3) -> Shown:
        """Say which mistakes are due again, and open none: `practice.next()` asks about `most` of them, then ends."""
        passed, seen, _ = self._learner()
        try:
            found = candidates(passed, lesson=None, only=None, everything=False)
        except Refused:
            found = []
        served = {slip_of(row.slip) for row in found}
        slips = [slip for slip in seen.due(self.now()) if slip in served][:most]
        self.round = (
            Round([row for row in found if slip_of(row.slip) in slips], seen, most=len(slips)) if slips else None
        )
        sections = tuple(Section("", note) for note in (seen.trouble,) if note)
        if not slips:
            return Shown("Nothing is due. practice() asks about bugs in what you have passed.", sections)
        self.round = Round([row for row in found if slip_of(row.slip) in slips], seen, most=len(slips))
        many = f"{len(slips)} mistakes that you have met are" if len(slips) > 1 else "A mistake that you have met is"
        return Shown(f"{many} due again", (*sections, Section("", "`practice.next()` opens a bug.")))

    def _learner(self) -> tuple[set[str], Review, str]:
        """What has passed, what was asked so far, and what is wrong with the file, if anything is."""
        best, trouble = best_scores(terminal=self.terminal)
        seen = review(terminal=self.terminal)
        seen.trouble = trouble or seen.trouble
        return {name for name, score in best.items() if score == 1}, seen, trouble

    def next(self) -> Shown:
        """Open the next bug of the same kind, or say how it went if that was all, or the minutes are over."""
        if self.round is None:
            return self()
        if self.round.is_over:
            return self._ended(self.round)
        return self._open(self.round, [])

    def line(self, *where: int | str) -> Shown:
        """Answer by naming the wrong line, by its number or a piece of its text; two, where two are wrong."""
        opened = self._now_open()
        if not where:
            raise TypeError('line() needs the number of a line, as in line(7), or a piece of it, as in line("softmax")')
        named = [line_named(opened.bug.code, one) for one in where]
        told = judged_lines(opened.bug, named)
        if told:
            return self._not_yet(opened, told)
        return self._found(opened, f"Right: line{'s' * (len(named) > 1)} {' and '.join(map(str, named))}")

    def because(self, letter: str) -> Shown:
        """Answer by choosing the explanation that is true."""
        opened = self._now_open()
        chosen = letter.strip().upper() if isinstance(letter, str) else letter
        if chosen not in opened.options:
            raise Refused(f"an explanation is named by {', '.join(opened.options)}, got {letter!r:.40}")
        if opened.options[chosen] != opened.bug.title:
            return self._not_yet(opened, f"{chosen} is not true of this code: {opened.options[chosen]}")
        return self._found(opened, f"Right: {chosen}")

    def repaired(self, attempt: Any) -> Shown:
        """Answer by repairing the code: run its check on what the cell defines."""
        opened = self._now_open()
        report = run(opened.bug.exercise, attempt)
        if not report.passed:
            return self._not_yet(opened, headline(report).rpartition(" (")[0])
        return self._found(opened, "Right: the check passes")

    def hint(self) -> Shown:
        """A hint, which costs: with hints, the mistake is asked about again sooner."""
        opened = self._now_open()
        told = hints(opened.bug, opened.options)
        if opened.hints == len(told):
            return Shown("There are no more hints.", (Section("", "\n".join(told)),))
        opened.hints += 1
        return Shown(f"Hint {opened.hints} of {len(told)}", (Section("", told[opened.hints - 1]),))

    def give_up(self) -> Shown:
        """Show the one change that repairs the code, and its reason; the mistake is asked about again soon."""
        opened = self._now_open()
        if self.round is not None:
            self.round.given_up += 1
        return self._close(opened, GIVEN_UP, "The bug")

    def _open(self, round: Round, told: list[str]) -> Shown:
        row = choose(round.found, round.seen, self.now(), round.asked)
        self.opened = Opened(row, row.bug)
        round.asked.append(row.key)
        known = slip_of(row.slip) in round.seen.cards
        again = " You have seen this mistake before." if known else ""
        sections = [Section("", note) for note in told]
        sections += [
            Section("What it must do", self.opened.bug.contract),
            Section("What is seen", self.opened.symptom, fixed=True),
            Section("What is true of it?", "\n".join(f"{a}  {title}" for a, title in self.opened.options.items())),
        ]
        cell = f"{self.opened.bug.code}\n\n\npractice.repaired({row.exercise})"
        if not self.terminal:
            in_cell = _next_cell(cell)
            where = "in the next cell" if in_cell else "below"
            ways = (
                f"The code is {where}. Name the wrong line, `practice.line(7)` or `practice.line('a piece of it')`; or "
                f"say what is true, `practice.because('A')`; or repair it and run its cell. There are also "
                "`practice.hint()`, `practice.give_up()` and `practice.next()`."
            )
            sections.append(Section("", ways))
            if not in_cell:
                sections.append(Section("The code", cell, fixed=True))
        return Shown(f"Find the bug in {row.exercise} (level {row.level}: {LEVELS[row.level]}){again}", tuple(sections))

    def _now_open(self) -> Opened:
        if self.opened is None or self.opened.closed:
            raise Refused("No bug is open: practice() opens one.")
        return self.opened

    def _not_yet(self, opened: Opened, told: str) -> Shown:
        opened.wrong += 1
        return Shown("Not yet", (Section("", told),))

    def _found(self, opened: Opened, told: str) -> Shown:
        cost = opened.hints + opened.wrong
        if self.round is not None:
            self.round.solved += 1
        return self._close(opened, SOLVED if not cost else WITH_HELP if cost < MOST_COSTS else GIVEN_UP, told)

    def _close(self, opened: Opened, rating: str, told: str) -> Shown:
        opened.closed = True
        bug, notes = opened.bug, []
        seen = self.round.seen if self.round is not None else Review()
        slip, now = slip_of(bug.slip), self.now()
        trouble = remember(seen, slip, opened.row.level, rating, now, terminal=self.terminal)
        if slip in seen.cards:
            due = datetime.fromisoformat(seen.cards[slip]["due"])
            days = max(1, round((due - now).total_seconds() / 86400))
            notes.append(f"This mistake is due again in {days} day{'s' * (days != 1)}.")
        if trouble:
            notes.append(trouble)
        if self.round is not None and self.round.ends is not None:
            left = max(0, round((self.round.ends - time.monotonic()) / 60))
            notes.append(f"{left} of {self.round.minutes:g} minutes are left.")
        sections = [Section("The change", bug.diff(), fixed=True), Section(bug.title, bug.explanation)]
        return Shown(told, (*sections, *(Section("", " ".join(notes)) for _ in notes[:1])))

    def _ended(self, round: Round) -> Shown:
        many = len(round.asked)
        over = f"{round.minutes:g} minutes are over" if round.most is None else "That was all"
        told = f"{over}: {many} bug{'s' * (many != 1)}, {round.solved} found"
        return Shown(f"{told}, {round.given_up} given up. practice() goes on.")


def _next_cell(code: str) -> bool:
    """Put the code into the next cell of a notebook; False where there is none."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return False
    shell.set_next_input(code)
    return True


practice = Practice()
