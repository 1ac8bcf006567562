"""Odd answers: no right one is rejected, no wrong one passes."""

from typing import Any

import pytest
from odd import RIGHT, WRONG
from verdict_alone import passes

from attnlib.checks import run

pytestmark = pytest.mark.slow


def _listed(answers: list[tuple[str, Any]]) -> list[Any]:
    return [pytest.param(name, a, id=f"{name}-{i}-{getattr(a, '__name__', '')}") for i, (name, a) in enumerate(answers)]


@pytest.mark.parametrize(("name", "answer"), _listed(RIGHT))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.again)])
def test_an_odd_right_answer_passes(name: str, answer: Any, seed: int) -> None:
    """In the visible cases, too, which a grader tries before the hidden ones, with the same numbers."""
    report = run(name, answer, hidden=True, seed=seed)
    assert report.passed, report.message


@pytest.mark.parametrize(("name", "answer"), _listed(WRONG))
def test_an_odd_wrong_answer_is_rejected(name: str, answer: Any) -> None:
    assert not passes(name, answer)


@pytest.mark.again
@pytest.mark.parametrize(("name", "answer"), _listed(WRONG))
def test_of_an_odd_wrong_answer_something_is_said(name: str, answer: Any) -> None:
    """With its explanation, which the verdict alone leaves out."""
    assert not run(name, answer).passed
