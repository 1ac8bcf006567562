"""The code cells of a notebook around one test: who wrote them, and whether they may define a name."""

import ast
import re
from collections.abc import Iterable

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.lesson_text.assignment import Assignment

Cells = list[dict[str, str]]
"""Cells with a name, a source and a role: given, added, answer, or stub for an answer as it was released."""


def cells_around(settled: NotebookNode, assignment: Assignment, test: str) -> tuple[Cells, Cells]:
    """Return the code above and below a test, without tests: unchanged cells of the lesson, and the student's."""
    above: Cells = []
    below: Cells = []
    found = above
    for number, cell in enumerate(settled.cells):
        name = grade_id(cell)
        if name == test:
            found = below
        if cell.cell_type != "code" or (name in assignment.released and assignment.released[name].is_test):
            continue
        given = name is None and cell.source.strip() in assignment.given
        role = "given" if given else "added" if name is None else "stub" if is_untouched(cell) else "answer"
        found.append({"name": name or f"{number}", "source": cell.source, "role": role})
    return above, below


def grade_id(cell: NotebookNode) -> str | None:
    """Return the name of a cell that was released as an answer or a test."""
    found: str | None = cell.metadata.get("nbgrader", {}).get("grade_id")
    return found


def is_untouched(cell: NotebookNode) -> bool:
    """True if an answer's cell is as it was released."""
    return bool(cell.metadata.nbgrader.checksum == compute_checksum(cell))


def may_define(cells: Cells, names: Iterable[str]) -> bool:
    """True if the student's own cells name one of these, and so may define it."""
    named = [re.compile(rf"\b{re.escape(name)}\b") for name in names]
    return any(
        cell["role"] in ("added", "answer") and any(name.search(cell["source"]) for name in named) for cell in cells
    )


def plain_text(cells: Cells, name: str) -> str | None:
    """Return the text that the student's only cell with this name assigns to it and does nothing else; else None."""
    own = [cell["source"] for cell in cells if may_define([cell], [name])]
    try:
        body = ast.parse(own[0]).body if len(own) == 1 else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match body:
        case [ast.Assign(targets=[ast.Name(id=bound)], value=ast.Constant(value=str(text)))] if bound == name:
            return text
    return None


def imported_late(cells: Cells) -> list[str]:
    """Return the modules that take long to import, if these cells may need them.

    Torch's optimisers, `torch.compile` and `torch.func` import its compiler; cells that don't name them don't need it.
    Scikit-learn's data sets are all that a child may have of it: it imports nothing of that library itself.
    """
    compiler = ["torch._dynamo"] if may_define(cells, ["optim", "compile", "func", "vmap"]) else []
    named = {"pyplot": "matplotlib.pyplot", "sklearn.datasets": "sklearn.datasets"}
    return compiler + [module for word, module in named.items() if any(word in cell["source"] for cell in cells)]
