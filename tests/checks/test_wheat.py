"""Every right answer is accepted, however it is written: visible and hidden cases, every dtype, several seeds."""

import importlib
import pkgutil
import sys
import warnings
from functools import partial

import pytest
import torch
import wheat

from attnlib.checks import exercises, run
from attnlib.checks.asking.time_limits import here

pytestmark = pytest.mark.slow

FIVE_TIMES_SLOWER = here().slower(1 / 5)
"""What is left of the limits for an answer that takes five times as long."""

ALTERNATIVES = {
    name: answers
    for module in pkgutil.iter_modules(wheat.__path__)
    for name, answers in importlib.import_module(f"wheat.{module.name}").ALTERNATIVES.items()
}
ANSWERS = [
    pytest.param(name, a, id=f"{name}-{i}") for name, answers in ALTERNATIVES.items() for i, a in enumerate(answers)
]


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_every_exercise_has_five_alternatives(name: str) -> None:
    assert len(ALTERNATIVES.get(name, [])) >= 5


def test_alternatives_are_of_exercises_that_exist() -> None:
    assert set(ALTERNATIVES) <= set(exercises())


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
@pytest.mark.parametrize("hidden", [False, True], ids=["visible", "hidden"])
def test_a_right_answer_passes(name: str, answer: object, hidden: bool) -> None:
    report = run(name, answer, hidden=hidden, limits=FIVE_TIMES_SLOWER)
    assert report.passed, report.message
    assert report.score == 1.0
    assert report.diagnosis is None


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_right_answer_passes_in_one_dtype_throughout(name: str, answer: object, dtype: torch.dtype) -> None:
    report = run(name, answer, hidden=True, seed=1, dtype=dtype)
    assert report.passed, report.message


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


@pytest.mark.parametrize("guise", [Callable, partial, closure, noisy, slow, on_a_list])
@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
def test_a_right_answer_passes_in_any_guise(name: str, guise: type) -> None:
    report = run(name, guise(ALTERNATIVES[name][0]))
    assert report.passed, report.message


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: right answers were not tried on CUDA")
@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_a_right_answer_passes_on_a_gpu(name: str, answer: object) -> None:
    report = run(name, answer, hidden=True, device="cuda")
    assert report.passed, report.message
