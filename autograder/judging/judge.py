"""Judging a notebook: each answer in a process of its own in the sandbox, the verdict here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from nbformat import NotebookNode

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.observe import Memory
from attnlib.checks.exercise import Exercise
from attnlib.checks.verdict.judge import run_exercise
from attnlib.checks.verdict.report import Report
from attnlib.checks.verdict.write import write_report
from autograder.judging.around_a_test import Cells, cells_around, grade_id, imported_late, is_untouched, may_define
from autograder.judging.budget import Budget, OutOfTime
from autograder.judging.explainer import Explainer
from autograder.judging.verdict import Verdict
from autograder.lesson_text.assignment import Assignment, Question
from autograder.sandbox.process import Child, Died, Sandbox
from autograder.sandbox.remote import RemoteAttempt, failure_from
from autograder.sandbox.views import view, whole_view
from autograder.showing.errors import CourseError, trace_of

OURS = ("attnlib", "autograder")
OUTCOME = ("error", "text", "printed", "lacks_name", "lacks_module")
Outcomes = list[dict[str, Any]]
Ask = Callable[[], Any]
UNANSWERED = Failure("unwritten", "is not answered yet")


@dataclass(frozen=True)
class Attempt:
    """What is run to judge an answer."""

    cells: Cells
    below: Cells
    """Cells below the test, which are not run."""
    run: str = "needed"
    """Which of the cells: see `needed` in sandbox/inside/needed.py."""
    show: tuple[str, ...] = ()
    """The demonstrations whose numbers are computed elsewhere, since they need what is withheld."""


@dataclass
class Asked:
    """The outcome of one attempt: what was run for it, what was left out, and whether the child died in the cells."""

    report: Report
    cells: list[dict[str, Any]] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    unseen: int = 0
    died: bool = False

    @property
    def lacking(self) -> list[str]:
        """The name for want of which it failed, in a list."""
        return [self.report.failure.lacks_name] if self.report.failure and self.report.failure.lacks_name else []

    @property
    def lacking_modules(self) -> list[str]:
        """The module for want of which it failed, in a list; none if it is ours, which no file beside stands for."""
        module = self.report.failure.lacks_module if self.report.failure else ""
        return [module] if module and module not in OURS else []

    def not_shown(self, cells: Cells) -> tuple[str, ...]:
        """If names were lacking, the demonstrations that did not run to their end: they may need what is withheld."""
        given = {cell["name"] for cell in cells if cell["role"] == "given"}
        return tuple(cell["name"] for cell in self.cells if cell["error"] and cell["name"] in given and self.lacking)


def _added(cells: Cells) -> Cells:
    return [cell for cell in cells if cell["role"] == "added"]


@dataclass(frozen=True)
class Retry:
    """A reason for which an answer may have failed that is not the answer's fault, and what to run instead."""

    why: str
    applies: Callable[[Attempt, Asked], bool]
    change: Callable[[Attempt, Asked], Attempt]


RETRIES = (
    Retry(
        "students run their cells in any order",
        lambda attempt, asked: may_define(attempt.below, asked.lacking),
        lambda attempt, asked: replace(attempt, cells=attempt.cells + attempt.below, below=[]),
    ),
    Retry(
        "a module's file was written before it was imported",
        lambda attempt, asked: may_define(attempt.below, asked.lacking_modules),
        lambda attempt, asked: replace(attempt, cells=_added(attempt.below) + attempt.cells, below=[]),
    ),
    Retry(
        "a demonstration needs what is withheld from the answer",
        lambda attempt, asked: bool(asked.not_shown(attempt.cells)),
        lambda attempt, asked: replace(attempt, show=asked.not_shown(attempt.cells)),
    ),
    Retry(
        "a cell that was left out binds a name that is missing",
        lambda attempt, asked: not asked.left_out.isdisjoint(asked.lacking),
        lambda attempt, asked: replace(attempt, run="all"),
    ),
    Retry(
        "it died, perhaps in a cell that was run only because it hides what it binds",
        lambda attempt, asked: attempt.run == "needed" and asked.died and asked.unseen > 0,
        lambda attempt, asked: replace(attempt, run="seen"),
    ),
)
"""Each is tried once, in this order, on what the one before has led to."""


