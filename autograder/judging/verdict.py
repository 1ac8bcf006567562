"""What stands in an executed or graded notebook: the checks' reports, and what the instructor's own tests gave."""

import math
from typing import Any

from nbformat import NotebookNode

from attnlib.checks.verdict.report import MIME


def earned(cell: NotebookNode, max_points: float) -> float:
    """The number that an executed test cell of the instructor's gave; 0 for an error, or for no such number."""
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
    """The last report that stands below each test cell, by the test's grade id."""
    found: dict[str, dict[str, Any]] = {}
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and nbgrader.get("grade"):
            for output in cell.outputs:
                report = output.get("data", {}).get(MIME)
                if isinstance(report, dict):
                    found[nbgrader["grade_id"]] = report
    return found


def error_in(cell: NotebookNode) -> str | None:
    """The name of the error with which the cell ended, if it did."""
    return next((output.ename for output in cell.get("outputs", []) if output.output_type == "error"), None)
