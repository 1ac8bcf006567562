"""Exercises of lesson 05: causal attention and masks."""

from attnlib.checks.course.lesson_05.causal_mask import CAUSAL_MASK
from attnlib.checks.course.lesson_05.causal_self_attention import CAUSAL_SELF_ATTENTION
from attnlib.checks.course.lesson_05.masked_softmax import MASKED_SOFTMAX
from attnlib.checks.course.lesson_05.mend_padded_causal_weights import MEND_PADDED_CAUSAL_WEIGHTS
from attnlib.checks.course.lesson_05.padding_mask import PADDING_MASK
from attnlib.checks.course.lesson_05.predictions import PREDICT_BLOCKED_ROW, PREDICT_OTHER_ENDING, PREDICT_ZEROED_FUTURE
from attnlib.checks.course.lesson_05.renormalised_causal_weights import RENORMALISED_CAUSAL_WEIGHTS

EXERCISES = (
    CAUSAL_MASK,
    PREDICT_ZEROED_FUTURE,
    RENORMALISED_CAUSAL_WEIGHTS,
    PREDICT_BLOCKED_ROW,
    MASKED_SOFTMAX,
    PADDING_MASK,
    PREDICT_OTHER_ENDING,
    CAUSAL_SELF_ATTENTION,
    MEND_PADDED_CAUSAL_WEIGHTS,
)
