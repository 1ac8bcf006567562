"""The two questions of lesson 03 that are answered before the cell that shows the answer."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

LESSON = "03_multi_head_attention"

PREDICT_HEAD_PARAMETERS = Exercise(
    name="predict_head_parameters",
    lesson=LESSON,
    contract="how many weights eight narrow heads have, next to one wide head",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Eight matrices (512, 64) side by side are one matrix (512, 512). That holds for queries, keys and "
    "values, and eight times 64 is what W^O takes in. More heads cost nothing here: they share the same width out.",
    misconceptions=(
        wrong(
            "full_width_each",
            "Each head has its share of the width",
            "You gave every head a full (512, 512). Then the heads joined would be 4096 wide. A head gets 64 of the "
            "512 columns, so its matrix is (512, 64), and eight of them are as large as the one.",
            "A",
        ),
        wrong(
            "sees_a_slice_of_x",
            "A head reads the whole word",
            "You let each head read only 64 of the 512 numbers of a word. A head's query has 64 numbers, but each of "
            "them is made from all 512: the matrix is (512, 64), not (64, 64). What is cut is the projection, not x.",
            "C",
        ),
        wrong(
            "joined_is_wider",
            "Side by side, they are as wide as before",
            "Eight outputs of width 64 are 512 numbers side by side, which is what one head of width 512 hands over. "
            "W^O does not notice the difference.",
            "D",
        ),
    ),
)

PREDICT_RESHAPED_HEADS = Exercise(
    name="predict_reshaped_heads",
    lesson=LESSON,
    contract="what the first head sees when heads are made by reshape alone",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="reshape leaves the numbers in their order and only breaks the lines elsewhere. In that order, the "
    "first third of the numbers is the first four words, all nine columns of each. Every word is cut into three rows.",
    misconceptions=(
        wrong(
            "shape_is_meaning",
            "The shape is right, the numbers are others",
            "The shape is that of split_heads, and so you expect its contents. But reshape(3, 12, 3) takes the "
            "numbers as they lie in memory, word after word, and fills the first head until it is full. That happens "
            "after four words.",
            "A",
        ),
        wrong(
            "every_third_column",
            "In memory, a word lies in one piece",
            "Every third column would be the pattern (d h): the heads take turns. reshape takes the numbers one after "
            "the other, and the first nine of them are the whole first word.",
            "C",
        ),
        wrong(
            "expects_an_error",
            "12 · 9 = 3 · 12 · 3, and that is all that reshape asks",
            "No error comes. reshape counts numbers, it does not know that an axis means words. This is what makes the "
            "mistake so common.",
            "D",
        ),
    ),
)
