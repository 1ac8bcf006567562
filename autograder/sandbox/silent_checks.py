"""The checks while grading: silent, because the grader's own follow.

Nothing imports this file: `views.py` gives its text to a student's `import attnlib.checks`.
"""

from typing import Any, NoReturn


class CheckFailed(AssertionError):
    """Never raised here."""


def check(name: str, attempt: Any) -> None:
    """Do nothing: the grader judges the answer itself."""


def grade(name: str, attempt: Any) -> None:
    """Do nothing: the grader judges the answer itself."""


def keep(name: str, attempt: Any) -> None:
    """Do nothing: answers are kept on the student's machine."""


def run(name: str, attempt: Any, **settings: Any) -> "Report":
    """Return a report that all is right, whatever the answer is, so that the student's own tests below it go on."""
    return Report()


class Report:
    """The report of a check in which all is right."""

    passed, score, points, max_points, diagnosis, headline, message = True, 1.0, 1.0, 1, None, "", ""


LENT: dict[str, str] = {}
"""Right answers to exercises of other lessons, by name: what a notebook goes on with never depends on a student's."""


def yours_or_ours(name: str, written: dict[str, Any], *, called: str | None = None, asked: Any = None) -> Any:
    """Return the student's own answer, whatever it is, since the grader judges it itself; of another lesson, ours."""
    if name not in LENT or (called or name) in written:
        return written.get(called or name)
    found: dict[str, Any] = {}
    exec(LENT[name], found)
    return found[called or name]


def trained(name: str, model: Any, train: Any = None, folder: Any = None) -> Any:
    """Return the model as it is: nothing is loaded, trained or kept while grading."""
    return model


def keep_weights(name: str, model: Any, folder: Any = None) -> None:
    """Do nothing: weights are kept on the student's machine."""


def progress(lesson: str | None = None) -> None:
    """Do nothing: a student's progress is kept on the student's machine."""


class Practice:
    """Does nothing, whatever is called: the history of practice is kept on the student's machine."""

    def __call__(self, *about: Any, **more: Any) -> None:
        """Ask nothing."""

    def __getattr__(self, name: str) -> "Practice":
        return self


practice = Practice()


def exercises() -> NoReturn:
    """Raise RuntimeError: the exercises are not available while grading."""
    raise RuntimeError("attnlib.checks.exercises is not available while grading")
