"""Judge a notebook: each answer in a process of its own in the sandbox, the verdict here.

Everything that is shown comes first, for all questions. Hidden cases follow in fresh processes, and decide only which
parts of their own question still count. So nothing that has seen a hidden input can tell anybody. Answers that pass may
share a process: see `together`.
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
from attnlib.checks.verdict.judge import parts_left, passing, run_exercise
from attnlib.checks.verdict.report import Report
from attnlib.checks.verdict.write import after_hidden_cases, write_report
from autograder.judging.budget import Budget, OutOfTime
from autograder.judging.cells_around import (
    cells_around,
    grade_id,
    imported_late,
    is_untouched,
    may_define,
    plain_text,
)
from autograder.judging.explainer import Explainer
from autograder.judging.retries import RETRIES, Outcome, Run, Stuck, added, outcomes, said, stuck_cells
from autograder.judging.together import Together, groups_of
from autograder.judging.verdict import Verdict
from autograder.lesson_text.assignment import Assignment, Question
from autograder.sandbox.process import Child, Sandbox
from autograder.sandbox.remote import RemoteAttempt, failure_from
from autograder.sandbox.template import Died
from autograder.sandbox.views import view
from autograder.showing.errors import CourseError, trace_of

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
        self.together = Together(sandbox, self.budget, {})
        self.overcome: list[str] = []
        """The tracebacks of the grader's faults in the last notebook that a second attempt didn't show."""

    def verdicts(
        self,
        settled: NotebookNode,
        assignment: Assignment,
        step: Callable[[Question], None] = lambda _: None,
        beside: Mapping[str, bytes] | None = None,
    ) -> list[Verdict]:
        """The verdict on every question of the assignment; files `beside` the notebook can be read there."""
        with ONE_AT_A_TIME:
            self.beside, self.budget, self.overcome = dict(beside or {}), Budget(self.sandbox.limits.time), []
            self.explainer = Explainer(self.sandbox, self.budget)
            self.together = Together(self.sandbox, self.budget, groups_of(assignment))
            try:
                return self._all(settled, assignment, step)
            finally:
                self.together.part()

    def _all(self, settled: NotebookNode, assignment: Assignment, step: Callable[[Question], None]) -> list[Verdict]:
        found: dict[str, tuple[Verdict, dict[str, Any] | None]] = {}
        questions = {question.test: question for question in assignment.questions}
        for test in self.together.groups:
            question = questions[test]
            step(question)
            stuck = stuck_cells(verdict.cells for verdict, _ in found.values())
            stuck.pop(question.answer or "", None)
            found[test] = self._twice(self._verdict, settled, assignment, question, stuck)
        self.together.part()
        seed, stuck = self._seed_of(settled), stuck_cells(verdict.cells for verdict, _ in found.values())
        for verdict, task in found.values():  # from here on nothing is shown, and nothing runs that could show anything
            if task is not None and any(verdict.report.parts.values()):
                left = self._twice(self._left, {**task, "stuck": stuck}, verdict, assignment.given, seed)
                verdict.report = after_hidden_cases(verdict.question.exercise, verdict.report, left)
        return [found[test][0] for test in questions]

    def _twice(self, judge: Callable[..., Any], *about: Any) -> Any:
        """Judge, and after a fault of the grader's judge again in a fresh process; a second fault is the reason."""
        try:
            return judge(*about)
        except (CourseError, OutOfTime):  # there is no sandbox, or no more time
            raise
        except Exception as error:
            self.together.part()
            self.sandbox.close()
            found = judge(*about)
            self.overcome.append(trace_of(error))
            return found

    def _seed_of(self, settled: NotebookNode) -> int:
        """Return the seed of the hidden cases, unique to a submission: knowing another one's inputs is of no use."""
        state = hashlib.sha256(repr((self.seed, sorted(self.beside.items()))).encode())
        for cell in settled.cells:  # its kind and its grade id, too: they decide what is run
            state.update(repr((cell.cell_type, grade_id(cell), cell.source)).encode())
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
        asked = self._passed(attempt, question, assignment.given, stuck)
        if asked is None or not asked.report.passed:
            asked = self._ask(attempt, question, assignment.given, stuck)
            for retry in RETRIES:
                if retry.applies(attempt, asked):
                    attempt = retry.change(attempt, asked)
                    asked = self._ask(attempt, question, assignment.given, stuck)
        answered = not untouched or asked.report.score > 0
        return Verdict(question, asked.report, answered=answered, cells=asked.cells), asked.task

    def _task(self, attempt: Run, question: Question, given: frozenset[str], stuck: Stuck) -> dict[str, Any]:
        """Return what a process has to know for running the cells and holding the answer."""
        return {
            "cells": attempt.cells,
            "beside": self.beside,
            "wanted": question.answer or "",
            "run": attempt.run,
            "stuck": stuck,
            "show": [],
            "shown": self._shown(attempt, given, self.together.groups[question.test][0].lent),
            "expression": question.expression,
            "kind": question.exercise.kind,
            "forbidden": list(question.exercise.forbidden),
        }

    def _passed(self, attempt: Run, question: Question, given: frozenset[str], stuck: Stuck) -> Outcome | None:
        """Judge the answer without a process of its own, if that can be; only one that passes has been judged."""
        exercise = question.exercise
        if exercise.kind == "choice":  # a text that is simply assigned needs no process
            return Outcome(run_exercise(exercise, plain_text(attempt.cells, question.expression)))
        if self.budget.is_spent:
            return None
        task = self._task(attempt, question, given, stuck)
        asked = Outcome(failed(exercise, UNANSWERED), task=task if exercise.cases else None)

        def judge(child: Child) -> bool:
            told = child.listen()
            asked.cells = outcomes(told.get("cells"))
            if not said(told, "missing") and asked.is_silent:
                rest = RemoteAttempt(child, "unfit" if said(told, "unfit") else None, self.budget.check_real_time)
                report = passing(exercise, rest, Asking(seed=self.seed, memory=self.memory))
                asked.report = report or asked.report
            return asked.report.passed

        self.together.takes(task, question, given, judge)
        return asked

    def _ask(self, attempt: Run, question: Question, given: frozenset[str], stuck: Stuck) -> Outcome:
        exercise = question.exercise
        self.budget.check_real_time()
        if self.budget.is_spent:
            return Outcome(failed(exercise, self.budget.failure()))
        task = self._task(attempt, question, given, stuck)
        asked = Outcome(failed(exercise, UNANSWERED))
        child = self.together.fresh(task, question, given)
        try:
            parsed = child.ask({**task, **self.together.first})
            asked.left_out, asked.unseen = frozenset(parsed["left_out"]), parsed["unseen"]
            if parsed["shortcuts"]:
                asked.report = failed(exercise, _forbidden(parsed["shortcuts"][0]))
                return asked
            told = child.listen()
            asked.cells = outcomes(told.get("cells"))
            asked.report = self._judge(child, question, told, asked.cells, task, given)
            asked.task = task if exercise.cases else None
        except Died as error:
            asked.report, asked.died = failed(exercise, Failure("died", str(error))), True
        finally:
            self.together.part_unless(asked.report.passed and asked.is_silent)
        return asked

    def _left(self, task: dict[str, Any], verdict: Verdict, given: frozenset[str], seed: int) -> dict[str, bool]:
        """Return the parts of the answer that hold in the hidden cases; none if the answer can't even be called."""
        self.budget.check_real_time()
        parts, question = verdict.report.parts, verdict.question
        if self.budget.is_spent:
            return dict.fromkeys(parts, False)
        if self.together.takes(task, question, given, lambda child: self._holding(child, verdict, seed) == parts):
            return parts
        child, left = self.together.fresh(task, question, given), dict.fromkeys(parts, False)
        try:
            child.ask({**task, **self.together.first})
            left = self._holding(child, verdict, seed)
        except Died:
            pass
        finally:
            self.together.part_unless(left == parts)
        return left

    def _holding(self, child: Child, verdict: Verdict, seed: int) -> dict[str, bool]:
        """Return the parts that hold in the process, which has been given its task. Raises Died."""
        told, parts = child.listen(), verdict.report.parts
        if said(told, "missing") or said(told, "unfit"):
            return dict.fromkeys(parts, False)
        attempt = RemoteAttempt(child, None, self.budget.check_real_time)
        return parts_left(verdict.question.exercise, attempt, parts, Asking(seed=seed))

    def _shown(self, attempt: Run, given: frozenset[str], lent: frozenset[str]) -> dict[str, Any]:
        """Return the values that demonstrations bind and that need what is withheld: every student has seen them.

        They are computed in a process of their own, in which no student's code runs.
        """
        if not attempt.show:
            return {}
        own = [cell for cell in attempt.cells if cell["role"] == "given"]
        child = self.sandbox.fork(given, imported_late(own))
        with self.budget.counting(child):
            try:
                request = {"cells": own, "show": list(attempt.show), "library": view(lent=lent)}
                found = child.ask(request, self.sandbox.limits.time.cells_cpu).get("shown")
            except Died:
                return {}
        return found if isinstance(found, dict) else {}

    def _judge(
        self,
        child: Child,
        question: Question,
        told: dict[str, Any],
        ran: list[dict[str, Any]],
        task: dict[str, Any],
        given: frozenset[str],
    ) -> Report:
        """The report on the visible cases."""
        exercise = question.exercise
        if (missing := said(told, "missing")) or not isinstance(told.get("value"), (dict, type(None))):
            return failed(exercise, _missing(question, failure_from(missing), ran))
        if exercise.kind == "choice":
            return run_exercise(exercise, _choice(told.get("value") or {}))
        unfit = said(told, "unfit")

        def explain() -> Any:
            child.close()  # everything that is shown has been asked
            return self.explainer.explain(task, question, given)

        source = "\n".join(cell["source"] for cell in task["cells"] if cell["name"] == question.answer)
        attempt = RemoteAttempt(
            child, str(unfit)[:300] if unfit else None, self.budget.check_real_time, explain, source
        )
        return run_exercise(exercise, attempt, Asking(seed=self.seed, memory=self.memory), to_the_end=True)


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
