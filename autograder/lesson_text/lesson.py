"""A lesson's text becomes nbgrader's source notebook, the same bytes each time."""

from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError, first_line

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}
KEPT_METADATA = ("nbgrader", "tags")
NBGRADER_KEYS = ("schema_version", "grade_id", "grade", "solution", "locked", "task")


def read_lesson(path: Path) -> NotebookNode:
    """The lesson as a notebook: text, solutions and hidden tests, and nothing that depends on where it was built."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{shown(path)} does not exist.") from None
    try:
        cells = jupytext.reads(text, fmt="py:percent").cells
    except Exception as error:
        raise CourseError(f"{shown(path)} cannot be read as a lesson: {first_line(error)}.") from None
    notebook = new_notebook(cells=cells, metadata={"kernelspec": dict(KERNEL), "language_info": dict(LANGUAGE)})
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata})
        cell.id = cell.metadata.get("nbgrader", {}).get("grade_id") or f"cell-{number}"
    _refuse_incomplete_metadata(notebook, path)
    return notebook


def _refuse_incomplete_metadata(notebook: NotebookNode, path: Path) -> None:
    """Say what nbgrader would only hint at: a grade id used twice, metadata without one of its keys."""
    seen = set()
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            lacking = [key for key in NBGRADER_KEYS if key not in cell.metadata.nbgrader]
            if lacking:
                raise CourseError(f"{shown(path)}, cell {cell.id}: its nbgrader metadata lacks {', '.join(lacking)}.")
            if cell.id in seen:
                raise CourseError(f"{shown(path)}: two cells have the grade id {cell.id!r}.")
            seen.add(cell.id)
