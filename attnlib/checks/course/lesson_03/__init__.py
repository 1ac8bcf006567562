"""Exercises of lesson 03: multi-head attention."""

from attnlib.checks.course.lesson_03.mend_multi_head import MEND_MULTI_HEAD
from attnlib.checks.course.lesson_03.merge_heads import MERGE_HEADS
from attnlib.checks.course.lesson_03.multi_head_self_attention import MULTI_HEAD_SELF_ATTENTION
from attnlib.checks.course.lesson_03.predictions import PREDICT_HEAD_PARAMETERS, PREDICT_RESHAPED_HEADS
from attnlib.checks.course.lesson_03.split_heads import SPLIT_HEADS
from attnlib.checks.course.lesson_03.stack_head_weights import STACK_HEAD_WEIGHTS

EXERCISES = (
    STACK_HEAD_WEIGHTS,
    SPLIT_HEADS,
    PREDICT_RESHAPED_HEADS,
    MERGE_HEADS,
    PREDICT_HEAD_PARAMETERS,
    MULTI_HEAD_SELF_ATTENTION,
    MEND_MULTI_HEAD,
)
