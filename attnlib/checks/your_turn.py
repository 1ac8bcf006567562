"""The input of a lesson's "Your turn" cells: what a learner typed is used, or refused in one sentence."""

from collections.abc import Container
from typing import Any


class NotUsable(ValueError):
    """The input cannot be used; IPython shows the sentence that says why, and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"{self} Change it and run this cell again."]


def usable_text(text: Any, known: Container[str] | None = None, *, shortest: int = 1, longest: int) -> str:
    """Return the text if it has `shortest` to `longest` characters, all of them `known`; else raise `NotUsable`.

    >>> usable_text("13 May 2011", "0123456789 aMy", longest=40)
    '13 May 2011'
    >>> usable_text("13 mai 2011", "0123456789 aMy", longest=40)
    Traceback (most recent call last):
    attnlib.checks.your_turn.NotUsable: The model has never seen these characters, and cannot read them: i, m.
    """
    if not isinstance(text, str):
        raise NotUsable(f"A text in quotation marks is needed, got {type(text).__name__}.")
    if not shortest <= len(text) <= longest:
        raise NotUsable(f"A text of {shortest} to {longest} characters is needed, got {len(text)}.")
    if known is not None and (strange := sorted({letter for letter in text if letter not in known})):
        named = ", ".join(letter if letter.isprintable() and letter.strip() else repr(letter) for letter in strange)
        raise NotUsable(f"The model has never seen these characters, and cannot read them: {named}.")
    return text


def usable_number(number: Any, name: str, least: int, most: int) -> int:
    """Return the number if it is an integer from `least` to `most`; else raise `NotUsable`, which gives its `name`.

    >>> usable_number(3.5, "count", 1, 10)
    Traceback (most recent call last):
    attnlib.checks.your_turn.NotUsable: count must be a whole number from 1 to 10, got 3.5.
    """
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise NotUsable(f"{name} must be a whole number from {least:,} to {most:,}, got {number!r}.")
    return number
