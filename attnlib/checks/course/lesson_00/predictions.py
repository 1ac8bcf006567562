"""Predict, then run: the questions of lesson 00."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

PREDICT_LARGEST_DOT = Exercise(
    name="predict_largest_dot",
    lesson="00_start_here",
    contract='"A", "B", "C" or "D": which word has the largest dot product with “the”, by letter counts?',
    parts={"prediction": 1},
    kind="choice",
    reference="B",
    explanation="“street” has two t and two e, so its dot product with “the” is 2 + 2 = 4. The word “the” gets only "
    "1 + 1 + 1 = 3 from itself. A long vector can beat a perfect match.",
    misconceptions=(
        wrong(
            "self_fits_best",
            "A vector need not fit itself best",
            "That holds for cosines, where all vectors have length 1. The dot product also grows with the length of "
            "the other vector. Work out “the” · “the”, and then “the” · “street”, which has each t and each e twice.",
            "A",
        ),
        wrong(
            "longest_word_wins",
            "Length helps only in the right places",
            "A letter adds to the sum only if both words contain it. “because” has seven letters, but of t, h and e "
            "only the e, twice: the dot product is 2. Look for the letters of “the” in the other words.",
            "C",
        ),
        wrong(
            "counts_letters_once",
            "Multiply the counts; do not only tick off common letters",
            "“street” and “tired” both contain t and e, but “street” contains each of them twice, and the dot "
            "product multiplies these counts: 1·2 + 1·2 for “street”, 1·1 + 1·1 for “tired”.",
            "D",
        ),
    ),
)
