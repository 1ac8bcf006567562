"""Odd answers: no right one is rejected, no wrong one passes."""

from typing import Any

import pytest
from odd import RIGHT, WRONG

from attnlib.checks import run

pytestmark = pytest.mark.slow


def _listed(answers: list[tuple[str, Any]]) -> list[Any]:
    return [pytest.param(name, a, id=f"{name}-{i}-{getattr(a, '__name__', '')}") for i, (name, a) in enumerate(answers)]


@pytest.mark.parametrize(("name", "answer"), _listed(RIGHT))
@pytest.mark.parametrize(("hidden", "seed"), [(False, 0), (True, 1)], ids=["visible", "hidden"])
def test_an_odd_right_answer_passes(name: str, answer: Any, hidden: bool, seed: int) -> None:
    report = run(name, answer, hidden=hidden, seed=seed)
    assert report.passed, report.message


@pytest.mark.parametrize(("name", "answer"), _listed(WRONG))
def test_an_odd_wrong_answer_is_rejected(name: str, answer: Any) -> None:
    assert not run(name, answer).passed
