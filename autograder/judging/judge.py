"""Judging a notebook: each answer in a process of its own in the sandbox, the verdict here."""

import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.utils import compute_checksum

from attnlib.checks.asking.attempt import Failure
from attnlib.checks.asking.observe import Memory
from attnlib.checks.verdict.judge import run_exercise
from attnlib.checks.verdict.report import Report, write_report
from autograder.in_nbgrader.bound_display import bound_display
from autograder.judging.budget import Budget, OutOfTime
from autograder.judging.settle.settle_cells import STEPS
from autograder.lesson_text.assignment import Assignment, Question
from autograder.sandbox.process import Child, Died, Sandbox
from autograder.sandbox.remote import RemoteAttempt
from autograder.sandbox.views import view, whole_view
from autograder.showing.errors import CourseError

UNANSWERED = Failure("unwritten", "is not answered yet")


@dataclass
class Verdict:
    """What one test earned: the report, the points, and what came of the cells that its answer needed."""

    question: Question
    report: Report
    answered: bool
    cells: list[dict[str, Any]] = field(default_factory=list)

    @property
    def points(self) -> float:
        """The share of the test cell's points."""
        return self.report.score * self.question.points


@dataclass
class Asked:
    """One attempt at a verdict: what was run for it and what was left out, and whether the child died in the cells."""

    report: Report
    cells: list[dict[str, Any]] = field(default_factory=list)
    left_out: frozenset[str] = frozenset()
    unseen: int = 0
    died: bool = False

    @property
    def lacking(self) -> list[str]:
        """The names for want of which it failed."""
        return self._said(r"name '(\w+)' is not defined")

    @property
    def lacking_modules(self) -> list[str]:
        """The modules for want of which it failed."""
        return self._said(r"No module named '(\w+)")

    def _said(self, pattern: str) -> list[str]:
        return [] if self.report.passed else re.findall(pattern, " ".join(self.report.message.split()))

    def not_shown(self, cells: list[dict[str, str]]) -> list[str]:
        """If names were lacking, the demonstrations that did not run to their end: they may need what is withheld."""
        given = {cell["name"] for cell in cells if cell["role"] == "given"}
        stopped = [cell["name"] for cell in self.cells if cell["error"] and cell["name"] in given]
        return stopped if self.lacking else []


