"""Notebooks on disk: read with a clear error, written to the same bytes each time."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError, first_line


def read_notebook(path: Path) -> NotebookNode:
    """Read the notebook at `path`, in format 4; a CourseError if it isn't one."""
    try:
        notebook: NotebookNode = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise CourseError(f"{shown(path)} does not exist.") from None
    except Exception as error:
        raise CourseError(f"{shown(path)} is not a notebook: {first_line(error)}.") from None
    return notebook


def to_text(notebook: NotebookNode) -> str:
    """The notebook's JSON: keys sorted, one space of indentation, a newline at the end."""
    text: str = nbformat.writes(notebook, version=4)
    return text.rstrip("\n") + "\n"


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook's one text form, and make the folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(to_text(notebook), encoding="utf-8")
