"""Lesson 05's predictions, asked again: other scores, and rows of another length."""

from fractions import Fraction
from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted

FILLS = ("-1e4", "-1e5", "-1e9", "-1e30")


def zeroed_future(first: int, own: int, future: int) -> Question:
    """Ask whether a future word with its weight set to 0 still has an effect; the numbers are three words' e^score."""
    total = first + own + future
    kept = Fraction(first + own, total)
    return Question(
        text="In causal attention the row of “animal” has three words, and e^score is "
        f"{first} for “the”, {own} for “animal” itself, and {future} for “did”, which is still to come. The future "
        f"weight is set to zero after the softmax, and nothing else is done, so the row adds up to {kept}. Can the "
        "output of “animal” still depend on the word that comes after it?",
        right="yes, through the weights that are kept",
        wrong=(
            WrongOption("zero_weight_no_influence", "no, a weight of zero lets nothing through"),
            WrongOption("only_the_first_row", "only in the first row, which keeps a single weight"),
            WrongOption("values_leak", "yes, through the value of “did”"),
        ),
        why=f"The weights that are kept are {first}/{total} and {own}/{total}, and {total} contains the {future} of "
        "the word to come. A large future score makes the sum large and the kept weights small. So the size of "
        "the output gives away something about what's to come.",
    )


def blocked_row(keys: int, fill: str) -> Question:
    """Ask for the weights of a row in which every key is blocked with a large negative number."""
    n = counted(keys)
    return Question(
        text=f"A query has {n} keys, all of them blocked by `scores.masked_fill(~mask, {fill})`. What are the {n} "
        "weights after the softmax?",
        right=f"1/{keys} each, as with {n} equal scores",
        wrong=(
            WrongOption(
                "low_scores_low_weights",
                f"{n} zeros, because exp({fill}) is zero",
                f"You're right that exp({fill}) is 0 in float32. But the softmax first subtracts the largest score of "
                f"the row, which is also {fill}. That leaves a row of zeros, and e⁰ = 1 for all. The weights of "
                "a softmax always add up to 1.",
            ),
            WrongOption(
                "nan_from_finite",
                "`nan`, as with -inf",
                f"NaN would come from -inf: -inf minus -inf isn't defined. {fill} minus {fill} is 0. That's why people "
                "like these numbers, and why nobody notices the mistake.",
                title=f"{fill} is a number",
            ),
            WrongOption(
                "scores_come_through",
                "the softmax of the scores as they were before the fill",
                f"masked_fill *replaces* the score with {fill}, so nothing of it is left. If you *added* {fill}, the "
                "fill and the dtype would decide whether the differences survive or are rounded away.",
            ),
        ),
        why="Softmax sees only differences. A row of equal numbers has none, whether they're 0 or "
        f"{fill}, so {n} keys get 1/{keys} each. The query attends to everything it must not see.",
    )


def _scores(chance: Random) -> dict[str, Any]:
    return dict(zip(("first", "own", "future"), (chance.randint(1, 9) for _ in range(3)), strict=True))


ASKED_AGAIN = (
    AskedAgain("predict_zeroed_future", zeroed_future, {"first": 1, "own": 3, "future": 4}, _scores),
    AskedAgain(
        "predict_blocked_row",
        blocked_row,
        {"keys": 4, "fill": "-1e9"},
        lambda chance: {"keys": chance.randint(3, 12), "fill": chance.choice(FILLS)},
    ),
)