def settle(notebook: NotebookNode, assignment: Assignment) -> NotebookNode:
    """The submission with its cells as grading needs them: each test there, once, below its answer."""
    settled = deepcopy(notebook)
    for step in STEPS:
        settled = step(settled, assignment.released)
    return settled


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

    def verdicts(
        self,
        settled: NotebookNode,
        assignment: Assignment,
        step: Callable[[Question], None] = lambda _: None,
        beside: Mapping[str, bytes] | None = None,
    ) -> list[Verdict]:
        """The verdict on every question of the assignment; files that are `beside` the notebook can be read there."""
        self.beside, self.budget = dict(beside or {}), Budget(self.sandbox.limits.time)
        found: list[Verdict] = []
        for question in assignment.questions:
            step(question)
            ran = (cell for verdict in found for cell in verdict.cells)
            stuck = sorted({cell["name"] for cell in ran if cell["error"] == "TimeLimit"} - {question.answer})
            try:
                found.append(self._verdict(settled, assignment, question, stuck))
            except (CourseError, OutOfTime):  # there is no sandbox, or no more time
                raise
            except (
                Exception
            ):  # the grader's own fault: once more, in a fresh process; a second time, it is the reason given
                self.sandbox.close()
                found.append(self._verdict(settled, assignment, question, stuck))
        return found

    def _verdict(self, settled: NotebookNode, assignment: Assignment, question: Question, stuck: list[str]) -> Verdict:
        cells, below = _cells(settled, assignment, question.test)
        answer = next((c for c in settled.cells if _grade_id(c) == question.answer), None)
        untouched = answer is not None and _is_untouched(answer)
        if untouched and not _written_elsewhere(question, cells):
            if not _write(below, [question.expression]):
                return Verdict(question, _failed(question.exercise, UNANSWERED), answered=False)
            cells, below = cells + below, []
        asked = self._ask(cells, question, assignment.given, "needed", stuck)
        if _write(below, asked.lacking):  # students run their cells in any order
            cells, below = cells + below, []
            asked = self._ask(cells, question, assignment.given, "needed", stuck)
        if _write(below, asked.lacking_modules):  # the file was written before it was imported
            cells, below = [cell for cell in below if cell["role"] == "added"] + cells, []
            asked = self._ask(cells, question, assignment.given, "needed", stuck)
        if names := asked.not_shown(cells):
            shown = self._shown(cells, question, assignment.given, names)
            asked = self._ask(cells, question, assignment.given, "needed", stuck, shown)
        if not asked.left_out.isdisjoint(asked.lacking):
            asked = self._ask(cells, question, assignment.given, "all", stuck)
        elif asked.died and asked.unseen:  # perhaps in a cell that was run only because it hides what it binds
            asked = self._ask(cells, question, assignment.given, "seen", stuck)
        report, ran = asked.report, asked.cells
        return Verdict(question, report, answered=not untouched or report.score > 0, cells=ran)

    def _ask(
        self,
        cells: list[dict[str, str]],
        question: Question,
        given: frozenset[str],
        run: str,
        stuck: list[str],
        shown: dict[str, Any] | None = None,
    ) -> Asked:
        exercise = question.exercise
        task = {
            "cells": cells,
            "beside": self.beside,
            "wanted": question.answer or "",
            "run": run,
            "stuck": stuck,
            "show": [],
            "shown": shown or {},
            "expression": question.expression,
            "kind": exercise.kind,
            "forbidden": list(exercise.forbidden),
            "library": view(exercise),
        }
        self.budget.check_real_time()
        if self.budget.is_spent:
            return Asked(_failed(exercise, Failure("time", _spent(self.budget))))
        child = self.sandbox.fork(given)
        asked = Asked(_failed(exercise, UNANSWERED))
        try:
            parsed = child.ask(task)
            asked.left_out, asked.unseen = frozenset(parsed["left_out"]), parsed["unseen"]
            if parsed["shortcuts"]:
                asked.report = _failed(exercise, _forbidden(parsed["shortcuts"][0]))
                return asked
            told = child.listen()
            asked.cells = _outcomes(told.get("cells"))
            asked.report = self._judge(child, question, told, asked.cells)
        except Died as error:
            asked.report, asked.died = _failed(exercise, Failure("died", str(error))), True
        finally:
            child.close()
            self.budget.spent += child.spent
        return asked

    def _shown(
        self, cells: list[dict[str, str]], question: Question, given: frozenset[str], names: list[str]
    ) -> dict[str, Any]:
        """What demonstrations bind that need what is withheld: numbers and texts, which each student has seen.

        They are computed in a process of their own, in which no student's code runs.
        """
        own = [cell for cell in cells if cell["role"] == "given"]
        child = self.sandbox.fork(given)
        try:
            request = {"cells": own, "show": names, "library": whole_view()}
            found = child.ask(request, self.sandbox.limits.time.cells_cpu).get("shown")
        except Died:
            return {}
        finally:
            child.close()
        return found if isinstance(found, dict) else {}

    def _judge(self, child: Child, question: Question, told: dict[str, Any], ran: list[dict[str, Any]]) -> Report:
        exercise = question.exercise
        if told.get("missing") or not isinstance(told.get("value"), (dict, type(None))):
            return _failed(exercise, _missing(question, str(told.get("missing"))[:300], ran))
        if exercise.kind == "choice":
            return run_exercise(exercise, _choice(told.get("value") or {}))
        unfit = told.get("unfit")
        attempt = RemoteAttempt(child, str(unfit)[:300] if unfit else None)
        return run_exercise(exercise, attempt, hidden=True, seed=self.seed, memory=self.memory)


