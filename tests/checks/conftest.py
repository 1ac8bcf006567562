"""The proof of the checks is part of the autograder."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tests/autograder is no package: this one is found first

from attnlib.checks import exercises
from autograder.proof.observed import Observed

CODE = [name for name, exercise in exercises().items() if exercise.kind != "choice"]


@pytest.fixture(scope="session", params=CODE)
def table(request: pytest.FixtureRequest) -> Observed:
    """What the misconceptions of one exercise do, noted once for all tests; `make checks` does it with more seeds."""
    return Observed(exercises()[request.param], 0)
