"""The exercises of lesson 06: the encoder block, its norms, MLP and cost, and a reader of digits made of blocks."""

from attnlib.checks.course.lesson_06.block import (
    ENCODER_BLOCK,
    FEED_FORWARD,
    LAYER_NORM,
    MEND_ENCODER_BLOCK,
    POST_NORM_BLOCK,
    PREDICT_CROSSOVER,
    PREDICT_NO_RESIDUALS,
)
from attnlib.checks.course.lesson_06.block_cost import BLOCK_COST
from attnlib.checks.course.lesson_06.digit_reader import DIGIT_READER

EXERCISES = (
    PREDICT_NO_RESIDUALS,
    LAYER_NORM,
    FEED_FORWARD,
    ENCODER_BLOCK,
    DIGIT_READER,
    MEND_ENCODER_BLOCK,
    POST_NORM_BLOCK,
    PREDICT_CROSSOVER,
    BLOCK_COST,
)
