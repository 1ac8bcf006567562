"""Lesson 01's prediction, asked again with other letters."""

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption


def query_of_it() -> Question:
    """Ask whether a projection knows what a word refers to."""
    return Question(
        text="“The animal did not cross the street because it was tired” and “… because it was wide”: each word is "
        "a row of X, six numbers from one table, without positions. Random matrices project X to queries, keys and "
        "values of four numbers. Compare the query of “it” in the first sentence with the query of “it” in the "
        "second. What do you find?",
        right="They are the same four numbers, because the same row of the table is multiplied by the same matrix.",
        wrong=(
            WrongOption(
                "query_sees_context",
                "They differ, because the sentences go on differently, and “tired” and “wide” make “it” look for "
                "different things.",
            ),
            WrongOption(
                "product_mixes_words",
                "They differ, because a matrix product mixes all the rows of X, and the last row is different.",
            ),
            WrongOption(
                "training_would_differ",
                "Here they are the same, but only because our matrices are random. With trained matrices they would "
                "differ.",
            ),
        ),
    )


ASKED_AGAIN = (AskedAgain("predict_query_of_it", query_of_it),)
