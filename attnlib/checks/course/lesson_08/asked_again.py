"""Lesson 08's predictions, asked again: other vocabularies, and other tokens."""

import math
from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted

VOCABULARIES = (20, 27, 35, 50, 65, 80, 96, 128, 256, 512, 1000, 4096, 8000, 32000, 50257)

Model = tuple[int, float]
"""The number of characters in a token, and the loss of a token in nats."""


def first_loss(vocabulary: int) -> Question:
    """Ask for the loss of a model that knows nothing yet."""
    loss = math.log(vocabulary)
    return Question(
        text="A language model with small random weights, not trained for a single step, reads a text. Its vocabulary "
        f"has {vocabulary:,} tokens. What is its loss in nats, roughly?",
        right=f"{loss:.1f}",
        wrong=(
            WrongOption(
                "zero_at_first",
                "0",
                "-ln p is 0 only if p is 1. An untrained model doesn't give the right token that much.",
            ),
            WrongOption(
                "half_and_half",
                f"{math.log(2):.1f}",
                f"ln 2 = 0.69 is the loss of a guess between two. Here there are {vocabulary:,} possible tokens.",
                title=f"There are {vocabulary:,} tokens, not two",
            ),
            WrongOption("nobody_knows", "it can't be known, because the weights are random"),
        ),
        why="A model that knows nothing gives each of V tokens the probability 1/V, and -ln(1/V) = ln V: for "
        f"{vocabulary:,} tokens, {loss:.2f}. If the first loss is far above that, the model starts out with opinions, "
        "and they're wrong.",
    )


def overfitted() -> Question:
    """Ask how far the loss falls on lines that are learned by heart."""
    return Question(
        text="A language model with a vocabulary of 35 characters and a hundred thousand weights is trained on the "
        "same eight lines in every step. Each gives a colour and its name, as “#ff00aa pink” does, and has a line "
        "break before and after it. There's no dropout. Where does the loss go?",
        right="to a number above 0 that can be computed, since nothing says which line comes next",
        wrong=(
            WrongOption("falls_to_zero", "to 0, since the model has plenty of weights"),
            WrongOption("nothing_is_learned", "it stays near 3.6, since eight lines are too few to learn from"),
            WrongOption(
                "only_noise_is_left",
                "down to some number above 0 that can't be known, because there is noise in all data",
            ),
        ),
    )


def a_character(model: Model) -> float:
    """Return the nats for each character to three digits, so that equal models compare as equal."""
    characters, loss = model
    return round(loss / characters, 3)


def bits(first: Model, second: Model) -> Question:
    """Ask which of two models, with tokens of different lengths, would compress a text better."""
    each = (a_character(first), a_character(second))
    told = ", and ".join(
        f"{loss} nats for {counted(characters)} character{'s' * (characters > 1)} come to {cost:.2f} a character"
        for (characters, loss), cost in zip((first, second), each, strict=True)
    )
    smaller, larger = sorted((first, second), key=lambda model: model[1])
    name = {first: "the first", second: "the second"}
    level, other = "neither, they're equal", name[larger]
    is_level = each[0] == each[1]
    left = WrongOption("level", other if is_level else level, f"{told}.")
    return Question(
        text=f"One model predicts {_tokens(first[0])}, with a loss of {first[1]} nats each. Another predicts "
        f"{_tokens(second[0])}, with a loss of {second[1]} nats each. Which would compress the same text into fewer "
        "bits?",
        right=level if is_level else other,
        wrong=(
            WrongOption(
                "smaller_number",
                name[smaller],
                f"{smaller[1]} is smaller than {larger[1]}, but it's the price of {counted(smaller[0])} "
                f"character{'s' * (smaller[0] > 1)}, and {larger[1]} is that of {counted(larger[0])}. First divide the "
                "loss of a token among its characters.",
            ),
            left,
            WrongOption("not_comparable", "nobody can say"),
        ),
        why=f"Divide the loss of a token among its characters: {told}, or {each[0] / math.log(2):.2f} and "
        f"{each[1] / math.log(2):.2f} bits. A loss means nothing until you know what it's per.",
    )


def _tokens(characters: int) -> str:
    return "characters" if characters == 1 else f"tokens of {counted(characters)} characters on average"


def _models(chance: Random) -> dict[str, Any]:
    """Draw two models: the one with longer tokens has the larger loss, and is better, or as good."""
    short, long = sorted(chance.sample(range(1, 7), 2))
    tenths = chance.randint(6, 14)
    worse = tenths + chance.choice((0, 1, 2, 3, 4))
    models = [(short, short * worse / 10), (long, long * tenths / 10)]
    if models[0][1] >= models[1][1]:
        return _models(chance)
    chance.shuffle(models)
    return {"first": models[0], "second": models[1]}


ASKED_AGAIN = (
    AskedAgain(
        "predict_first_loss",
        first_loss,
        {"vocabulary": 35},
        lambda chance: {"vocabulary": chance.choice(VOCABULARIES)},
    ),
    AskedAgain("predict_overfitted", overfitted),
    AskedAgain("predict_bits", bits, {"first": (1, 1.3), "second": (4, 3.2)}, _models),
)
