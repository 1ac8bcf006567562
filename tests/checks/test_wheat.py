"""Every right answer is accepted, however it is written: visible and hidden cases, every dtype, several seeds."""

import ast
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
from attnlib.checks.course import also
from attnlib.checks.course.another import Another, another

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
SHOWN: dict[str, Another] = {name: found for name, e in exercises().items() if (found := another(e)) is not None}
ANSWERS += [pytest.param(name, found.attempt, id=f"{name}-shown") for name, found in SHOWN.items()]


@pytest.mark.parametrize("name", [name for name, e in exercises().items() if e.kind != "choice"])
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
    assert len(lines[definition.body[0].lineno - 1 :]) <= 12  # the signature is the exercise's
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("def forward(self" if exercises()[name].kind == "module" else f"def {name}(")
    assert 20 <= len(SHOWN[name].why) <= 120


def test_nothing_but_answers_is_shown() -> None:
    written = {name for name, value in vars(also).items() if getattr(value, "__module__", "") == also.__name__}
    assert written == set(SHOWN)
    assert all(exercises()[name].kind != "choice" for name in SHOWN)


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
def test_a_right_answer_passes(name: str, answer: object) -> None:
    """In the visible cases, too, which a grader tries before the hidden ones, with the same numbers."""
    report = run(name, answer, hidden=True, limits=FIVE_TIMES_SLOWER)
    assert report.passed, report.message
    assert report.score == 1.0
    assert report.diagnosis is None


@pytest.mark.parametrize(("name", "answer"), ANSWERS)
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.again), torch.float64])
def test_a_right_answer_passes_in_one_dtype_throughout(name: str, answer: object, dtype: torch.dtype) -> None:
    """Most cases are in float32 anyway: that all of them may be is tried again, with other numbers."""
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
