"""Every misconception is rejected, and under its own name; and any two can be told apart."""

from itertools import combinations

import pytest
import torch

from attnlib.checks import Misconception, exercises
from attnlib.checks.asking.observe import Memory, observe
from attnlib.checks.course.usual import usual_misconceptions
from attnlib.checks.trial.compare import SEPARATION, first_difference
from attnlib.checks.verdict.judge import cases_of, run_exercise, try_case

MEMORY: Memory = {}
"""As the grader does it: what the references and the rivals of a misconception do is computed once, not for each."""

MISCONCEPTIONS = [
    pytest.param(name, misconception, id=f"{name}-{misconception.id}")
    for name, exercise in exercises().items()
    for misconception in exercise.misconceptions
]


@pytest.mark.parametrize(("name", "misconception"), MISCONCEPTIONS)
@pytest.mark.parametrize(("hidden", "seed"), [(False, 0), (True, 1)], ids=["visible", "hidden"])
def test_a_misconception_is_rejected_under_its_own_name(
    name: str, misconception: Misconception, hidden: bool, seed: int
) -> None:
    exercise = exercises()[name]
    report = run_exercise(exercise, misconception.implementation, hidden=hidden, seed=seed, memory=MEMORY)
    assert not report.passed
    assert report.score < 1
    assert report.diagnosis == (misconception.same_as or misconception.id), report.message
    assert misconception.explanation.split(".")[0][:40] in " ".join(report.message.split()) or misconception.same_as


@pytest.mark.parametrize(("name", "misconception"), MISCONCEPTIONS)
def test_a_misconception_is_far_from_the_reference(name: str, misconception: Misconception) -> None:
    exercise = exercises()[name]
    if exercise.kind == "choice":
        assert misconception.implementation != exercise.reference
        return
    trials = [
        try_case(exercise, misconception.implementation, c, seed=0, device="cpu", memory=MEMORY)
        for c in cases_of(exercise, hidden=False)
    ]
    assert max(t.difference.tolerances if t.difference else 0 for t in trials) >= SEPARATION


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_any_two_misconceptions_are_told_apart_or_declared_the_same(name: str) -> None:
    exercise = exercises()[name]
    cases = cases_of(exercise, hidden=False)
    seen = {
        m.id: [observe(exercise, m.implementation, case, seed=0, device="cpu", memory=MEMORY) for case in cases]
        for m in exercise.misconceptions
    }

    def told_apart(one: str, other: str) -> bool:
        for case, a, b in zip(cases, seen[one], seen[other], strict=True):
            if a.failure and b.failure and a.failure.text != b.failure.text:
                return True
            found = first_difference(exercise, case, a, b, device="cpu")
            if found is not None and found.tolerances >= SEPARATION:
                return True
        return False

    same = {m.id: m.same_as or m.id for m in exercise.misconceptions}
    confused = [(a, b) for a, b in combinations(seen, 2) if same[a] != same[b] and not told_apart(a, b)]
    assert confused == []


@pytest.mark.parametrize("name", list(exercises()))
def test_the_declaration_is_whole(name: str) -> None:
    exercise = exercises()[name]
    ids = [m.id for m in exercise.misconceptions]
    assert len(ids) == len(set(ids))
    assert all(m.same_as is None or m.same_as in ids for m in exercise.misconceptions)
    assert all(len(m.explanation) >= 40 and m.title for m in exercise.misconceptions)
    assert exercise.points == sum(exercise.parts.values()) > 0
    if exercise.kind == "choice":
        return
    assert {c.part for c in exercise.cases} == set(exercise.parts)
    names = [c.name for c in exercise.cases]
    assert len(names) == len(set(names))
    assert any(c.hidden for c in exercise.cases)


USUAL = {m.id for m in usual_misconceptions(torch.relu, example=lambda: (torch.ones(1),))}
CORE = (
    "scaled_dot_product_attention",
    "SelfAttention",
    "MultiHeadSelfAttention",
    "cross_attention",
    "MultiHeadCrossAttention",
    "causal_mask",
    "padding_mask",
    "masked_softmax",
    "CausalSelfAttention",
    "EncoderBlock",
)
"""Attention itself, multi-head attention, masks, the encoder block: at least twelve mistakes, the others eight."""


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_an_exercise_knows_the_mistakes_that_learners_make_in_it(name: str) -> None:
    """Those of any code (float32 only, detached, ...) are not counted."""
    own = {m.same_as or m.id for m in exercises()[name].misconceptions} - USUAL
    assert len(own) >= (12 if name in CORE else 8)


def test_the_core_exercises_exist() -> None:
    assert set(CORE) <= set(exercises())


def test_verdicts_do_not_depend_on_the_number_of_threads_nor_on_the_order_of_checks() -> None:
    chosen = [
        (name, misconception.implementation)
        for name in ("softmax", "split_heads", "padding_mask", "SelfAttention")
        for misconception in exercises()[name].misconceptions
    ]
    before = torch.get_num_threads()
    told: list[list[str]] = []
    try:
        for threads, order in ((1, 1), (2, -1)):
            torch.set_num_threads(threads)
            memory: Memory = {}
            reports = [
                run_exercise(exercises()[name], attempt, hidden=True, memory=memory)
                for name, attempt in chosen[::order]
            ]
            told.append([report.message for report in reports[::order]])
    finally:
        torch.set_num_threads(before)
    assert told[0] == told[1]
