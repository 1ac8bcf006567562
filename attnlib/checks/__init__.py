"""Exercises as data: the reference, the cases, the misconceptions; and the checks that follow from them.

>>> from attnlib.checks import run
>>> report = run("attention_scores", lambda q, k: q @ k.mT)
>>> report.passed, report.diagnosis
(False, 'no_scale')
"""

from attnlib.checks.check import CheckFailed, check, grade, keep, run
from attnlib.checks.course import exercises
from attnlib.checks.exercise import Case, Exercise, Misconception
from attnlib.checks.practising.play import practice
from attnlib.checks.standing.progress import progress
from attnlib.checks.standing.weights import keep_weights, trained
from attnlib.checks.verdict.report import Report
from attnlib.checks.yours_or_ours import yours_or_ours

__all__ = [
    "Case",
    "CheckFailed",
    "Exercise",
    "Misconception",
    "Report",
    "check",
    "exercises",
    "grade",
    "keep",
    "keep_weights",
    "practice",
    "progress",
    "run",
    "trained",
    "yours_or_ours",
]
