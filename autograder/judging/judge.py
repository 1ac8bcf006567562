"""Judge a notebook: each answer in a process of its own in the sandbox, the verdict here.

Everything that is shown comes first, for all questions. Hidden cases follow in fresh processes, and decide only which
parts of their own question still count. So nothing that has seen a hidden input can tell anybody.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nbformat import NotebookNode

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observation import Asking, Memory
from attnlib.checks.exercise import Exercise
from attnlib.checks.verdict.judge import parts_left, run_exercise
from attnlib.checks.verdict.report import Report
from attnlib.checks.verdict.write import after_hidden_cases, write_report
from autograder.judging.budget import Budget, OutOfTime
from autograder.judging.cells_around import cells_around, grade_id, imported_late, is_untouched, may_define
from autograder.judging.explainer import Explainer
from autograder.judging.retries import RETRIES, Outcome, Run, added
from autograder.judging.verdict import Verdict
from autograder.lesson_text.assignment import Assignment, Question
from autograder.sandbox.process import Child, Sandbox
from autograder.sandbox.remote import RemoteAttempt, failure_from
from autograder.sandbox.template import Died
from autograder.sandbox.views import view, whole_view
from autograder.showing.errors import CourseError, trace_of

OUTCOME = ("error", "text", "printed", "lacks_name", "lacks_module")
Outcomes = list[dict[str, Any]]
Stuck = dict[str, tuple[int, str]]
UNANSWERED = Failure("unwritten", "is not answered yet")
ONE_AT_A_TIME = threading.RLock()
"""Judging sets torch's threads, its seed and its default dtype, which belong to the whole process."""


