"""Every right answer is accepted, however it is written: visible and hidden cases, every dtype, several seeds."""

import ast
import inspect
import random
import sys
import textwrap
import warnings
from functools import partial
from typing import Any

import pytest
import torch

from attnlib.checks import exercises, run
from attnlib.checks.asking.time_limits import here
from attnlib.checks.course import right
from attnlib.checks.course.another import Another, another

pytestmark = pytest.mark.slow

FIVE_TIMES_SLOWER = here().slower(1 / 5)
"""What is left of the limits for an answer that takes five times as long."""

CODE = [name for name, e in exercises().items() if e.kind != "choice"]
ALTERNATIVES = right.bank()
SHOWN: dict[str, Another] = {name: found for name, e in exercises().items() if (found := another(e)) is not None}


def rejected(name: str, **how: Any) -> dict[str, str]:
    """What is said of those right answers to an exercise that do not pass."""
    found = {str(which): run(name, answer, **how) for which, answer in enumerate(ALTERNATIVES[name])}
    return {
        which: report.message
        for which, report in found.items()
        if not report.passed or report.score != 1 or report.diagnosis is not None
    }


@pytest.mark.parametrize("name", CODE)
def test_every_exercise_has_five_alternatives(name: str) -> None:
    assert len(ALTERNATIVES.get(name, [])) >= 5


def test_alternatives_are_of_exercises_that_exist() -> None:
    assert set(ALTERNATIVES) <= set(exercises())


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_after_a_right_answer_is_short(name: str) -> None:
    """It is python, without its docstring, and one sentence or two say why it works."""
    lines = SHOWN[name].source.split("\n")
    [definition] = ast.parse(SHOWN[name].source).body
    assert isinstance(definition, ast.FunctionDef)
    assert '"""' not in SHOWN[name].source
    written = textwrap.dedent(inspect.getsource(inspect.unwrap(exercises()[name].reference)))
    longest = max(12, written.count("\n")) if exercises()[name].kind == "function" else 12
    assert len(lines[definition.body[0].lineno - 1 :]) <= longest  # the signature is the exercise's
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("def forward(self" if exercises()[name].kind == "module" else f"def {name}(")
    assert 20 <= len(SHOWN[name].why) <= 120


def test_most_exercises_show_another_answer() -> None:
    assert len(SHOWN) > len(CODE) / 2
    assert {name: found.attempt for name, found in SHOWN.items()} == {name: ALTERNATIVES[name][0] for name in SHOWN}


@pytest.mark.parametrize("name", CODE)
def test_every_right_answer_passes(name: str) -> None:
    """In the visible cases, too, which a grader tries before the hidden ones, with the same numbers."""
    assert rejected(name, hidden=True, limits=FIVE_TIMES_SLOWER) == {}


@pytest.mark.again
@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_right_answer_passes_in_one_dtype_throughout(name: str, dtype: torch.dtype) -> None:
    """Each exercise has cases in either: that all of them may be is tried again, with other numbers."""
    assert rejected(name, hidden=True, seed=1, dtype=dtype) == {}


class Callable:
    def __init__(self, answer):
        self.answer = answer

    def __call__(self, *inputs):
        return self.answer(*inputs)


def closure(answer):
    def inner(*inputs):
        return answer(*inputs)

    return inner


def noisy(answer):
    def inner(*inputs):
        print("I was called with", len(inputs), "things")
        print("careful!", file=sys.stderr)
        warnings.warn("it is late", stacklevel=2)
        return answer(*inputs)

    return inner


def slow(answer):
    def inner(*inputs):
        for i in range(20000):
            i * i
        return answer(*inputs)

    return inner


def on_a_list(answer):
    """A list of results where the contract has a tuple."""

    def inner(*inputs):
        result = answer(*inputs)
        return list(result) if isinstance(result, tuple) else result

    return inner


GUISES = (Callable, partial, closure, noisy, slow, on_a_list)


@pytest.mark.parametrize("name", CODE)
def test_a_right_answer_passes_in_a_guise(name: str) -> None:
    """One of them for each exercise in turn: none of them depends on what is asked for."""
    guise = on_a_list if len(exercises()[name].outputs) > 1 else GUISES[CODE.index(name) % len(GUISES)]
    assert run(name, guise(ALTERNATIVES[name][0])).passed


@pytest.mark.again
@pytest.mark.parametrize("name", CODE)
def test_a_right_answer_passes_in_any_guise(name: str) -> None:
    reports = {guise.__name__: run(name, guise(ALTERNATIVES[name][0])) for guise in GUISES}
    assert {guise: report.message for guise, report in reports.items() if not report.passed} == {}


def rejected_by_seeds(name: str, first: int, last: int) -> dict[int, str]:
    """What is said of right answers, one after the other, with the seed that a course may have."""
    answers, found = ALTERNATIVES[name], {}
    for number in range(first, last):
        seed = random.Random(f"{name} {number}").getrandbits(128)
        dtype = torch.float64 if number % 4 == 3 else None
        report = run(name, answers[number % len(answers)], hidden=True, seed=seed, dtype=dtype)
        if report.score != 1:
            found[seed] = report.message
    return found


@pytest.mark.parametrize("name", CODE)
def test_no_course_s_seed_rejects_a_right_answer(name: str) -> None:
    """Such as one for which rounding grows: training steps, logarithms near zero."""
    assert rejected_by_seeds(name, 0, 4) == {}


@pytest.mark.again
@pytest.mark.parametrize("name", CODE)
def test_none_of_many_seeds_rejects_a_right_answer(name: str) -> None:
    assert rejected_by_seeds(name, 4, 64) == {}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: right answers were not tried on CUDA")
@pytest.mark.parametrize("name", CODE)
def test_every_right_answer_passes_on_a_gpu(name: str) -> None:
    assert rejected(name, hidden=True, device="cuda") == {}
