"""Predict, then run: the questions of lesson 02."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

PREDICT_BLANK_QUERY = Exercise(
    name="predict_blank_query",
    lesson="02_scaled_dot_product_attention",
    contract="the weights of a word whose query is all zeros",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="A query of zeros scores 0 with every key, and e⁰ = 1 for all of them: eleven equal shares of 1/11. A "
    "word that asks for nothing gets the plain average of all values.",
    wrong=(
        wrong(
            "zero_score_zero_weight",
            "A score of 0 is not a weight of 0",
            "The scores are all 0, you are right. But softmax takes e to the power of each, and e⁰ is 1. Weights "
            "always add up to 1, so somebody must get them.",
            "A",
        ),
        wrong(
            "default_to_self",
            "Nothing makes a word look at itself",
            "The query of a word and its own key are two different vectors. Their dot product is a score like any "
            "other, and here it is 0, as with all the other keys.",
            "C",
        ),
        wrong(
            "zero_over_zero",
            "The denominator is a sum of exponentials",
            "It would be 0/0 if you divided each score by the sum of the scores. Softmax divides e⁰ = 1 by the sum of "
            "eleven times e⁰, which is 11.",
            "D",
        ),
    ),
)


PREDICT_DOT_SPREAD = Exercise(
    name="predict_dot_spread",
    lesson="02_scaled_dot_product_attention",
    contract="the standard deviation of the dot product of two random vectors with d = 256",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Each of the 256 terms has variance 1, variances of independent terms add up to 256, and the standard "
    "deviation is the root of that: √256 = 16.",
    wrong=(
        wrong(
            "terms_cancel",
            "The mean stays 0, the spread does not stay 1",
            "Positive and negative terms cancel on average, which keeps the mean at 0. But they never cancel exactly. "
            "What is left over grows with the number of terms, as in a random walk.",
            "A",
        ),
        wrong(
            "variance_for_deviation",
            "That is the variance",
            "256 terms with variance 1 each give a variance of 256. The standard deviation is its root. All terms "
            "would have to agree in sign for the sum itself to get as large as 256.",
            "C",
        ),
        wrong(
            "depends_on_keys",
            "A dot product knows one query and one key",
            "How many other keys there are does not enter q · k: it is a sum of d terms. The number of keys matters "
            "later, when softmax compares the scores with one another.",
            "D",
        ),
    ),
)


PREDICT_SWAPPED_WORDS = Exercise(
    name="predict_swapped_words",
    lesson="02_scaled_dot_product_attention",
    contract="what self-attention makes of a sentence in which two words are swapped",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Each output is made from one query and the same eleven pairs of keys and values. Their order does "
    "not enter a sum, so every word gets what it got before, at its new place.",
    wrong=(
        wrong(
            "neighbours_matter",
            "Attention has no neighbours",
            "A score compares two words wherever they are; nothing in the formula says what is next to what. The "
            "same eleven words answer in both sentences, so every word hears the same answers.",
            "A",
        ),
        wrong(
            "invariant_not_equivariant",
            "The sum runs over keys, not over queries",
            "You are right that each output is a sum, and that the order of the keys does not matter to it. But there "
            "is one output for each query: when a word moves, its question moves with it, and so does its row of the "
            "output.",
            "C",
        ),
    ),
)
