"""Lesson 03's prediction, asked again about other shapes."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted, ordinal


def reshaped_heads(words: int, columns: int, heads: int) -> Question:
    """Ask what head 0 of a reshape contains; `heads` must divide the number of words and that of columns."""
    wide, whole = columns // heads, words // heads
    return Question(
        text=f"`x` has the shape (1, {words}, {columns}): one sentence of {counted(words)} words, each with "
        f"{counted(columns)} columns. What's in head 0 of `x.reshape(1, {heads}, {words}, {wide})`, meant as (batch, "
        "heads, words, columns)?",
        right=f"all {counted(columns)} columns of the first {counted(whole)} words",
        wrong=(
            WrongOption(
                "shape_is_meaning",
                f"the first {counted(wide)} columns of all {counted(words)} words, as in `split_heads`",
                f"The shape is that of split_heads, so you expect the same contents. But reshape({heads}, {words}, "
                f"{wide}) takes the numbers in their order in memory, word after word, and fills the first head until "
                f"it's full. A head has room for {words} · {wide} = {words * wide} numbers.",
            ),
            WrongOption(
                "every_third_column",
                f"every {ordinal(heads)} column of all {counted(words)} words",
                f"Every {ordinal(heads)} column would be the pattern (d h): the heads take turns. reshape takes the "
                f"numbers one after the other, and the first {counted(columns)} are the whole first word.",
            ),
            WrongOption(
                "expects_an_error",
                "nothing: the numbers don't fit, and torch raises an error",
                "There's no error. reshape only counts the numbers, and doesn't know that an axis means words. That's "
                "why this mistake is so common.",
                title=f"{words} · {columns} = {heads} · {words} · {wide}, and that is all reshape checks",
            ),
        ),
        why=f"reshape keeps the numbers in their order and only moves the line breaks. In that order, the first of "
        f"{counted(heads)} equal parts of the numbers is the first {counted(whole)} words, with all "
        f"{counted(columns)} columns of each. Every word is cut into {counted(heads)} rows.",
    )


def draw(chance: Random) -> dict[str, Any]:
    """Draw two to five heads, and lengths that their number divides."""
    heads = chance.randint(2, 5)
    return {"words": heads * chance.randint(2, 5), "columns": heads * chance.randint(2, 4), "heads": heads}


ASKED_AGAIN = (AskedAgain("predict_reshaped_heads", reshaped_heads, {"words": 12, "columns": 9, "heads": 3}, draw),)
