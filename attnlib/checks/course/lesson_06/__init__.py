"""Exercises of lesson 06: the encoder block."""

from attnlib.checks.course.lesson_06.encoder_block import ENCODER_BLOCK
from attnlib.checks.course.lesson_06.feed_forward import FEED_FORWARD
from attnlib.checks.course.lesson_06.layer_norm import LAYER_NORM
from attnlib.checks.course.lesson_06.mend_encoder_block import MEND_ENCODER_BLOCK
from attnlib.checks.course.lesson_06.predictions import PREDICT_CROSSOVER, PREDICT_NO_RESIDUALS

EXERCISES = (
    PREDICT_NO_RESIDUALS,
    LAYER_NORM,
    FEED_FORWARD,
    ENCODER_BLOCK,
    PREDICT_CROSSOVER,
    MEND_ENCODER_BLOCK,
)
