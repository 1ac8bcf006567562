"""Exercises of lesson 04: cross-attention."""

from attnlib.checks.course.lesson_04.cross_attention import CROSS_ATTENTION
from attnlib.checks.course.lesson_04.mend_decoder_attention import MEND_DECODER_ATTENTION
from attnlib.checks.course.lesson_04.multi_head_cross_attention import MULTI_HEAD_CROSS_ATTENTION
from attnlib.checks.course.lesson_04.predictions import (
    PREDICT_LONGER_SOURCE,
    PREDICT_SHUFFLED_MEMORY,
    PREDICT_WHO_SETS_THE_LENGTH,
)

EXERCISES = (
    PREDICT_WHO_SETS_THE_LENGTH,
    CROSS_ATTENTION,
    PREDICT_SHUFFLED_MEMORY,
    MULTI_HEAD_CROSS_ATTENTION,
    PREDICT_LONGER_SOURCE,
    MEND_DECODER_ATTENTION,
)
