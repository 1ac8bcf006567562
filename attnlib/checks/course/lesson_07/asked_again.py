"""Lesson 07's prediction, asked again about other words of a sentence."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted, ordinal


def no_position(place: int, words: int) -> Question:
    """Ask which outputs of causal attention change if the word at `place`, from 1, and the next one change places."""
    here, there = ordinal(place), ordinal(place + 1)
    earlier = "The first word sees" if place == 2 else f"The words before position {place} see"
    before = f"{earlier} neither. " if place > 1 else ""
    every = "every word's" if place == 1 else f"the {here} word's and all later ones'"
    return Question(
        text="One layer of causal self-attention, without positions. Two sentences of "
        f"{counted(words)} different words differ in one thing only: the {here} word and the {there} have changed "
        "places. Compare the outputs word by word. Whose output differs?",
        right=f"the {here} word's and the {there}'s, because later ones still see the same words",
        wrong=(
            WrongOption(
                "everything_after_a_change", f"{every}, because later words look back at a different beginning"
            ),
            WrongOption(
                "mask_forgotten",
                "no word's, because each word's output moves with it",
                "Without a mask, the two outputs would swap along with their words. With it, position "
                f"{place} sees only one of the two words, and position {place + 1} asks with the other one. So neither "
                "word gets the output it got before.",
            ),
            WrongOption(
                "last_word_counts",
                f"the {here} word's, the {there}'s and the last one's, which sees the whole sentence",
            ),
        ),
        why=f"Every word from position {place + 2} on sees the same words as before, in either order: a sum has no "
        f"order. {before}Only at positions {place} and {place + 1} does a word see different words, or ask a "
        "different question.",
    )


def draw(chance: Random) -> dict[str, Any]:
    """Draw two neighbours that are not at the end."""
    words = chance.randint(6, 12)
    return {"place": chance.randint(1, words - 3), "words": words}


ASKED_AGAIN = (AskedAgain("predict_no_position", no_position, {"place": 1, "words": 11}, draw),)
