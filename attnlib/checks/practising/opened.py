"""The open bug with its code, or the open question with its options, and the hints and wrong answers so far."""

import random
from dataclasses import dataclass, field
from functools import cached_property

from attnlib.checks.course.asked_again import AskedAgain, Question
from attnlib.checks.practising.bug import Bug
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.quiz import LETTERS, explanations, hints
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import Row
from attnlib.checks.standing.kept import in_a_notebook, running_shell
from attnlib.checks.verdict.report import Section


@dataclass
class OpenedBug:
    """A bug, with the number of hints and wrong answers so far."""

    row: Row
    bug: Bug
    hints: int = 0
    wrong: int = 0
    closed: bool = False
    edited: str = ""
    """The learner's repair so far, in a terminal."""
    repaired: bool = False
    """True once the learner's own repair has passed, which may be another one than ours."""
    thing = "mistake"
    """The word for it when it is due again."""

    @cached_property
    def options(self) -> dict[str, str]:
        """The explanations by letter."""
        return explanations(self.bug)

    @cached_property
    def symptom(self) -> str:
        """The symptom of the bug."""
        return symptom_of(self.bug, self.row.case)

    @property
    def card(self) -> str:
        """The card that is scheduled."""
        return self.row.card

    @property
    def level(self) -> int:
        """The level in which it counts once it is found."""
        return self.row.level

    @property
    def right(self) -> str:
        """The option that is true."""
        return self.bug.title

    @property
    def hints_told(self) -> list[str]:
        """All its hints, in order."""
        return hints(self.bug, self.options)

    def against(self, letter: str) -> Section:
        """Return the section that rejects a wrong letter."""
        return Section("", f"{letter} is not true of this code: {self.options[letter]}")

    def asked(self, *, known: bool, terminal: bool) -> tuple[str, list[Section]]:
        """Return what is shown at first, a headline and sections; in a notebook, put the code into the next cell."""
        again = " You have seen this mistake before." if known else ""
        sections = [
            Section("What it must do", self.bug.contract),
            Section("What you see", self.symptom, fixed=True),
            Section("What is true of it?", lettered(self.options)),
        ]
        cell = f"{self.bug.code}\n\n\npractice.repaired({self.row.exercise})"
        if not terminal:
            in_cell = next_cell(cell)
            where = "in the next cell" if in_cell else "below"
            numbers = "To number its lines, press Esc, then Shift+L. " if in_cell else ""
            line = "Name the wrong line, `practice.line(7)` or `practice.line('a piece of it')`"
            both = "Name both wrong lines at once, as in `practice.line(7, 9)`"
            ways = (
                f"The code is {where}. {numbers}{both if len(self.bug.changes) > 1 else line}; or say what is true, "
                "`practice.because('A')`; or repair it and run its cell. There are also `practice.hint()`, "
                "`practice.give_up()` and `practice.next()`."
            )
            sections.append(Section("", ways))
            if not in_cell:
                sections.append(Section("The code", cell, fixed=True))
        headline = f"Find the bug in {self.row.exercise} (level {self.row.level}: {LEVELS[self.row.level]}){again}"
        return headline, sections

    def solution(self) -> list[Section]:
        """Return the change that repairs the code, and its reason."""
        change = "As it was before the bug" if self.repaired else "The change"
        return [Section(change, self.bug.diff(), fixed=True), Section(self.bug.title, self.bug.explanation)]


@dataclass
class OpenedQuestion:
    """A prediction that is asked again; `seed` draws its numbers and its letters."""

    prediction: AskedAgain
    seed: str
    hints: int = 0
    wrong: int = 0
    closed: bool = False
    level: None = field(default=None, init=False)
    """None: questions have no levels."""
    thing = "question"

    @cached_property
    def question(self) -> Question:
        """The question with the numbers that were drawn for it."""
        return self.prediction.drawn(random.Random(self.seed))

    @cached_property
    def options(self) -> dict[str, str]:
        """Its options by the letters drawn for them, which are never all the lesson's."""
        declared, options = self.prediction.declared, [*self.question.options]
        letter_of = {m.id: m.implementation for m in declared.misconceptions}
        lesson = [declared.reference, *(letter_of[wrong.id] for wrong in self.question.wrong)]
        before = [option for _, option in sorted(zip(lesson, options, strict=True))]
        chance = random.Random(f"{self.seed} letters")
        while True:
            chance.shuffle(options)
            if options != before:
                return dict(zip(LETTERS, options, strict=False))

    @property
    def card(self) -> str:
        """The card that is scheduled."""
        return self.prediction.card

    @property
    def right(self) -> str:
        """The option that is right."""
        return self.question.right

    @property
    def hints_told(self) -> list[str]:
        """Its only hint: all the wrong options but one."""
        wrong = [letter for letter, option in self.options.items() if option != self.right]
        gone = sorted(random.Random(f"{self.seed} hints").sample(wrong, len(wrong) - 1))
        return [f"Not right: {', '.join(gone)}."]

    def against(self, letter: str) -> Section:
        """Return the explanation of the misunderstanding that a wrong letter shows."""
        wrong = next(wrong for wrong in self.question.wrong if wrong.text == self.options[letter])
        told = next(m for m in self.prediction.declared.misconceptions if m.id == wrong.id)
        return Section(f"Not {letter}. {wrong.title or told.title}", wrong.explanation or told.explanation)

    def asked(self, *, known: bool, terminal: bool) -> tuple[str, list[Section]]:
        """Return a headline, the question and its options; in a notebook, put the answer's call into the next cell."""
        other = "numbers" if self.prediction.draw else "letters"
        sections = [Section("", self.question.text), Section("Which is right?", lettered(self.options))]
        if not terminal:
            letters = ", ".join(f'"{letter}"' for letter in self.options)
            in_cell = next_cell(f"practice.answer(None)  # {letters}")
            where = "Put the letter into the next cell and run it" if in_cell else "Answer it, `practice.answer('A')`"
            ways = f"{where}. There are also `practice.hint()`, `practice.give_up()` and `practice.next()`."
            sections.append(Section("", ways))
        again = " once more" if known else ""
        return f"A question from lesson {self.prediction.declared.lesson}{again}, with other {other}", sections

    def solution(self) -> list[Section]:
        """Return the right option, and why it is right."""
        letter = next(letter for letter, option in self.options.items() if option == self.right)
        why = self.question.why or self.prediction.declared.explanation
        return [Section("", f"{letter}  {self.right}"), Section("", why)]


Opened = OpenedBug | OpenedQuestion


def lettered(options: dict[str, str]) -> str:
    """List the options, one a line."""
    return "\n".join(f"{letter}  {option}" for letter, option in options.items())


def next_cell(code: str) -> bool:
    """Put the code into the next cell of a notebook; False outside a notebook."""
    if not in_a_notebook():
        return False
    running_shell().set_next_input(code)
    return True
