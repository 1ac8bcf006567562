"""From a lesson's text to a student's grade: build and release, the nbgrader course, and grading.

Run from the repository's root as `python -m autograder`. The rooms, each of which uses those before it: `showing`,
`lesson_text`, `sandbox`, `judging` (one submission), `in_nbgrader` (its commands, by `nbgrader_config.py`), `building`,
`grading` (a class), `report`; `elsewhere`, the adapters for other platforms; and `proof`, which shows that the checks
can be trusted.
`autograder.grade(source, submission)` grades one submission as a function.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "grade":  # only then: it imports torch
        from autograder.judging.grade_one import grade

        return grade
    raise AttributeError(f"module 'autograder' has no attribute {name!r}")
