"""Exercises of lesson 02: scaled dot-product attention."""

from attnlib.checks.course.lesson_02.additive_attention import ADDITIVE_ATTENTION
from attnlib.checks.course.lesson_02.attention_scores import ATTENTION_SCORES
from attnlib.checks.course.lesson_02.mend_self_attention import MEND_SELF_ATTENTION
from attnlib.checks.course.lesson_02.predictions import PREDICT_BLANK_QUERY, PREDICT_DOT_SPREAD, PREDICT_SWAPPED_WORDS
from attnlib.checks.course.lesson_02.scaled_dot_product_attention import SCALED_DOT_PRODUCT_ATTENTION
from attnlib.checks.course.lesson_02.self_attention import SELF_ATTENTION
from attnlib.checks.course.lesson_02.softmax import SOFTMAX_EXERCISE
from attnlib.checks.course.lesson_02.train_head import TRAIN_HEAD

EXERCISES = (
    PREDICT_BLANK_QUERY,
    ATTENTION_SCORES,
    SOFTMAX_EXERCISE,
    PREDICT_DOT_SPREAD,
    SCALED_DOT_PRODUCT_ATTENTION,
    SELF_ATTENTION,
    TRAIN_HEAD,
    PREDICT_SWAPPED_WORDS,
    MEND_SELF_ATTENTION,
    ADDITIVE_ATTENTION,
)
