"""Lesson 02's predictions, asked again: vectors of another length, and other sentences."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted

SENTENCES = (
    ("The animal did not cross the street because it was tired", "animal", "street", "cross"),
    ("The cat chased a small mouse all day", "cat", "mouse", "chased"),
    ("My brother thanked your sister for the letter", "brother", "sister", "thanked"),
    ("A student asked one teacher about her answer", "student", "teacher", "asked"),
    ("In spring the river reaches the old bridge again", "river", "bridge", "reaches"),
    ("The dog followed that man", "dog", "man", "followed"),
)
"""Sentences, each with two words that change places, and one that does not."""


def dot_spread(root: int) -> Question:
    """Ask for the standard deviation of dot products of vectors with root² entries."""
    d = root**2
    return Question(
        text=f"The vectors q and k have d = {d} entries each, all independent, with mean 0 and variance 1. About how "
        "large is the standard deviation of q · k?",
        right=str(root),
        wrong=(
            WrongOption("terms_cancel", "1"),
            WrongOption(
                "variance_for_deviation",
                str(d),
                f"{d} terms with variance 1 each give a variance of {d}. The standard deviation is its root. A sum as "
                f"large as {d} would be {root} standard deviations from the mean.",
            ),
            WrongOption("depends_on_keys", "there's no single answer: it depends on the number of keys"),
        ),
        why=f"Each of the {d} terms has variance 1, variances of independent terms add up to {d}, and the standard "
        f"deviation is the root of that: √{d} = {root}.",
    )


def swapped_words(sentence: str, one: str, other: str, third: str) -> Question:
    """Ask how the outputs of self-attention without positions change if two words of a sentence change places."""
    n = counted(len(sentence.split()))
    return Question(
        text=f"Self-attention without positions reads “{sentence}”, and then the same sentence with “{one}” and "
        f"“{other}” swapped. What happens to the output of “{third}”, and to the outputs of the two words that moved?",
        right=f"The output of “{third}” stays the same, and the other two trade places, because each word's output "
        "moves with it.",
        wrong=(
            WrongOption(
                "neighbours_matter",
                "All outputs change, because every word now has different neighbours.",
                "A score compares two words wherever they are. Nothing in the formula says what is next to what. The "
                f"same {n} words answer in both sentences, so every word hears the same answers.",
            ),
            WrongOption(
                "invariant_not_equivariant",
                f"The {n} output rows all stay the same, even those of the words that moved, because attention is a "
                "sum, and a sum has no order.",
            ),
        ),
        why=f"Each output is made from one query and the same {n} pairs of keys and values. A sum doesn't depend on "
        "their order, so every word gets what it got before, wherever it is now.",
    )


def _sentence(chance: Random) -> dict[str, Any]:
    return dict(zip(("sentence", "one", "other", "third"), chance.choice(SENTENCES), strict=True))


ASKED_AGAIN = (
    AskedAgain("predict_dot_spread", dot_spread, {"root": 16}, lambda chance: {"root": chance.randint(4, 32)}),
    AskedAgain(
        "predict_swapped_words",
        swapped_words,
        dict(zip(("sentence", "one", "other", "third"), SENTENCES[0], strict=True)),
        _sentence,
    ),
)
