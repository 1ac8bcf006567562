"""The questions of lesson 04 that are answered before the cell that shows the answer."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

LESSON = "04_cross_attention"

PREDICT_WHO_SETS_THE_LENGTH = Exercise(
    name="predict_who_sets_the_length",
    lesson=LESSON,
    contract="the shapes of output and weights when 3 German words ask 11 English ones",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Each of the 3 askers gets one answer: 3 rows, as wide as a value. Each looks at 11 words: 3 rows of "
    "11 weights. The length of the memory is summed away.",
    misconceptions=(
        wrong(
            "answers_set_the_length",
            "Whoever asks gets the rows",
            "You gave every English word a row. They only answer, and nobody answers *them*. An output row is the mix "
            "that one asker took home, and three German words asked.",
            "A",
        ),
        wrong(
            "width_of_x",
            "The width is that of the values",
            "The number of rows is right. But a row is an average of values, and a value has 2 numbers, legs and "
            "lanes. The width of x, 3, is gone as soon as the queries are made.",
            "C",
        ),
        wrong(
            "weights_square",
            "The weights are a rectangle",
            "In self-attention the table is square, because the same words ask and answer. Here 3 ask and 11 answer. "
            "Each asker needs a weight for each of the 11.",
            "D",
        ),
    ),
)

PREDICT_SHUFFLED_MEMORY = Exercise(
    name="predict_shuffled_memory",
    lesson=LESSON,
    contract="what becomes of output and weights when the words of the memory are shuffled",
    kind="choice",
    parts={"choice": 1},
    reference="C",
    explanation="Each key moves together with its value. So every asker finds the same pairs, gives them the same "
    "weights, and adds up the same terms. Only the columns of the table stand in another order.",
    misconceptions=(
        wrong(
            "equivariant_here_too",
            "There the words that asked had moved",
            "In lesson 02 the rows of the output moved because the words that *asked* had moved. Here the askers "
            "stay where they are. What moves are the answers, and a sum does not mind its order.",
            "A",
        ),
        wrong(
            "order_matters",
            "The memory is a set",
            "A score compares one query with one key, wherever the key stands. Nothing in the formula knows a place, "
            "so 11 words in another order are the same 11 words.",
            "B",
        ),
        wrong(
            "weights_stay",
            "The weights follow the words",
            "The output stays, you are right. But a weight belongs to a word, not to a place. When *animal* moves to "
            "column 9, its weight moves to column 9, or the wrong value would be fetched.",
            "D",
        ),
    ),
)

PREDICT_LONGER_SOURCE = Exercise(
    name="predict_longer_source",
    lesson=LESSON,
    contract="what lets a question find its digit when the text before it gets longer",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="The ten questions are parameters: they do not depend on the date at all. The digit brings its key "
    "along when it moves, and the same query fits the same key at the new place.",
    misconceptions=(
        wrong(
            "query_adapts",
            "The questions do not know the text",
            "The query of the last place is a parameter times W^Q. It is the same vector for every date, and it has "
            "not seen a character of this one. What differs is on the other side: the keys.",
            "A",
        ),
        wrong(
            "learned_a_place",
            "Nobody ever told it a place",
            "A query could only prefer a place if the keys said where they stand. These keys are made from a character "
            "and two neighbours on either side. The same characters eight places further have the same keys.",
            "C",
        ),
        wrong(
            "padding_does_it",
            "The mask opens or closes, it does not point",
            "The mask keeps the padding from answering, and nothing else. Among the real characters it treats all "
            "alike, so it cannot be what finds the digit.",
            "D",
        ),
    ),
)
