"""Lesson 06's prediction, asked again about other stacks."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted


def no_residuals(words: int, width: int, layers: int, heads: int) -> Question:
    """Ask how alike random words are after many layers of attention and nothing else."""
    n = counted(words)
    return Question(
        text=f"{n.capitalize()} random words of width {width} go through {layers} layers of multi-head attention with "
        "random matrices, x ← attn(norm(x)), no residual. (The norm only keeps the numbers from growing.) The mean "
        "cosine between two words, 0 if they're unrelated, 1 if they have the same direction, starts near 0. Where "
        "does it end?",
        right=f"near 1: all {n} words have become one and the same vector",
        wrong=(
            WrongOption(
                "random_stays_random",
                "near 0: random words through random matrices stay random",
                "Random words are nearly at right angles, and a random matrix alone would keep them that way. But "
                f"attention also averages. Every output is a mix of the same {n} values, and mixes of the same things "
                "look alike.",
            ),
            WrongOption(
                "heads_specialise",
                f"below 0: {counted(heads)} heads pick different words, which drives them apart",
            ),
            WrongOption("numbers_explode", f"it doesn't settle: after {layers} layers the numbers have exploded"),
        ),
        why=f"Attention averages, and averages of averages of the same {n} words differ less and less. With nothing to "
        f"bring back what a word was, all {n} end up as one vector.",
    )


def draw(chance: Random) -> dict[str, Any]:
    """Draw a stack as deep as the lesson's, or deeper."""
    heads = chance.choice((2, 4, 8))
    numbers = {"words": chance.randint(6, 12), "width": heads * chance.choice((8, 16)), "heads": heads}
    return {**numbers, "layers": chance.randint(24, 40)}


ASKED_AGAIN = (
    AskedAgain("predict_no_residuals", no_residuals, {"words": 11, "width": 32, "layers": 24, "heads": 4}, draw),
)