class Judge:
    """Judges one notebook after another in one sandbox, and remembers the references' results.

    `seed` draws the numbers on which answers are compared. A course has a seed of its own, which students do not know:
    an answer that holds a table of the results for seed 0 is wrong.
    """

    def __init__(self, sandbox: Sandbox, seed: int = 0) -> None:
        self.sandbox, self.seed = sandbox, seed
        self.memory: Memory = {}
        self.beside: dict[str, bytes] = {}
        self.budget = Budget(sandbox.limits.time)
        self.explainer = Explainer(sandbox, self.budget)
        self.overcome: list[str] = []
        """The tracebacks of the grader's faults in the last notebook that a second attempt didn't show."""

    def verdicts(
        self,
        settled: NotebookNode,
        assignment: Assignment,
        step: Callable[[Question], None] = lambda _: None,
        beside: Mapping[str, bytes] | None = None,
    ) -> list[Verdict]:
        """The verdict on every question of the assignment; files that are `beside` the notebook can be read there."""
        with ONE_AT_A_TIME:
            self.beside, self.budget, self.overcome = dict(beside or {}), Budget(self.sandbox.limits.time), []
            self.explainer = Explainer(self.sandbox, self.budget)
            found: list[tuple[Verdict, dict[str, Any] | None]] = []
            for question in assignment.questions:
                step(question)
                stuck = {name: where for name, where in _stuck(found).items() if name != question.answer}
                found.append(self._twice(self._verdict, settled, assignment, question, stuck))
            seed, stuck = self._seed_of(settled), _stuck(found)
            for verdict, task in found:  # from here on nothing is shown, and nothing runs that could show anything
                if task is not None and any(verdict.report.parts.values()):
                    left = self._twice(self._left, {**task, "stuck": stuck}, verdict, assignment.given, seed)
                    verdict.report = after_hidden_cases(verdict.question.exercise, verdict.report, left)
            return [verdict for verdict, _ in found]

    def _twice(self, judge: Callable[..., Any], *about: Any) -> Any:
        """Judge, and after a fault of the grader's judge again in a fresh process; a second fault is the reason."""
        try:
            return judge(*about)
        except (CourseError, OutOfTime):  # there is no sandbox, or no more time
            raise
        except Exception as error:
            self.sandbox.close()
            found = judge(*about)
            self.overcome.append(trace_of(error))
            return found

    def _seed_of(self, settled: NotebookNode) -> int:
        """Return the seed of the hidden cases, unique to a submission: knowing another one's inputs is of no use."""
        state = hashlib.sha256(repr((self.seed, sorted(self.beside.items()))).encode())
        for cell in settled.cells:
            state.update(repr(cell.source).encode())
        return int.from_bytes(state.digest(), "big")

    def _verdict(
        self, settled: NotebookNode, assignment: Assignment, question: Question, stuck: Stuck
    ) -> tuple[Verdict, dict[str, Any] | None]:
        """Return the verdict on the visible cases, and the task for trying the hidden ones."""
        attempt = Run(*cells_around(settled, assignment, question.test))
        answer = next((c for c in settled.cells if grade_id(c) == question.answer), None)
        untouched = answer is not None and is_untouched(answer)
        expression = [question.expression]
        if untouched and not (added(attempt.cells) or may_define(attempt.cells, expression)):
            if not may_define(attempt.below, expression):
                return Verdict(question, failed(question.exercise, UNANSWERED), answered=False), None
            attempt = replace(attempt, cells=attempt.cells + attempt.below, below=[])
        asked = self._ask(attempt, question, assignment.given, stuck)
        for retry in RETRIES:
            if retry.applies(attempt, asked):
                attempt = retry.change(attempt, asked)
                asked = self._ask(attempt, question, assignment.given, stuck)
        answered = not untouched or asked.report.score > 0
        return Verdict(question, asked.report, answered=answered, cells=asked.cells), asked.task

    def _ask(self, attempt: Run, question: Question, given: frozenset[str], stuck: Stuck) -> Outcome:
        exercise = question.exercise
        self.budget.check_real_time()
        if self.budget.is_spent:
            return Outcome(failed(exercise, self.budget.failure()))
        task: dict[str, Any] = {
            "cells": attempt.cells,
            "beside": self.beside,
            "wanted": question.answer or "",
            "run": attempt.run,
            "stuck": stuck,
            "show": [],
            "shown": self._shown(attempt, given),
            "expression": question.expression,
            "kind": exercise.kind,
            "forbidden": list(exercise.forbidden),
            "library": view(exercise),
        }
        asked = Outcome(failed(exercise, UNANSWERED))
        child = self.sandbox.fork(given, imported_late(attempt.cells), task["library"])
        with self.budget.counting(child):
            try:
                parsed = child.ask(task)
                asked.left_out, asked.unseen = frozenset(parsed["left_out"]), parsed["unseen"]
                if parsed["shortcuts"]:
                    asked.report = failed(exercise, _forbidden(parsed["shortcuts"][0]))
                    return asked
                told = child.listen()
                asked.cells = _outcomes(told.get("cells"))
                asked.report = self._judge(child, question, told, asked.cells, task, given)
                asked.task = task if exercise.cases else None
            except Died as error:
                asked.report, asked.died = failed(exercise, Failure("died", str(error))), True
        return asked

    def _left(self, task: dict[str, Any], verdict: Verdict, given: frozenset[str], seed: int) -> dict[str, bool]:
        """Return the parts of the answer that hold in the hidden cases; none if the answer can't even be called."""
        self.budget.check_real_time()
        parts = verdict.report.parts
        if self.budget.is_spent:
            return dict.fromkeys(parts, False)
        child = self.sandbox.fork(given, imported_late(task["cells"]), task["library"])
        with self.budget.counting(child):
            try:
                child.ask(task)
                told = child.listen()
            except Died:
                return dict.fromkeys(parts, False)
            if told.get("missing") or told.get("unfit"):
                return dict.fromkeys(parts, False)
            attempt = RemoteAttempt(child, None, self.budget.check_real_time)
            return parts_left(verdict.question.exercise, attempt, parts, Asking(seed=seed))

    def _shown(self, attempt: Run, given: frozenset[str]) -> dict[str, Any]:
        """Return the values that demonstrations bind and that need what is withheld: every student has seen them.

        They are computed in a process of their own, in which no student's code runs.
        """
        if not attempt.show:
            return {}
        own = [cell for cell in attempt.cells if cell["role"] == "given"]
        child = self.sandbox.fork(given, imported_late(own))
        with self.budget.counting(child):
            try:
                request = {"cells": own, "show": list(attempt.show), "library": whole_view()}
                found = child.ask(request, self.sandbox.limits.time.cells_cpu).get("shown")
            except Died:
                return {}
        return found if isinstance(found, dict) else {}

    def _judge(
        self,
        child: Child,
        question: Question,
        told: dict[str, Any],
        ran: Outcomes,
        task: dict[str, Any],
        given: frozenset[str],
    ) -> Report:
        """The report on the visible cases."""
        exercise = question.exercise
        if told.get("missing") or not isinstance(told.get("value"), (dict, type(None))):
            return failed(exercise, _missing(question, failure_from(told.get("missing")), ran))
        if exercise.kind == "choice":
            return run_exercise(exercise, _choice(told.get("value") or {}))
        unfit = told.get("unfit")

        def explain() -> Any:
            child.close()  # everything that is shown has been asked
            return self.explainer.explain(task, question, given)

        source = "\n".join(cell["source"] for cell in task["cells"] if cell["name"] == question.answer)
        attempt = RemoteAttempt(
            child, str(unfit)[:300] if unfit else None, self.budget.check_real_time, explain, source
        )
        return run_exercise(exercise, attempt, Asking(seed=self.seed, memory=self.memory), to_the_end=True)


