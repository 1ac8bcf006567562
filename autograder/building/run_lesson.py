"""Execute a solved lesson: the instructor's notebook."""

import os
import re
from copy import deepcopy
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from attnlib.checks.asking.time_limits import here
from attnlib.checks.standing.kept import PLACE
from autograder.judging.verdict import earned
from autograder.lesson_text.lesson import LANGUAGE
from autograder.showing.errors import CourseError, first_line


def run_lesson(source: NotebookNode, lesson: str, folder: Path) -> NotebookNode:
    """Return the executed copy; a CourseError if a cell raises, or a solution doesn't earn its full points."""
    notebook = deepcopy(source)
    client = NotebookClient(
        notebook,
        timeout=int(here().lesson_cell_wall),
        startup_timeout=int(here().start_wall),
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env={**os.environ, PLACE: ""})  # keeps out what earlier runs kept, and progress bars
    except CellExecutionError as error:
        cell = next(cell for cell in notebook.cells if any(x.output_type == "error" for x in cell.get("outputs", [])))
        said = error.evalue or _stopped_at(error.traceback)  # a bare assertion says nothing
        raise CourseError(f"{lesson}, cell {cell.id}: it raises {error.ename}: {first_line(said)}.") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise CourseError(f"{lesson}: the solved lesson cannot be executed: {first_line(error)}.") from None
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("grade") and (got := earned(cell, nbgrader["points"])) < nbgrader["points"]:
            raise CourseError(f"{lesson}, cell {cell.id}: the solution earns {got:g} of {nbgrader['points']:g} points.")
    notebook.metadata.pop("widgets", None)  # a widget's state, which only a running kernel could draw
    notebook.metadata["language_info"] = NotebookNode(LANGUAGE)
    return notebook


def _stopped_at(trace: str) -> str:
    """Return the line to which IPython's traceback points in the cell."""
    pointed = re.search(r"^-+> \d+ (.*)", re.sub(r"\x1b\[[\d;]*m", "", trace), re.MULTILINE)
    return pointed[1] if pointed else trace


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook without its outputs, as before it was executed."""
    notebook = deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook
