"""Exercises of lesson 11: scores that find a head by what it looks at, and the circuits that say what it does."""

from attnlib.checks.course.lesson_11.circuits import ABLATE_HEAD, OV_CIRCUIT, PATH_PATCH, QK_COMPOSITION
from attnlib.checks.course.lesson_11.measures import (
    ATTENTION_ENTROPY,
    COPYING_SCORE,
    INDUCTION_SCORE,
    PREVIOUS_TOKEN_SCORE,
    SINK_SCORE,
)
from attnlib.checks.course.lesson_11.predictions import PREDICT_FIXED_PERIOD, PREDICT_SINK

EXERCISES = (
    PREDICT_FIXED_PERIOD,
    PREVIOUS_TOKEN_SCORE,
    INDUCTION_SCORE,
    PREDICT_SINK,
    SINK_SCORE,
    ATTENTION_ENTROPY,
    ABLATE_HEAD,
    OV_CIRCUIT,
    COPYING_SCORE,
    QK_COMPOSITION,
    PATH_PATCH,
)
