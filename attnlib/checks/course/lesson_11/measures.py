"""Where a head looks: scores of its attention weights, and two predictions."""

from attnlib.checks.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