def _stuck(found: list[tuple[Verdict, dict[str, Any] | None]]) -> Stuck:
    """Return the cells that did not end in their time, with the line and what was said: none waits for it again."""
    cells = (cell for verdict, _ in found for cell in verdict.cells if cell["error"] == "TimeLimit")
    return {cell["name"]: (cell["stopped"], cell["text"]) for cell in cells}


def failed(exercise: Exercise, failure: Failure) -> Report:
    """Report on an answer that could not be tried."""
    return write_report(exercise, [], cases=(), failure=failure)


def _forbidden(use: list[str]) -> Failure:
    name, text = use
    return Failure("forbidden", f"calls {name[:120]}, which this exercise asks you to do without: `{text[:120]}`")


def _missing(question: Question, missing: Failure, ran: list[dict[str, Any]]) -> Failure:
    """Report that there is no answer to judge: its cell failed, or it defines something else."""
    stopped = [cell for cell in ran if cell["error"] and cell["name"] == question.answer]
    stopped = stopped or [cell for cell in ran if cell["error"]]
    if stopped:
        cell = stopped[0]
        lacks = {key: cell[key] for key in ("lacks_name", "lacks_module")}
        return Failure("cell", cell["text"], exception=cell["error"], **lacks)
    return replace(missing, kind="type", text=f"is not there: {missing.error[:300]}", exception="", line=0, source="")


def _choice(value: dict[str, Any]) -> Any:
    if type(value.get("text")) is str:
        return value["text"]
    name = str(value.get("type"))[:60]
    return None if value.get("none") is True else type(name if name.isidentifier() else "object", (), {})()


def _outcomes(told: Any) -> list[dict[str, Any]]:
    """Return the child's account of its cells: words for its own student, and nothing else."""
    found: list[dict[str, Any]] = []
    for cell in told if isinstance(told, list) else []:
        if isinstance(cell, dict):
            found.append({key: str(cell.get(key, ""))[:4000] for key in OUTCOME})
            found[-1]["name"] = str(cell.get("cell", ""))[:200]
            line = cell.get("stopped")
            found[-1]["stopped"] = line if type(line) is int and 0 < line < 1_000_000 else 0
    return found[:1000]
