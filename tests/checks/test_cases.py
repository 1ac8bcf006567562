"""The numbers of every case can be drawn with any seed: a course grades with one of its own."""

import pytest

from attnlib.checks import exercises
from attnlib.checks.draw import Draw

SEEDS = range(40)


@pytest.mark.parametrize("name", [name for name, exercise in exercises().items() if exercise.kind != "choice"])
def test_every_seed_draws(name: str) -> None:
    for case in exercises()[name].cases:
        for make in (case.inputs, *case.after):
            for seed in SEEDS:
                assert make(Draw(name, case.name, seed, dtype=case.dtype)) is not None
