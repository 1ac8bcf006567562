"""A verdict on one test, and its form in a graded notebook."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from attnlib.checks.verdict.report import MIME, Report
from autograder.judging.bound_display import bound_display
from autograder.lesson_text.assignment import Question


@dataclass
class Verdict:
    """The outcome of one test: the report, the points, and the cells that its answer needed."""

    question: Question
    report: Report
    answered: bool
    cells: list[dict[str, Any]] = field(default_factory=list)

    @property
    def points(self) -> float:
        """The share of the test cell's points."""
        return self.report.score * self.question.points


def write_verdicts(settled: NotebookNode, verdicts: Iterable[Verdict]) -> NotebookNode:
    """Write the report below each test, and below the student's cells what they printed."""
    by_test = {verdict.question.test: verdict for verdict in verdicts}
    cells = {cell["name"]: cell for verdict in by_test.values() for cell in verdict.cells}
    for verdict in by_test.values():  # an answer's own run says most about its cell
        cells |= {cell["name"]: cell for cell in verdict.cells if cell["name"] == verdict.question.answer}
    for number, cell in enumerate(settled.cells):
        if cell.cell_type != "code":
            continue
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in by_test:
            cell.execution_count = number + 1
            cell.outputs = _outputs_of_test(by_test[name], number + 1)
        elif (found := cells.get(name or str(number))) is not None:
            cell.execution_count = number + 1
            cell.outputs = _outputs_of_answer(found)
    return bound_display(settled)


def _outputs_of_test(verdict: Verdict, count: int) -> list[NotebookNode]:
    points = {"text/plain": repr(verdict.points)}
    report = new_output("display_data", verdict.report._repr_mimebundle_())
    return [report, new_output("execute_result", points, execution_count=count)]


def _outputs_of_answer(found: dict[str, Any]) -> list[NotebookNode]:
    outputs = []
    if found["printed"]:
        outputs.append(new_output("stream", name="stdout", text=found["printed"]))
    if found["error"]:
        said = f"{found['error']}: {found['text']}".rstrip(": ")
        outputs.append(new_output("error", ename=found["error"], evalue=found["text"], traceback=[said]))
    return outputs


def earned(cell: NotebookNode, max_points: float) -> float:
    """Return the points that an executed test cell of the instructor's gave; 0 for an error, or anything else."""
    outputs = cell.get("outputs", [])
    if cell.get("execution_count") is None or any(output.output_type == "error" for output in outputs):
        return 0.0
    values = [output.data.get("text/plain", "") for output in outputs if output.output_type == "execute_result"]
    try:
        points = float(values[-1]) if values else 0.0
    except ValueError:
        return 0.0
    return points if math.isfinite(points) and 0 <= points <= max_points else 0.0


def reports(notebook: NotebookNode) -> dict[str, dict[str, Any]]:
    """Return the last report below each test cell, by the test's grade id."""
    found: dict[str, dict[str, Any]] = {}
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and nbgrader.get("grade"):
            for output in cell.outputs:
                report = output.get("data", {}).get(MIME)
                if isinstance(report, dict):
                    found[nbgrader["grade_id"]] = report
    return found


def pages(notebook: NotebookNode) -> dict[str, str]:
    """The last report below each test cell as HTML, by the test's grade id."""
    return {
        cell.metadata.nbgrader.grade_id: output.data["text/html"]
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {}) and "text/html" in output.data
    }


def error_in(cell: NotebookNode) -> str | None:
    """Return the name of the error the cell ended with, if it did."""
    return next((output.ename for output in cell.get("outputs", []) if output.output_type == "error"), None)
