"""Predict, then run: the questions of lesson 11."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

LESSON = "11_reading_heads"

PREDICT_SINK = Exercise(
    name="predict_sink",
    lesson=LESSON,
    contract="where the heads of layer 1 look in the first block, in which nothing repeats yet",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="The weights of a row add up to 1, so a head that has found nothing must put them somewhere. BOS is in "
    "every sequence and says nothing about the next token, so a look at it can be made harmless: an attention sink.",
    wrong=(
        wrong(
            "spread_evenly",
            "Even weights are not harmless",
            "Even weights would hand on the mean of all earlier tokens, which is noise to the prediction. The loss "
            "falls if the head learns to look at one token whose value does no harm.",
            "A",
        ),
        wrong(
            "looks_nowhere",
            "A softmax cannot look nowhere",
            "Each row of weights adds up to 1, however small the scores are: a query that matches no key still has all "
            "of its weight to give. You met this in lesson 03.",
            "C",
        ),
        wrong(
            "stays_at_the_previous_token",
            "That is what layer 0 does",
            "A previous-token head of layer 0 always looks one token back, and there that is of use. The induction "
            "heads of layer 1 predict what they look at. To look at the previous token would predict it once more, "
            "and that is hardly ever right.",
            "D",
        ),
    ),
)

PREDICT_FIXED_PERIOD = Exercise(
    name="predict_fixed_period",
    lesson=LESSON,
    contract="what a model learns if the block has the same length in every sequence, say 16",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="With a period of 16, the next token is always the one 15 places back. Rotary positions can say “15 "
    "places back” in one layer, without comparing any tokens, and such a head is lost as soon as the period changes.",
    wrong=(
        wrong(
            "same_two_heads",
            "There is a shorter way",
            "Training finds what lowers the loss, not what generalises. Where the distance never changes, nothing has "
            "to be matched, and one head that looks 15 places back is easier to find than two that must work "
            "together.",
            "A",
        ),
        wrong(
            "nothing_to_learn",
            "A fixed distance is easier, not harder",
            "The tokens of a block are still drawn at random, but from the second block on each is the one from 16 "
            "places before, so it can be predicted exactly. The model needs only the distance.",
            "C",
        ),
        wrong(
            "blocks_by_heart",
            "No block comes a second time",
            "Every sequence draws a new block: 63 tokens in 16 places make 63¹⁶ blocks. There is nothing to learn by "
            "heart but the distance.",
            "D",
        ),
    ),
)
