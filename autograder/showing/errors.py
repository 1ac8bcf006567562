"""Errors a person can fix, as one clear sentence without a traceback; and reports of all others."""

import traceback
from pathlib import Path

from autograder.showing.text import printable


class CourseError(Exception):
    """An error whose message says what is wrong and, where it is known, what would be right."""


class NotGraded(Exception):
    """Raised where a submission can't be graded, with the reason as a clause; never a 0."""


def reason_of(error: BaseException) -> str:
    """Return the reason for not grading, as a clause: for a fault of the grader's own, its type and place."""
    if isinstance(error, NotGraded):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"the grader failed: {type(error).__name__}: {first_line(error)}{place}"


def trace_of(error: BaseException) -> str:
    """Return the traceback of a fault of the grader's own, for the person who fixes it; empty for a submission's."""
    if isinstance(error, NotGraded):
        return ""
    text = "".join(traceback.format_exception(error, limit=-30))[-20_000:]
    return printable(text, keep="\n")  # a message may hold what a student wrote


def first_line(error: BaseException | str) -> str:
    """Return the first line of a message, cut to the length of a line."""
    lines = str(error).strip().splitlines()
    text = lines[0].rstrip(".") if lines else type(error).__name__
    return text if len(text) <= 160 else text[:157] + "…"
