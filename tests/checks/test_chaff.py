"""Every misconception is rejected, and under its own name; and any two can be told apart."""

from itertools import combinations

import pytest
import torch

from attnlib.checks import Misconception, exercises
from attnlib.checks.asking.inputs import are_alike
from attnlib.checks.asking.observation import Asking, Memory, Observation
from attnlib.checks.asking.observe import _drawn, observe
from attnlib.checks.exercise import Case
from attnlib.checks.trial.compare import SEPARATION, first_difference
from attnlib.checks.verdict.judge import cases_of, run_exercise
from autograder.proof.observed import Observed

pytestmark = pytest.mark.slow

CODE = [name for name, exercise in exercises().items() if exercise.kind != "choice"]
CHOICES = [
    pytest.param(name, misconception, id=f"{name}-{misconception.id}")
    for name, exercise in exercises().items()
    if exercise.kind == "choice"
    for misconception in exercise.misconceptions
]


@pytest.mark.parametrize("hidden", [False, pytest.param(True, marks=pytest.mark.again)], ids=["visible", "hidden"])
def test_a_misconception_is_rejected_under_its_own_name(table: Observed, hidden: bool) -> None:
    """The failure lists every misconception that is not, with what is said of it.

    A grader's further cases reject it again; `make checks` shows that they leave its name as it is.
    """
    faults = {}
    for misconception in table.exercise.misconceptions:
        report = table.report(misconception.implementation, hidden=hidden)
        explained = misconception.explanation.split(".")[0][:40] in " ".join(report.message.split())
        is_its_own = report.diagnosis == (misconception.same_as or misconception.id)
        if report.passed or report.score >= 1 or not is_its_own or not (explained or misconception.same_as):
            faults[misconception.id] = report.message
    assert faults == {}


@pytest.mark.parametrize(("name", "misconception"), CHOICES)
def test_a_wrong_letter_is_rejected_under_its_own_name(name: str, misconception: Misconception) -> None:
    exercise = exercises()[name]
    assert misconception.implementation != exercise.reference
    report = run_exercise(exercise, misconception.implementation)
    assert not report.passed
    assert report.score < 1
    assert report.diagnosis == (misconception.same_as or misconception.id), report.message
    assert misconception.explanation.split(".")[0][:40] in " ".join(report.message.split()) or misconception.same_as


@pytest.mark.parametrize("parts", [1, pytest.param(None, marks=pytest.mark.again)], ids=["values", "all-parts"])
def test_a_misconception_calls_nothing_that_the_exercise_forbids(table: Observed, parts: int | None) -> None:
    """It would be told that, and no name; one case shows what it calls, and one of each part shows it again."""
    exercise = table.exercise
    cases = list({case.part: case for case in cases_of(exercise, hidden=False)}.values())[:parts]
    found = {
        (m.id, case.name): seen.failure.text
        for m in exercise.misconceptions
        for case in (cases if exercise.forbidden else [])
        if (seen := observe(exercise, m.implementation, case, watched=True)).failure
        and seen.failure.kind == "forbidden"
    }
    assert found == {}


def test_a_misconception_is_far_from_the_reference(table: Observed) -> None:
    farthest = {
        name: max(trial.difference.tolerances if trial.difference else 0 for trial in trials)
        for name, trials in table.wrong(hidden=False).items()
    }
    assert {name: tolerances for name, tolerances in farthest.items() if tolerances < SEPARATION} == {}


def test_any_two_misconceptions_are_told_apart_or_declared_the_same(table: Observed) -> None:
    exercise = table.exercise
    cases = cases_of(exercise, hidden=False)
    seen = {m.id: table.seen(m.implementation, cases) for m in exercise.misconceptions}

    def apart(case: Case, a: Observation, b: Observation) -> bool:
        if a.failure and b.failure and (a.failure.error, a.failure.details) != (b.failure.error, b.failure.details):
            return True
        found = first_difference(exercise, case, a, b)
        return found is not None and found.tolerances >= SEPARATION

    same = {m.id: m.same_as or m.id for m in exercise.misconceptions}
    confused = [
        (one, other)
        for one, other in combinations(seen, 2)
        if same[one] != same[other] and not any(apart(c, seen[one][c.name], seen[other][c.name]) for c in cases)
    ]
    assert confused == []


def test_nobody_changes_the_inputs_that_are_drawn_once_for_all(table: Observed) -> None:
    exercise = table.exercise
    cases = cases_of(exercise, hidden=False)
    seen = [table.seen(m.implementation, cases) for m in exercise.misconceptions]
    _drawn.cache_clear()
    for case in cases:
        fresh = observe(exercise, exercise.reference, case).inputs
        if not fresh:  # the reference can't be built with these sizes
            continue
        given = [each[case.name].inputs for each in seen if each[case.name].inputs]  # none if it couldn't be built
        assert all(are_alike(fresh, inputs) for inputs in {id(inputs): inputs for inputs in given}.values())


@pytest.mark.parametrize("name", list(exercises()))
def test_the_declaration_is_whole(name: str) -> None:
    exercise = exercises()[name]
    ids = [m.id for m in exercise.misconceptions]
    assert len(ids) == len(set(ids))
    assert all(m.same_as is None or m.same_as in ids for m in exercise.misconceptions)
    assert all(len(m.explanation) >= 40 and m.title for m in exercise.misconceptions)
    assert exercise.worth == sum(exercise.parts.values()) > 0
    assert exercise.points == (0 if exercise.stretch else exercise.worth)
    if exercise.kind == "choice":
        return
    assert {c.part for c in exercise.cases} == set(exercise.parts)
    names = [c.name for c in exercise.cases]
    assert len(names) == len(set(names))
    assert any(c.hidden for c in exercise.cases)


def test_verdicts_do_not_depend_on_the_number_of_threads_nor_on_the_order_of_checks() -> None:
    chosen = [
        (name, misconception.implementation)
        for name in ("softmax", "split_heads", "causal_mask", "SelfAttention")
        for misconception in exercises()[name].misconceptions[::4]
        if misconception.id != "keeps_first_answer"  # whose answer depends on what was asked before
    ]
    before = torch.get_num_threads()
    told: list[list[str]] = []
    try:
        for threads, order in ((1, 1), (2, -1)):
            torch.set_num_threads(threads)
            memory: Memory = {}
            reports = [
                run_exercise(exercises()[name], attempt, Asking(memory=memory), hidden=True)
                for name, attempt in chosen[::order]
            ]
            told.append([report.message for report in reports[::order]])
    finally:
        torch.set_num_threads(before)
    assert told[0] == told[1]
