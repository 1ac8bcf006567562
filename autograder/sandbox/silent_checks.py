"""The checks, while grading: they are silent here, and the grader's own follow.

A file that nobody imports here: a student's `import attnlib.checks` finds its text, by `views.py`.
"""

from typing import Any, NoReturn


class CheckFailed(AssertionError):
    """Never raised here."""


def check(name: str, attempt: Any) -> None:
    """Nothing: the grader judges the answer itself."""


def grade(name: str, attempt: Any) -> None:
    """Nothing: the grader judges the answer itself."""


def keep(name: str, attempt: Any) -> None:
    """Nothing: answers are kept on the student's machine."""


def run(name: str, attempt: Any, **settings: Any) -> "Report":
    """A report that says that all is right, whatever it is: below it, the student's own tests go on."""
    return Report()


class Report:
    """What a check says, where all is right."""

    passed, score, points, max_points, diagnosis, headline, message = True, 1.0, 1.0, 1, None, "", ""


def yours_or_ours(name: str, written: dict[str, Any], *, called: str | None = None) -> Any:
    """The student's own answer, whatever it is: the grader judges it itself."""
    return written.get(called or name)


def trained(name: str, model: Any, train: Any = None, folder: Any = None) -> Any:
    """The model as it is: nothing is loaded, trained or kept while grading."""
    return model


def keep_weights(name: str, model: Any, folder: Any = None) -> None:
    """Nothing: weights are kept on the student's machine."""


def progress(lesson: str | None = None) -> None:
    """Nothing: how far a student is, is kept on the student's machine."""


class Practice:
    """Nothing, whatever is called: what a student has met is kept on the student's machine."""

    def __call__(self, *about: Any, **more: Any) -> None:
        """Nothing is asked."""

    def __getattr__(self, name: str) -> "Practice":
        return self


practice = Practice()


def exercises() -> NoReturn:
    """Not available."""
    raise RuntimeError("attnlib.checks.exercises is not available while grading")
