"""The mutator changes one thing at a time, and the checks kill what it makes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from attnlib.checks import exercises
from autograder.lesson_text.layout import Layout
from autograder.proof import measure
from autograder.proof.answers import run_source, solution
from autograder.proof.counts import WAYS, Proof
from autograder.proof.equivalent import EQUIVALENT
from autograder.proof.measure import code_exercises, fates
from autograder.proof.mutants import mutants
from autograder.showing.errors import CourseError


def changes(source: str) -> set[str]:
    return {mutant.shown.split(" → ")[1] for mutant in mutants(source)}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return a - b", {"return a + b", "return b - a", "return a", "return b", "pass"}),
        ("return a @ b.mT", {"return a * b.mT", "return b.mT @ a", "return a @ b", "return b @ b.mT"}),
        (
            "return a.sum(dim=-1)",
            {"return a.mean(dim=-1)", "return a.sum(dim=-2)", "return a.sum(dim=0)", "return a.sum()"},
        ),
        (
            "return f(a, b, keepdim=True)",
            {"return f(b, a, keepdim=True)", "return f(a, b)", "return f(a, b, keepdim=False)"},
        ),
        (
            "return a if a < b else -b",
            {"return a if a <= b else -b", "return a if a > b else -b", "return a if a < b else b"},
        ),
        ("return 0 <= a < b", {"return 0 < a < b", "return 0 <= a <= b", "return 0 >= a < b"}),
        ("return a * 0.5", {"return a * 1.0", "return a * 0.25", "return a / 0.5"}),
        ("return f(a, 'b (h d) -> b h d')", {"return f(a, 'b (d h) -> b h d')", "return f(a, 'b (h d) -> b d h')"}),
        ("if a % b:\n        return 1", {"if not a % b:", "if True:", "pass", "if a // b:"}),
        ("return a[:, None]", {"return a[None, :]", "return a"}),
    ],
)
def test_a_statement_is_changed_in_every_way_that_a_slip_would(statement: str, expected: set[str]) -> None:
    assert expected <= changes(f"def f(a, b):\n    {statement}\n")


def test_names_of_parameters_and_layers_are_taken_for_one_another() -> None:
    found = changes(
        "class Layer:\n"
        "    def __init__(self, size):\n"
        "        self.w_q, self.w_k = size, size\n"
        "    def forward(self, x, y):\n"
        "        return self.w_q(x) @ self.w_k(y)\n"
    )
    assert {"return self.w_k(x) @ self.w_k(y)", "return self.w_q(y) @ self.w_k(y)"} <= found
    assert "return self.w_q(size) @ self.w_k(y)" not in found


def test_words_and_annotations_are_left_alone() -> None:
    source = 'def f(a: int = 3) -> "Tensor[2]":\n    """Of 1 and 2."""\n    raise ValueError(f"got {a + 1}")\n'
    assert changes(source) == {
        "pass",
        "raise RuntimeError(f'got {a + 1}')",
        "def f(a: int=4) -> 'Tensor[2]':",
        "def f(a: int=2) -> 'Tensor[2]':",
    }


def test_mutants_are_different_sources_with_different_keys() -> None:
    found = mutants("def f(a, b):\n    a = a + b\n    a = a + b\n    return a\n")
    assert len({m.key for m in found}) == len({m.source for m in found}) == len(found)
    assert {"f, a: + → -", "f, a: + → - (2)"} <= {m.key for m in found}


def test_a_mutant_keeps_its_key_when_its_line_is_reworded() -> None:
    """All that keeps the function, the name that the line assigns and the words that are exchanged."""
    plain = mutants("def f(a, b):\n    total = a @ b.transpose(-1, -2)\n    return total\n")
    reworded = mutants(
        "def f(a, b):\n    # scores\n    total = torch.matmul(a, b.transpose(-1, -2)) * 3\n    return total\n"
    )
    assert {"f, total: a → b", "f, total: -1, -2 → -2, -1"} <= {m.key for m in plain} & {m.key for m in reworded}


@pytest.mark.slow
@pytest.mark.parametrize("name", code_exercises())
def test_every_lesson_holds_a_right_answer_that_can_be_mutated(name: str) -> None:
    answer = solution(Layout(), exercises()[name])
    assert callable(run_source(answer, answer.source))
    assert len(mutants(answer.source)) >= 3


def test_a_lesson_s_answer_finds_what_the_cells_above_it_define() -> None:
    answer = solution(Layout(), exercises()["DecoderBlock"])
    assert "yours_or_ours" not in answer.source  # Attention and Norm come from there
    block = run_source(answer, answer.source)(8, 2)
    assert block(torch.ones(1, 3, 8)).shape == (1, 3, 8)


def test_an_exercise_without_a_lesson_s_text_is_told_what_is_missing() -> None:
    homeless = replace(exercises()["softmax"], name="softmaximum")
    with pytest.raises(
        CourseError, match=r"02_\w+\.py: required are a solution .* `check\('softmaximum', …\)`, found only"
    ):
        solution(Layout(), homeless)


def test_equivalent_mutants_are_of_exercises_that_exist_and_have_a_reason() -> None:
    assert set(EQUIVALENT) <= set(code_exercises())
    assert all(len(reason) >= 15 for reasons in EQUIVALENT.values() for reason in reasons.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention_scores", "split_heads", "causal_mask"])
def test_no_mutant_survives_without_a_reason(name: str) -> None:
    """The quick ones, and softmax below; `make checks` has them all."""
    _has_no_survivor(fates(name))


def _has_no_survivor(proof: Proof) -> None:
    assert [fate.key for fate in proof.surviving] == []
    assert proof.stale == ()
    assert proof.killed.hits > 0.9 * len(proof.fates)


@pytest.mark.slow
def test_of_some_mutants_it_is_noted_how_the_student_is_told() -> None:
    proof = fates("softmax")
    _has_no_survivor(proof)
    told = proof.told
    assert len(told) >= 5
    assert {fate.told_by for fate in told} <= set(WAYS)
    assert sum(fate.told_by in ("misconception", "change", "symptom") for fate in told) > len(told) / 2
    assert all(fate.cpu_ms > 0 for fate in told)


def test_a_check_without_cases_lets_every_mutant_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "cases_of", lambda exercise, hidden: [])
    monkeypatch.setattr(measure, "run_exercise", lambda *args, **how: SimpleNamespace(passed=True))
    proof = fates("split_heads")
    assert len(proof.surviving) > 30
    assert not proof.killed_by_the_visible_check
