"""Exercises of lesson 11: scores that find a head by what it looks at, and the circuits that say what it does."""

from attnlib.checks.course.lesson_11 import circuits, measures, predictions

EXERCISES = (*measures.EXERCISES, *predictions.EXERCISES, *circuits.EXERCISES)