def _cells(
    settled: NotebookNode, assignment: Assignment, test: str
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The code above a test, and that below it, tests left out: what was given and is unchanged, and the student's."""
    above: list[dict[str, str]] = []
    below: list[dict[str, str]] = []
    found = above
    for number, cell in enumerate(settled.cells):
        name = _grade_id(cell)
        if name == test:
            found = below
        if cell.cell_type != "code" or (name in assignment.released and assignment.released[name].is_test):
            continue
        given = name is None and cell.source.strip() in assignment.given
        role = "given" if given else "added" if name is None else "stub" if _is_untouched(cell) else "answer"
        found.append({"name": name or f"{number}", "source": cell.source, "role": role})
    return above, below


def _is_untouched(cell: NotebookNode) -> bool:
    """Whether an answer's cell is as it was released."""
    return cell.metadata.nbgrader.checksum == compute_checksum(cell)


def _written_elsewhere(question: Question, cells: list[dict[str, str]]) -> bool:
    """Whether a cell that is no stub may define the answer."""
    return any(cell["role"] == "added" for cell in cells) or _write(cells, [question.expression])


def _write(cells: list[dict[str, str]], names: Iterable[str]) -> bool:
    """Whether the student's own cells name one of these: they may define it."""
    named = [re.compile(rf"\b{re.escape(name)}\b") for name in names]
    return any(
        cell["role"] in ("added", "answer") and any(name.search(cell["source"]) for name in named) for cell in cells
    )


def _grade_id(cell: NotebookNode) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _failed(exercise: Any, failure: Failure) -> Report:
    return write_report(exercise, [], failure=failure)


def _spent(budget: Budget) -> str:
    minutes = budget.limits.submission_cpu / 60
    return f"was not tried: this notebook's answers have used up the {minutes:.0f} minutes that they share"


def _forbidden(use: list[str]) -> Failure:
    name, text = use
    return Failure("forbidden", f"calls {name}, which this exercise asks you to do without: `{text[:120]}`")


def _missing(question: Question, missing: str, ran: list[dict[str, Any]]) -> Failure:
    """There is no answer to judge: because its cell failed, or because it defines something else."""
    failed = [cell for cell in ran if cell["error"] and cell["name"] == question.answer]
    failed = failed or [cell for cell in ran if cell["error"]]
    if failed:
        text = failed[0]["text"]
        said = text if text.startswith(failed[0]["error"]) else f"{failed[0]['error']}: {text}"
        return Failure("raised", f"its cell ended with {said}")
    return Failure("type", f"is not there: {missing}")


def _choice(value: dict[str, Any]) -> Any:
    if type(value.get("text")) is str:
        return value["text"]
    return None if value.get("none") is True else type(str(value.get("type"))[:60] or "object", (), {})()


def _outcomes(told: Any) -> list[dict[str, Any]]:
    """The child's account of its cells: words for its own student, and nothing else."""
    found = []
    for cell in told if isinstance(told, list) else []:
        if isinstance(cell, dict):
            found.append({key: str(cell.get(key, ""))[:4000] for key in ("error", "text", "printed")})
            found[-1]["name"] = str(cell.get("cell", ""))[:200]
    return found[:1000]


def write_verdicts(settled: NotebookNode, verdicts: Iterable[Verdict]) -> NotebookNode:
    """The graded notebook: the report below each test, and below the student's cells what they printed."""
    by_test = {verdict.question.test: verdict for verdict in verdicts}
    cells = {cell["name"]: cell for verdict in by_test.values() for cell in verdict.cells}
    for verdict in by_test.values():  # an answer's own run tells most about its cell
        cells |= {cell["name"]: cell for cell in verdict.cells if cell["name"] == verdict.question.answer}
    for number, cell in enumerate(settled.cells):
        if cell.cell_type != "code":
            continue
        name = _grade_id(cell)
        if name in by_test:
            verdict = by_test[name]
            data = verdict.report._repr_mimebundle_()
            cell.execution_count = number + 1
            value = {"text/plain": repr(verdict.points)}
            cell.outputs = [
                new_output("display_data", data),
                new_output("execute_result", value, execution_count=number + 1),
            ]
        elif (found := cells.get(name or str(number))) is not None:
            cell.execution_count = number + 1
            cell.outputs = []
            if found["printed"]:
                cell.outputs.append(new_output("stream", name="stdout", text=found["printed"]))
            if found["error"]:
                said = f"{found['error']}: {found['text'].removeprefix(found['error'] + ': ')}"
                cell.outputs.append(new_output("error", ename=found["error"], evalue=found["text"], traceback=[said]))
    return bound_display(settled)
