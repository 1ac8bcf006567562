"""The proof of the checks is part of the autograder; and practice for somebody who has passed something."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tests/autograder is no package: this one is found first

from practised import PASSED, START

from attnlib.checks import exercises
from attnlib.checks.practising.play import Practice
from attnlib.checks.standing import kept
from autograder.proof.observed import Observed

CODE = [name for name, exercise in exercises().items() if exercise.kind != "choice"]


@pytest.fixture(scope="session", params=CODE)
def table(request: pytest.FixtureRequest) -> Observed:
    """What the misconceptions of one exercise do, noted once for all tests; `make checks` does it with more seeds."""
    return Observed(exercises()[request.param], 0)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A progress file in which three exercises of lesson 02 have passed."""
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"version": 1, "best": dict.fromkeys(PASSED, 1.0)}))
    monkeypatch.setenv(kept.PLACE, str(path))
    monkeypatch.setattr(kept, "BEST", {})
    return path


@pytest.fixture
def practice(file: Path) -> Practice:
    made = Practice()
    made.now = lambda: START
    return made
