"""Exercises of lesson 01: queries, keys and values."""

from attnlib.checks.course.lesson_01.embed import EMBED
from attnlib.checks.course.lesson_01.mend_unpack_qkv import MEND_UNPACK_QKV
from attnlib.checks.course.lesson_01.predictions import PREDICT_QUERY_OF_IT
from attnlib.checks.course.lesson_01.project_qkv import PROJECT_QKV
from attnlib.checks.course.lesson_01.project_qkv_fused import PROJECT_QKV_FUSED
from attnlib.checks.course.lesson_01.qkv_projection import QKV_PROJECTION

EXERCISES = (
    EMBED,
    PREDICT_QUERY_OF_IT,
    PROJECT_QKV,
    PROJECT_QKV_FUSED,
    MEND_UNPACK_QKV,
    QKV_PROJECTION,
)