class Judge:
    """Judges one notebook after the other in one sandbox, and remembers what the references did.

    `seed` draws the numbers on which answers are compared. A course has a seed of its own, which students do not know:
    an answer that holds a table of the results for seed 0 is wrong.
    """

    def __init__(self, sandbox: Sandbox, seed: int = 0) -> None:
        self.sandbox, self.seed = sandbox, seed
        self.memory: Memory = {}
        self.beside: dict[str, bytes] = {}
        self.budget = Budget(sandbox.limits.time)
        self.explainer = Explainer(sandbox)
        self.overcome: list[str] = []
        """The tracebacks of our own faults while the last notebook was judged, if a second attempt had none."""

    def verdicts(
        self,
        settled: NotebookNode,
        assignment: Assignment,
        step: Callable[[Question], None] = lambda _: None,
        beside: Mapping[str, bytes] | None = None,
    ) -> list[Verdict]:
        """The verdict on every question of the assignment; files that are `beside` the notebook can be read there."""
        self.beside, self.budget, self.overcome = dict(beside or {}), Budget(self.sandbox.limits.time), []
        self.explainer = Explainer(self.sandbox)
        found: list[Verdict] = []
        for question in assignment.questions:
            step(question)
            ran = (cell for verdict in found for cell in verdict.cells)
            stuck = sorted({cell["name"] for cell in ran if cell["error"] == "TimeLimit"} - {question.answer})
            try:
                found.append(self._verdict(settled, assignment, question, stuck))
            except (CourseError, OutOfTime):  # there is no sandbox, or no more time
                raise
            except Exception as error:  # our own fault: once more, in a fresh process; a second one is the reason given
                self.sandbox.close()
                found.append(self._verdict(settled, assignment, question, stuck))
                self.overcome.append(trace_of(error))
        return found

    def _verdict(self, settled: NotebookNode, assignment: Assignment, question: Question, stuck: list[str]) -> Verdict:
        attempt = Attempt(*cells_around(settled, assignment, question.test))
        answer = next((c for c in settled.cells if grade_id(c) == question.answer), None)
        untouched = answer is not None and is_untouched(answer)
        expression = [question.expression]
        if untouched and not (_added(attempt.cells) or may_define(attempt.cells, expression)):
            if not may_define(attempt.below, expression):
                return Verdict(question, failed(question.exercise, UNANSWERED), answered=False)
            attempt = replace(attempt, cells=attempt.cells + attempt.below, below=[])
        asked = self._ask(attempt, question, assignment.given, stuck)
        for retry in RETRIES:
            if retry.applies(attempt, asked):
                attempt = retry.change(attempt, asked)
                asked = self._ask(attempt, question, assignment.given, stuck)
        return Verdict(question, asked.report, answered=not untouched or asked.report.score > 0, cells=asked.cells)

    def _ask(self, attempt: Attempt, question: Question, given: frozenset[str], stuck: list[str]) -> Asked:
        exercise = question.exercise
        self.budget.check_real_time()
        if self.budget.is_spent:
            return Asked(failed(exercise, self.budget.failure()))
        task = {
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
        child = self.sandbox.fork(given, imported_late(attempt.cells))
        asked = Asked(failed(exercise, UNANSWERED))
        try:
            parsed = child.ask(task)
            asked.left_out, asked.unseen = frozenset(parsed["left_out"]), parsed["unseen"]
            if parsed["shortcuts"]:
                asked.report = failed(exercise, _forbidden(parsed["shortcuts"][0]))
                return asked
            told = child.listen()
            asked.cells = _outcomes(told.get("cells"))
            explain = partial(self.explainer.explain, task, question, given)
            source = "\n".join(cell["source"] for cell in attempt.cells if cell["name"] == question.answer)
            asked.report = self._judge(child, question, told, asked.cells, explain, source)
        except Died as error:
            asked.report, asked.died = failed(exercise, Failure("died", str(error))), True
        finally:
            child.close()
            self.budget.spent += child.spent
        return asked

    def _shown(self, attempt: Attempt, given: frozenset[str]) -> dict[str, Any]:
        """What demonstrations bind that need what is withheld: numbers and texts, which each student has seen.

        They are computed in a process of their own, in which no student's code runs.
        """
        if not attempt.show:
            return {}
        own = [cell for cell in attempt.cells if cell["role"] == "given"]
        child = self.sandbox.fork(given, imported_late(own))
        try:
            request = {"cells": own, "show": list(attempt.show), "library": whole_view()}
            found = child.ask(request, self.sandbox.limits.time.cells_cpu).get("shown")
        except Died:
            return {}
        finally:
            child.close()
        return found if isinstance(found, dict) else {}

    def _judge(
        self, child: Child, question: Question, told: dict[str, Any], ran: Outcomes, explain: Ask, source: str
    ) -> Report:
        exercise = question.exercise
        if told.get("missing") or not isinstance(told.get("value"), (dict, type(None))):
            return failed(exercise, _missing(question, failure_from(told.get("missing")), ran))
        if exercise.kind == "choice":
            return run_exercise(exercise, _choice(told.get("value") or {}))
        unfit = told.get("unfit")
        attempt = RemoteAttempt(child, str(unfit)[:300] if unfit else None, explain, source)
        return run_exercise(exercise, attempt, hidden=True, seed=self.seed, memory=self.memory)


def failed(exercise: Exercise, failure: Failure) -> Report:
    """The report on an answer that could not be tried."""
    return write_report(exercise, [], cases=(), failure=failure)


def _forbidden(use: list[str]) -> Failure:
    name, text = use
    return Failure("forbidden", f"calls {name[:120]}, which this exercise asks you to do without: `{text[:120]}`")


def _missing(question: Question, missing: Failure, ran: list[dict[str, Any]]) -> Failure:
    """There is no answer to judge: because its cell failed, or because it defines something else."""
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
    """The child's account of its cells: words for its own student, and nothing else."""
    found = []
    for cell in told if isinstance(told, list) else []:
        if isinstance(cell, dict):
            found.append({key: str(cell.get(key, ""))[:4000] for key in OUTCOME})
            found[-1]["name"] = str(cell.get("cell", ""))[:200]
    return found[:1000]
