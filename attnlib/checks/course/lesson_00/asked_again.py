"""Lesson 00's prediction, asked again about other words."""

from collections import Counter
from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption

ASKING = "the tea sea net ten one her art not eat set dog run lion rain nest"
WORDS = (
    "street letter tree sheet teeth settle attention sentence seven between coffee needle sleeve cheese better matter "
    "butter bottle kettle tennis dinner banana balloon bottom cotton tomato potato onion school noon moon area arena "
    "mirror error terror river winter water tired table planet garden animal morning stone nature because chocolate "
    "mountain umbrella blackbird dictionary nearest orange rabbit saddle lesson running dragon garage goggles "
    "engine station harbour terrace tattoo assess success address possess daughter grandson"
)


def dot(one: str, other: str) -> int:
    """Return the dot product of two words by letter counts."""
    theirs = Counter(other)
    return sum(times * theirs[letter] for letter, times in Counter(one).items())


def shared(one: str, other: str) -> list[str]:
    """Return the letters of the first word that are also in the other, each once."""
    return [letter for letter in dict.fromkeys(one) if letter in other]


def listed(letters: list[str]) -> str:
    """List letters, or words, as in a sentence."""
    quoted = [f"“{letter}”" for letter in letters]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def largest_dot(word: str, best: str, tied: str, longest: str) -> Question:
    """Ask which of four words fits `word` best: itself, `best`, the `longest`, or `best` in a tie with another."""
    letters = shared(word, best)
    terms = " + ".join(f"{Counter(word)[letter]}·{best.count(letter)}" for letter in letters)
    return Question(
        text="Let a word's vector say how often each letter occurs in it. Take the dot product of "
        f"“{word}” with each of {listed([word, *sorted((best, tied, longest))])}. Which word gives the largest one?",
        right=f"“{best}”",
        wrong=(
            WrongOption(
                "self_fits_best",
                f"“{word}”",
                "With cosines it would, because all vectors then have length 1. The dot product also grows with the "
                f"length of the other vector. “{word}” gets {dot(word, word)} with itself. Work out the others.",
            ),
            WrongOption(
                "longest_word_wins",
                f"“{longest}”",
                f"A letter adds to the sum only if both words contain it: “{word}” · “{longest}” = "
                f"{dot(word, longest)}. Look for the letters of “{word}” in the other words.",
            ),
            WrongOption(
                "counts_letters_once",
                f"{listed(sorted((best, tied)))}, in a tie",
                f"Both contain {listed(letters)}, but not equally often, and the dot product multiplies the counts.",
            ),
        ),
        why=f"“{word}” · “{best}” = {terms} = {dot(word, best)}. “{word}” gets {dot(word, word)} with itself. A long "
        "vector can beat a perfect match.",
    )


def draw(chance: Random) -> dict[str, Any]:
    """Draw words such that every misunderstanding leads to another word than the largest dot product."""
    while True:
        word, (best, tied, longest) = chance.choice(ASKING.split()), chance.sample(WORDS.split(), 3)
        if len(longest) <= max(map(len, (word, best, tied))) or shared(word, best) != shared(word, tied):
            continue
        is_largest = dot(word, best) > max(dot(word, other) for other in (word, tied, longest))
        if is_largest and len(shared(word, longest)) < len(shared(word, best)) < len(word) and shared(word, best)[1:]:
            return {"word": word, "best": best, "tied": tied, "longest": longest}


ASKED_AGAIN = (
    AskedAgain(
        "predict_largest_dot",
        largest_dot,
        {"word": "the", "best": "street", "tied": "tired", "longest": "because"},
        draw,
    ),
)
