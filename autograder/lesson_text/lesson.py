"""Turn a lesson's text into nbgrader's source notebook, with the same bytes each time."""

import re
from copy import deepcopy
from pathlib import Path

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from autograder.lesson_text.exercise_cells import complete_exercises
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError, first_line

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}
KEPT_METADATA = ("nbgrader", "tags")
SHOWS_A_PICTURE = re.compile(r"^(plt\.show\(|show\(|film\(|hover_links\(|.*= hover_links\()", re.MULTILINE)
NOT_COMPARED, UNFOLDED = "nbval-ignore-output", "unfolded"
WHY_NOT_COMPARED = re.compile(rf"# {NOT_COMPARED}: .*\n")
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # for Colab, and for JupyterLab and VS Code


def read_lesson(path: Path) -> NotebookNode:
    """Read the lesson as a notebook: text, solutions and hidden tests, and nothing that depends on the machine."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CourseError(f"{shown(path)} does not exist.") from None
    except UnicodeDecodeError as error:
        raise CourseError(f"{shown(path)} is not in UTF-8: {error.reason} at byte {error.start}.") from None
    try:
        cells = jupytext.reads(text, fmt="py:percent").cells
    except Exception as error:
        raise CourseError(f"{shown(path)} cannot be read as a lesson: {first_line(error)}.") from None
    notebook: NotebookNode = new_notebook(
        cells=cells, metadata={"kernelspec": dict(KERNEL), "language_info": dict(LANGUAGE)}
    )
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata})
        cell.id = f"cell-{number}"
    complete_exercises(notebook.cells, shown(path))
    _mark_what_varies(notebook.cells)
    _mark_pictures(notebook.cells)
    return notebook


def _mark_what_varies(cells: list[NotebookNode]) -> None:
    """Mark for nbval the cells whose first comment says why their output isn't compared, and drop that comment."""
    for cell in cells:
        if cell.cell_type == "code" and (why := WHY_NOT_COMPARED.match(cell.source)):
            cell.source = cell.source[why.end() :].lstrip("\n")
            cell.metadata["tags"] = [NOT_COMPARED, *cell.metadata.get("tags", [])]


def _mark_pictures(cells: list[NotebookNode]) -> None:
    """Fold the cells that show a picture, and mark them for nbval: its bytes depend on the machine's fonts.

    What a reader should see of them belongs in a cell of its own; a tag `unfolded` leaves one open.
    """
    for cell in cells:
        if cell.cell_type != "code" or "nbgrader" in cell.metadata or not SHOWS_A_PICTURE.search(cell.source):
            continue
        tags = cell.metadata.get("tags", [])
        if NOT_COMPARED not in tags:
            cell.metadata["tags"] = [NOT_COMPARED, *tags]
        if UNFOLDED not in tags:
            cell.metadata.update(deepcopy(FOLDED))
