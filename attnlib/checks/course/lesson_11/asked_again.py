"""Lesson 11's prediction, asked again about other periods."""

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption


def fixed_period(period: int) -> Question:
    """Ask what a model learns if the repeated block has the same length in every sequence."""
    back = period - 1
    return Question(
        text="A model with two layers and rotary positions reads sequences in which a block of random tokens, a new "
        f"one for each sequence, is repeated over and over. The block's length is {period} in every sequence. What "
        "does the model learn?",
        right=f"to look {back} places back, without comparing any tokens; one layer is enough, for this period only",
        wrong=(
            WrongOption(
                "same_two_heads",
                "the same as with changing lengths: to find the token's last occurrence, and say what came after it",
                "Training finds what lowers the loss, not what generalises. If the distance never changes, nothing has "
                f"to be matched, and one head that looks {back} positions back is easier to find than two that must "
                "work together.",
            ),
            WrongOption(
                "nothing_to_learn",
                "nothing: with a fixed distance there's nothing left to learn",
                "The tokens of a block are still random, but from the second block on, each is the one from "
                f"{period} positions before, so the model can predict it exactly. It needs only the distance.",
            ),
            WrongOption(
                "blocks_by_heart",
                "the blocks by heart",
                f"Every sequence draws a new block, and there are far too many possible blocks of {period} tokens. "
                "There's nothing to learn by heart but the distance.",
            ),
        ),
        why=f"With a period of {period}, the next token is always the one {back} places back. Rotary positions can say "
        f"“{back} places back” in one layer, without comparing any tokens, and that head is useless once the "
        "period changes.",
    )


ASKED_AGAIN = (
    AskedAgain("predict_fixed_period", fixed_period, {"period": 16}, lambda chance: {"period": chance.randint(5, 40)}),
)
