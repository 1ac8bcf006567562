"""From a lesson's text to a student's grade: build and release, the nbgrader course, and grading.

Run from the repository's root as `python -m autograder`. One transformation a file: what happens to a notebook inside
nbgrader is in `autograder.steps`, in the order that `nbgrader_config.py` lists; what happens around nbgrader is here.
`autograder.grade(source, submission)` grades one submission as a function.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "grade":  # only then: it imports torch
        from autograder.grade_one import grade

        return grade
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
