"""The numbers of every case can be drawn with any seed: a course grades with one of its own."""

import pytest
import torch

from attnlib.checks import exercises, run
from attnlib.checks.course.right import right_answers
from attnlib.checks.draw import Draw

pytestmark = pytest.mark.slow

SEEDS = range(8)
MORE_SEEDS = pytest.param(range(8, 40), marks=pytest.mark.again)


@pytest.mark.parametrize("seeds", [SEEDS, MORE_SEEDS], ids=["some", "more"])
@pytest.mark.parametrize("name", [name for name, exercise in exercises().items() if exercise.kind != "choice"])
def test_every_seed_draws(name: str, seeds: range) -> None:
    for case in exercises()[name].cases:
        for make in (case.inputs, *case.after):
            for seed in seeds:
                assert make(Draw(name, case.name, seed, dtype=case.dtype)) is not None


def test_every_bit_of_a_seed_counts() -> None:
    """Hidden inputs have a seed of 128 bits, of which torch's own generator would take 32."""
    seeds = [3, *(3 ^ (1 << bit) for bit in range(200))]
    assert len({tuple(Draw("softmax", "a case", seed).normal(4).tolist()) for seed in seeds}) == len(seeds)


@pytest.mark.parametrize("seeds", [SEEDS, MORE_SEEDS], ids=["some", "more"])
def test_verdict_and_diagnosis_do_not_depend_on_the_seed(seeds: range) -> None:
    for seed in seeds[:12]:
        for name in ("pairwise_dot", "SelfAttention"):
            assert run(name, right_answers(name)[0], hidden=True, seed=seed).passed
        assert run("attention_scores", lambda q, k: q @ k.mT, hidden=True, seed=seed).diagnosis == "no_scale"


def test_of_another_exercise_only_what_the_reference_did_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    memories = {}
    monkeypatch.setitem(run.__globals__, "_MEMORIES", memories)
    run("attention_scores", lambda q, k: q @ k.mT)
    first = memories["attention_scores", torch.float32]
    assert not all(seen.exact for seen in first.values())
    run("pairwise_dot", lambda x, y: x @ y.mT)
    kept = memories["attention_scores", torch.float32]
    assert kept.keys() == {key for key, seen in first.items() if seen.exact} != set()
    run("attention_scores", lambda q, k: q @ k.mT)
    assert all(memories["attention_scores", torch.float32][key] is seen for key, seen in kept.items())
