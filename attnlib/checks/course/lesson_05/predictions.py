"""The three predictions of lesson 05."""

from attnlib.checks.course.usual import wrong
from attnlib.checks.exercise import Exercise

LESSON = "05_causal_attention"

PREDICT_ZEROED_FUTURE = Exercise(
    name="predict_zeroed_future",
    lesson=LESSON,
    contract="whether the past learns of the future when future weights are set to zero after the softmax",
    kind="choice",
    parts={"choice": 1},
    reference="C",
    explanation="Every weight of the softmax is divided by a sum over all keys, future ones included. A large future "
    "score makes that sum large and the kept weights small. So an output near zero tells what is to come.",
    misconceptions=(
        wrong(
            "zero_weight_no_influence",
            "A weight of zero does not end the influence",
            "You are right that no future *value* comes through: its weight is 0. But the weights that are kept were "
            "divided by a sum in which the future *scores* stand. When one of them grows, all kept weights shrink.",
            "A",
        ),
        wrong(
            "only_the_first_row",
            "The first row is not the only one",
            "The first row shows it best: one weight is left, and it is not 1. But every row but the last has lost "
            "something, and how much depends on the words to come.",
            "B",
        ),
        wrong(
            "values_leak",
            "The values do not leak",
            "A value with weight 0 adds nothing, so which values stand in the future does not matter. It is the future "
            "*keys* that leak: their scores are in the denominator of every weight that is kept.",
            "D",
        ),
    ),
)

PREDICT_BLOCKED_ROW = Exercise(
    name="predict_blocked_row",
    lesson=LESSON,
    contract="the weights of a query for which every key is blocked with -1e9",
    kind="choice",
    parts={"choice": 1},
    reference="B",
    explanation="Softmax sees only differences. A row of equal numbers has none, whether they are 0 or -1e9: four "
    "keys, 1/4 each. The query attends to everything that it must not see.",
    misconceptions=(
        wrong(
            "low_scores_low_weights",
            "Low scores are not low weights",
            "exp(-1e9) is 0, you are right. But the softmax subtracts the largest score of the row first, and that is "
            "-1e9, too. What is left is a row of zeros, and e⁰ = 1 for all. A softmax always hands out 1.",
            "A",
        ),
        wrong(
            "nan_from_finite",
            "-1e9 is a number",
            "NaN would come from -inf: -inf minus -inf is not defined. -1e9 minus -1e9 is 0. That is why people like "
            "-1e9, and why their mistakes stay unseen.",
            "C",
        ),
        wrong(
            "scores_come_through",
            "The scores are gone",
            "masked_fill puts -1e9 *in place of* the score, so nothing of it is left. If -1e9 were *added*, the "
            "differences might survive (in float64), or be rounded away (in float32).",
            "D",
        ),
    ),
)

PREDICT_OTHER_ENDING = Exercise(
    name="predict_other_ending",
    lesson=LESSON,
    contract="which outputs of causal attention differ between two sentences that differ in their last word",
    kind="choice",
    parts={"choice": 1},
    reference="A",
    explanation="Only the last position sees the last word. All others see the same words in both sentences, and give "
    "the same output, to the last bit. “it” cannot know yet what it stands for.",
    misconceptions=(
        wrong(
            "it_looks_ahead",
            "“it” comes before the word that explains it",
            "For a reader “it” depends on the last word, because a reader can look back from it. Here each position "
            "looks back from where *it* stands, and “it” stands two words before the end.",
            "B",
        ),
        wrong(
            "everything_changes",
            "Without a mask you would be right",
            "With the future open, every word asks the last one, too, and every output changes. The mask takes "
            "that key away from all queries but the last.",
            "C",
        ),
        wrong(
            "noun_changes_too",
            "Nobody goes back to “animal”",
            "It would help to mark “animal” once the sentence has shown who is meant. But its output was computed from "
            "what came before it, and nothing later can reach it, in this layer or in any further one.",
            "D",
        ),
    ),
)
