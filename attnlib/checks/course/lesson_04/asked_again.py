"""Lesson 04's predictions, asked again: another memory, and other dates."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted

DATES = (
    ("Sunday", "20 July 1969"),
    ("Monday", "7 April 1969"),
    ("Tuesday", "13 March 1781"),
    ("Wednesday", "12 April 1961"),
    ("Thursday", "5 May 2011"),
    ("Thursday", "17 December 1903"),
    ("Friday", "29 May 1953"),
    ("Saturday", "28 December 1895"),
)
"""Each with the weekday that it was."""


def shuffled_memory(english: int, german: int, column: int) -> Question:
    """Ask what happens to output and weights if the words that answer are shuffled, and those that ask are not."""
    return Question(
        text=f"Cross-attention without positions: {counted(german)} German words ask, {counted(english)} English words "
        f"answer. Now the English words come in a different order, and “animal” moves from column 1 of the weights to "
        f"column {column}. The German words stay as they are. What happens?",
        right="only the columns of the weights change places",
        wrong=(
            WrongOption("equivariant_here_too", "the rows of the output change places, as in lesson 02"),
            WrongOption(
                "order_matters",
                "output and weights both change: a different order is a different text",
                "A score compares one query with one key, wherever the key is. Nothing in the formula knows a "
                f"position, so {counted(english)} words in another order are the same {counted(english)} words.",
            ),
            WrongOption(
                "weights_stay",
                "neither the output nor the weights change",
                "You're right that the output stays. But a weight belongs to a word, not to a place. When “animal” "
                f"moves to column {column}, its weight moves with it, or you'd fetch the wrong value.",
            ),
        ),
    )


def longer_source(day: str, date: str) -> Question:
    """Ask what makes the attention move when the text before a digit gets longer."""
    longer = f"{day}, {date}"
    moved, place = len(longer) - len(date), len(date) - 1
    return Question(
        text="Lesson 04's date reader turns a date into the form “1969-07-20”. It asks ten questions, one for each "
        f"character of that answer, and has no positions. Put “{day},” in front of “{date}”: counted from 0, the last "
        f"digit of the year was character {place} and is now character {place + moved}. The question for that digit "
        f"will still find it. What makes the attention move {counted(moved)} characters to the right?",
        right="the keys, because the digit takes its key along, and the same query still fits it",
        wrong=(
            WrongOption(
                "query_adapts",
                "the query, which is computed from the new text and points further to the right",
                "The query for this digit is a parameter times W^Q. It's the same vector for every date, and hasn't "
                "seen a character of this one. The difference is on the other side, in the keys.",
            ),
            WrongOption(
                "learned_a_place",
                f"nothing; this question has learned to look at character {place}, and will be wrong here",
                "A query could only prefer a position if the keys said where they are. These keys come from a "
                f"character and two neighbours on either side. {counted(moved).capitalize()} positions further on, the "
                "same characters have the same keys.",
            ),
            WrongOption(
                "values_move",
                "the values, because the digit's value is still the best answer, and the weights follow it",
            ),
        ),
    )


def _memory(chance: Random) -> dict[str, Any]:
    english = chance.randint(5, 12)
    return {"english": english, "german": chance.randint(2, 4), "column": chance.randint(2, english - 1)}


ASKED_AGAIN = (
    AskedAgain("predict_shuffled_memory", shuffled_memory, {"english": 11, "german": 3, "column": 9}, _memory),
    AskedAgain(
        "predict_longer_source",
        longer_source,
        {"day": "Sunday", "date": "20 July 1969"},
        lambda chance: dict(zip(("day", "date"), chance.choice(DATES), strict=True)),
    ),
)
