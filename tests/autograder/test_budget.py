"""One submission has a budget of a worker's time: for its processes together, and for what comes from them."""

import contextlib
import json
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tiny_course import RIGHT, TINY, cell

from attnlib.checks.asking.time_limits import TimeLimits
from autograder.grading import workers
from autograder.judging import budget
from autograder.judging.budget import Budget
from autograder.judging.judge import Judge
from autograder.judging.retries import Run
from autograder.judging.settle import settle
from autograder.judging.submission import Judged, Task
from autograder.lesson_text.assignment import Assignment
from autograder.sandbox.inside.wire import MOST_TENSORS, MOST_VALUES, BadMessage, decode, encode
from autograder.sandbox.probe import probe
from autograder.sandbox.process import Sandbox
from autograder.sandbox.template import Died
from autograder.showing.errors import NotGraded


class Greedy:
    """In place of a sandbox: each of its children uses up a third of a submission's budget, and gives no answer."""

    def __init__(self, limits):
        self.limits, self.forked, self.late = SimpleNamespace(time=limits), 0, frozenset()

    def fork(self, given, late, library):
        self.forked += 1
        return self

    spent = TimeLimits().submission_cpu / 3

    def ask(self, request, cpu_seconds=None):
        raise Died("did not end within 25 seconds of computing", "computing")

    def close(self):
        pass


@pytest.mark.slow
def test_each_process_that_runs_for_a_submission_is_in_its_budget(released, source, monkeypatch):
    """Also one that shows a demonstration's numbers, or explains a mistake."""
    layers, forked, counted = probe(), [], []
    fork, counting = Sandbox.fork, Budget.counting

    def noted(*about, **more):
        forked.append(fork(*about, **more))
        return forked[-1]

    monkeypatch.setattr(Sandbox, "fork", noted)
    monkeypatch.setattr(Budget, "counting", lambda budget, child: counted.append(child) or counting(budget, child))
    cell(released, "pairwise_dot").source = RIGHT["pairwise_dot"] + " * 2"
    assignment = Assignment(TINY, source)
    with Sandbox(layers) as sandbox:
        judge = Judge(sandbox)
        judge.verdicts(settle(released, assignment.released), assignment)
        assert 0.0 < judge.explainer.spent < judge.budget.spent
        before, demonstration = judge.budget.spent, {"name": "a", "role": "given", "source": "n = sum(range(10**6))"}
        shown = judge._shown(Run([demonstration], [], show=("a",)), frozenset(), frozenset())
        assert shown["a"] == {"n": 499999500000}
        assert judge.budget.spent > before
    assert {*counted} == {*forked}


@pytest.fixture
def handed_in(released, source):
    for name, answer in RIGHT.items():
        cell(released, name).source = answer
    assignment = Assignment(TINY, source)
    needs_a_process = next(question for question in assignment.questions if question.answer == "pairwise_dot")
    assignment.__dict__["questions"] = [replace(needs_a_process, test=f"test {number}") for number in range(10)]
    return settle(released, assignment.released), assignment


def test_a_submission_whose_processes_have_used_up_its_budget_gets_no_more(handed_in):
    sandbox = Greedy(TimeLimits())
    verdicts = Judge(sandbox).verdicts(*handed_in)
    assert sandbox.forked == 3
    assert {verdict.points for verdict in verdicts} == {0.0}
    assert "did not end within 25 seconds" in verdicts[0].report.message
    assert "have used up the 15 minutes" in " ".join(verdicts[-1].report.message.split())


def test_what_the_grader_computes_for_a_submission_is_in_its_budget(handed_in, monkeypatch):
    sandbox, seconds = Greedy(TimeLimits()), iter(range(0, 10**6, 200))
    sandbox.spent = 0.0
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(seconds))
    verdicts = Judge(sandbox).verdicts(*handed_in)
    assert sandbox.forked == 2
    assert "have used up the 15 minutes" in " ".join(verdicts[-1].report.message.split())


def test_the_next_submission_has_a_budget_of_its_own(handed_in):
    sandbox = Greedy(TimeLimits())
    judge = Judge(sandbox)
    judge.verdicts(*handed_in)
    judge.verdicts(*handed_in)
    assert sandbox.forked == 6


def test_real_time_on_a_busy_machine_costs_no_points(handed_in, monkeypatch):
    sandbox, hours = Greedy(TimeLimits()), iter(range(100))
    sandbox.spent = 0.0
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: 3600.0 * next(hours), thread_time=float))
    with pytest.raises(NotGraded, match=r"was not judged within 1\.5 hours"):
        Judge(sandbox).verdicts(*handed_in)
    assert sandbox.forked == 1


def stuck(task, layers):
    """In place of judging: one submission keeps its worker for ever."""
    if task.student == "stuck":
        time.sleep(10**6)
    return Judged(task.student, task.lesson)


@pytest.mark.slow
def test_a_worker_that_does_not_come_to_an_end_is_ended_and_no_other_is_concerned(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", stuck)
    monkeypatch.setattr(workers, "LOOK_SECONDS", 0.5)
    names, judged = ["a", "stuck", "b", "c", "d"], {}
    # until there are those that are not held behind it, however slow the machine is; then the time is over, once
    monkeypatch.setattr(workers, "longest", lambda: 0.0 if len(judged) == 3 else 10**6)
    with contextlib.closing(workers.Crew(2)) as crew:
        for batch in crew.judge((Task(n, TINY, "", {}) for n in names), probe("none")):
            judged |= {one.student: one.problem for one in batch}
    assert sorted(judged) == sorted(names)
    assert judged.pop("stuck") == "the grader's process did not come to an end"
    assert set(judged.values()) == {None}


def framed(header: str) -> dict:
    return decode(header.encode(), b"")


def test_a_message_of_very_many_tiny_values_is_refused_early():
    tensor = {"tensor": {"dtype": "float32", "shape": [0], "gradient": False, "meta": False}}
    few = json.dumps({"dict": {"x": {"list": [tensor] * 100}}})
    assert len(framed(few)["x"]) == 100
    with pytest.raises(BadMessage, match="too many"):
        framed(json.dumps({"dict": {"x": {"list": [tensor] * (MOST_TENSORS + 1)}}}))
    with pytest.raises(BadMessage, match="too many"):
        framed(json.dumps({"dict": {"x": {"list": [0] * (MOST_VALUES + 1)}}}))
    with pytest.raises(BadMessage, match="too many lists"):
        framed('{"dict": {"x": ' + "[" * 2_000_000 + "]" * 2_000_000 + "}}")


def test_files_beside_a_notebook_fit_into_a_message():
    message = {"beside": {f"{number}": bytes(8 << 20) for number in range(2)}}
    assert len(encode(message)) < 32 << 20
