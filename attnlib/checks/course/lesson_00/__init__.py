"""Exercises of lesson 00: the tools."""

from attnlib.checks.course.lesson_00.mend_squared_distances import MEND_SQUARED_DISTANCES
from attnlib.checks.course.lesson_00.pairwise_dot import PAIRWISE_DOT
from attnlib.checks.course.lesson_00.predictions import PREDICT_LARGEST_DOT

EXERCISES = (
    PREDICT_LARGEST_DOT,
    PAIRWISE_DOT,
    MEND_SQUARED_DISTANCES,
)
