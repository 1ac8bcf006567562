"""A part counts only if all of its cases were tried and are right; ending a trial early earns nothing."""

import math
from itertools import combinations
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib.checks import exercises
from attnlib.checks.asking.attempt import Attempt, Local, LocalSession, Terms
from attnlib.checks.asking.failure import Failed, Failure
from attnlib.checks.asking.observation import Asking, Memory
from attnlib.checks.exercise import Case
from attnlib.checks.verdict.judge import cases_of, run_exercise
from attnlib.checks.verdict.scoring import earned

PARTS = {"values": 2, "gradient": 1, "robustness": 1}
ENDINGS = ("right", "wrong", "not tried")


def points(endings: list[tuple[str, str]]) -> int:
    """Of cases in their order, each with its part and what came of it."""
    cases = [Case(name=str(i), inputs=lambda draw: (), part=part) for i, (part, _) in enumerate(endings)]
    right = {str(i) for i, (_, ending) in enumerate(endings) if ending == "right"}
    return sum(PARTS[part] for part, counts in earned(PARTS, cases, right).items() if counts)


tried = st.lists(st.tuples(st.sampled_from(list(PARTS)), st.sampled_from(ENDINGS)), min_size=1, max_size=12)


@given(tried, st.integers(0, 12))
def test_ending_early_never_earns_more_than_going_on(endings: list[tuple[str, str]], at: int) -> None:
    early = [(part, ending if i < at else "not tried") for i, (part, ending) in enumerate(endings)]
    assert points(early) <= points(endings)


@given(tried)
def test_a_part_counts_only_if_all_of_its_cases_and_of_the_first_part_are_right(endings: list[tuple[str, str]]) -> None:
    def right(part: str) -> bool:
        return all(ending == "right" for of, ending in endings if of == part)

    assert points(endings) == sum(PARTS[part] for part in PARTS if right(part) and right("values"))


class Stopping(Attempt):
    """The right answer, that fails in its own way each time a certain case is tried."""

    def __init__(self, right: Any, stops_at: str, failure: Failure | None) -> None:
        self.right, self.stops_at, self.failure = right, stops_at, failure
        self.gone = False

    def unfit_reason(self, kind: str) -> None:
        return None

    def open(self, terms: Terms) -> LocalSession:
        answer = self

        class Session(LocalSession):
            def call(self, inputs: Any, gradient: bool = False) -> Any:
                here = answer.gone or answer.now == answer.stops_at
                if here and answer.failure is not None:
                    answer.gone = answer.failure.kind == "died"
                    raise Failed(answer.failure)
                outputs = super().call(inputs, gradient)
                return tuple(1.5 * t for t in outputs) if here else outputs

        return Session(self.right, terms, Local(self.right).open(terms).clock)


MEMORY: Memory = {}
"""What the misconceptions do, for all of these."""


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("kind", ["unwritten", "died", "forbidden", "time", "raised", "type"])
def test_an_answer_that_stops_never_earns_more_than_one_that_goes_on(
    kind: str, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise = exercises()["pairwise_dot"]
    for case in cases_of(exercise, hidden=hidden):
        if case.other_device:  # there only devices are judged: an answer may fail for want of numbers
            continue
        found = []
        for failure in (Failure(kind, "stopped"), None):
            answer = Stopping(lambda x, y: x @ y.mT, case.name, failure)
            _tell_the_case(answer, monkeypatch)
            found.append(run_exercise(exercise, answer, Asking(memory=MEMORY), hidden=hidden))
        stopped, went_on = found
        assert not stopped.passed
        assert stopped.points <= went_on.points, case.name
        assert not stopped.parts[case.part]


def _tell_the_case(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case whose turn it is: an answer of this test has to know."""
    from attnlib.checks.verdict import judge

    def try_case(exercise: Any, attempt: Any, case: Case, *asked: Any, **more: Any) -> Any:
        answer.now = case.name
        return honest(exercise, attempt, case, *asked, **more)

    honest = getattr(judge.try_case, "honest", judge.try_case)
    try_case.honest = honest  # type: ignore[attr-defined]
    monkeypatch.setattr(judge, "try_case", try_case)


def test_a_stop_in_the_last_visible_case_leaves_the_hidden_ones_of_the_other_parts_to_be_tried() -> None:
    def stops_where_memory_is_not_contiguous(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not x.is_contiguous():
            raise NotImplementedError
        return x @ y.mT

    report = run_exercise(exercises()["pairwise_dot"], stops_where_memory_is_not_contiguous, hidden=True)
    assert report.parts == {"values": True, "gradient": True, "robustness": False}

    def wrong_on_hidden_sizes_too(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return stops_where_memory_is_not_contiguous(x, y) * (1 if x.shape[0] < 5 else 1.5)

    report = run_exercise(exercises()["pairwise_dot"], wrong_on_hidden_sizes_too, hidden=True)
    assert report.points == 0


def test_parts_that_were_not_tried_to_the_end_are_no_crosses() -> None:
    exercise = exercises()["pairwise_dot"]
    stops_at = next(case.name for case in cases_of(exercise, hidden=False) if case.part == "gradient")
    answer = Stopping(lambda x, y: x @ y.mT, stops_at, Failure("died", "the process ended itself"))
    with pytest.MonkeyPatch.context() as patch:
        _tell_the_case(answer, patch)
        report = run_exercise(exercise, answer)
    line = "Checked: ✓ values · ✗ gradient · – robustness (–: not tried to the end, and so not counted)"
    assert line in " ".join(report.message.split())


def test_what_the_hidden_cases_can_tell() -> None:
    """The numbers of docs/grading.md: the outcomes for every set of parts that fail there, if all else is right."""
    bits: dict[str, list[float]] = {}
    for exercise in exercises().values():
        hidden = [case for case in exercise.cases if case.hidden]
        parts = {case.part for case in hidden}
        outcomes = {
            tuple(earned(exercise.parts, hidden, {c.name for c in hidden if c.part not in wrong}).values())
            for size in range(len(parts) + 1)
            for wrong in combinations(parts, size)
        }
        bits.setdefault(exercise.lesson, []).append(math.log2(len(outcomes)))
    assert max(max(of_lesson) for of_lesson in bits.values()) <= 4.1
    assert max(map(sum, bits.values())) <= 20.3


def test_a_hidden_case_is_tried_only_while_its_part_may_still_count() -> None:
    tried: list[Any] = []

    def wrong_from_the_first_hidden_case_on(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        tried.append(x.shape)
        return x @ y.mT * (1.5 if x.shape[0] > 4 else 1.0)

    assert run_exercise(exercises()["pairwise_dot"], wrong_from_the_first_hidden_case_on, hidden=True).points == 0
    assert sum(shape[0] > 4 for shape in tried) == 1


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_every_part_has_a_visible_case(name: str) -> None:
    assert {case.part for case in cases_of(exercises()[name], hidden=False)} == set(exercises()[name].parts)
