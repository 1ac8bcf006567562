"""A class of five and its attempts, counted by hand in the tests of the report."""

from attnlib.checks import exercises
from autograder.report.collect import Mark, Submission

KNOWN = exercises()
LESSON = "02_scaled_dot_product_attention"
PARTS = KNOWN["softmax"].parts  # values 2, large scores 1, gradient 1, robustness 1


def attempt(points, diagnosis=None, right=(), exercise="softmax", in_short=None):
    worth = KNOWN[exercise].parts
    parts = {part: part in right for part in worth}
    return Mark(exercise, points, sum(worth.values()), diagnosis, parts, in_short or diagnosis)


def submission(student, *attempts):
    return Submission(student, LESSON, attempts)


FIVE = [
    submission("ada", attempt(5, right=PARTS)),
    submission("bea", attempt(0, "over_queries"), attempt(0, "no_scale", exercise="attention_scores")),
    submission("cyd", attempt(3, "no_shift", right=("values", "robustness"))),
    submission("dan", attempt(0, "over_queries")),
    submission("eve", attempt(0, "not answered")),
]
LOST = Submission("fay", LESSON, problem="the notebook is not JSON")
