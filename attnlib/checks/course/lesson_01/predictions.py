"""Predict, then run: the questions of lesson 01."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

PREDICT_QUERY_OF_IT = Exercise(
    name="predict_query_of_it",
    lesson="01_qkv_projections",
    contract='"A", "B", "C" or "D": is the query of “it” the same in both sentences?',
    parts={"prediction": 1},
    kind="choice",
    reference="A",
    explanation="The same token has the same row of the table, and the same row times the same matrix is the same "
    "query. A projection never looks at another word. Only attention, in lesson 02, lets one word learn of another.",
    misconceptions=(
        wrong(
            "query_sees_context",
            "A projection sees one word only",
            "That is what we would like, and what attention is for. But the query is computed from the vector of "
            "“it” alone, and this vector is the same row of the table in both sentences. Nothing has told it what "
            "follows.",
            "B",
        ),
        wrong(
            "product_mixes_words",
            "A product X W mixes features, not words",
            "Row n of X W is row n of X times W: it mixes the six numbers of one word. Words would be mixed by a "
            "matrix on the other side of X, and exactly that is what attention puts there in lesson 02.",
            "C",
        ),
        wrong(
            "training_would_differ",
            "Training changes the matrix, not what it is given",
            "Whatever the numbers in the matrix are, it gets the same six numbers in both sentences, and returns "
            "the same four. No training can make one matrix give two answers to one question.",
            "D",
        ),
    ),
)
