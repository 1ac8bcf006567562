"""A prediction as practice asks it again: with other numbers, if it has any, and always with other letters.

Beside a lesson's exercises, `asked_again.py` has a function for each of its predictions, which makes the question from
its numbers: the right option is computed from them, and so is what each named misunderstanding would choose.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from attnlib.checks import course
from attnlib.checks.course.places import BadCourse
from attnlib.checks.exercise import Exercise

COUNTED = "zero one two three four five six seven eight nine ten eleven twelve"
ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
MOST_DRAWS = 1000


@dataclass(frozen=True)
class WrongOption:
    """The option that a misunderstanding leads to. Title and explanation default to the catalogue's."""

    id: str
    text: str
    explanation: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that needs no other text, and its options. `why` defaults to the exercise's explanation."""

    text: str
    right: str
    wrong: tuple[WrongOption, ...]
    why: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """All options, the right one first."""
        return self.right, *(wrong.text for wrong in self.wrong)


@dataclass(frozen=True)
class AskedAgain:
    """A prediction: its question as a function of numbers, the lesson's numbers, and a function to draw others."""

    prediction: str
    question: Callable[..., Question]
    lesson: Mapping[str, Any] = field(default_factory=dict)
    draw: Callable[[Random], dict[str, Any]] | None = None
    """None if the prediction has no numbers, so that only its letters change."""

    @property
    def key(self) -> str:
        """Its name in the progress file."""
        return self.prediction

    @property
    def card(self) -> str:
        """The card by which it is scheduled."""
        return self.prediction

    @property
    def declared(self) -> Exercise:
        """The exercise that declares the prediction."""
        return course.find(self.prediction)

    def drawn(self, chance: Random) -> Question:
        """Draw the question with other numbers than the lesson's, and no option twice.

        Raises ValueError if a thousand draws give none.
        """
        if self.draw is None:
            return self.question()
        for _ in range(MOST_DRAWS):
            numbers = self.draw(chance)
            question = self.question(**numbers)
            if numbers != self.lesson and len({*question.options}) == len(question.options):
                return question
        raise ValueError(f"{self.prediction}: none of {MOST_DRAWS} draws has other numbers and no option twice")


def counted(number: int) -> str:
    """Write the number in words, up to twelve.

    >>> counted(3), counted(13)
    ('three', '13')
    """
    words = COUNTED.split()
    return words[number] if number < len(words) else str(number)


def ordinal(number: int) -> str:
    """Write the number as an ordinal, from zeroth to twelfth.

    >>> ordinal(3)
    'third'
    """
    return ORDINALS.split()[number]


def asked_again() -> dict[str, AskedAgain]:
    """Return every prediction that can be asked again, by name, in course order.

    >>> list(asked_again())[0]
    'predict_largest_dot'
    """
    predictions = {name: e for name, e in course.exercises().items() if e.kind == "choice"}
    found: dict[str, AskedAgain] = {}
    for lesson in dict.fromkeys(prediction.lesson for prediction in predictions.values()):
        try:
            written = tuple(getattr(_beside(lesson), "ASKED_AGAIN", ()))
            for one in written:
                _require_the_lesson_s(one, predictions)
        except Exception as error:
            if not any(Path(package, f"lesson_{lesson[:2]}").is_dir() for package in course.OTHERS):
                raise
            told = str(error) if isinstance(error, BadCourse) else f"{type(error).__name__}: {error}"
            raise BadCourse(f"{_FILE}.py of lesson_{lesson[:2]} cannot be used: {told}") from error
        found |= {one.prediction: one for one in written}
    return found


def _require_the_lesson_s(one: AskedAgain, predictions: Mapping[str, Exercise]) -> None:
    """Raise BadCourse unless there is such a prediction, and its question offers one option for each misconception."""
    if one.prediction not in predictions:
        raise BadCourse(f"no prediction is called {one.prediction!r}")
    wanted = sorted(wrong.id for wrong in predictions[one.prediction].misconceptions)
    offered = sorted(wrong.id for wrong in one.question(**one.lesson).wrong)
    if offered != wanted:
        raise BadCourse(f"{one.prediction} needs wrong options {', '.join(wanted)}, got {', '.join(offered) or 'none'}")


def _beside(lesson: str) -> ModuleType | None:
    """Return the module beside a lesson's exercises; other people's lessons may have none."""
    package = f"{course.__name__}.lesson_{lesson[:2]}"
    found = importlib.util.find_spec(package)
    if found is None or found.submodule_search_locations is None or not importlib.util.find_spec(f"{package}.{_FILE}"):
        return None
    return importlib.import_module(f"{package}.{_FILE}")


_FILE = "asked_again"
