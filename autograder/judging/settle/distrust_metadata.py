"""Replace a submission's metadata by what was released under the same grade ids."""

from collections.abc import Callable

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.lesson_text.lesson import KERNEL, LANGUAGE
from autograder.lesson_text.released import Released


def distrust_metadata(notebook: NotebookNode, released: Released) -> NotebookNode:
    """Keep only each cell's source and its grade id, if that id was released; take all else from the release.

    A test's source is the release's as well, so that the graded notebook shows what was asked.

    Tags go, `skip-execution` among them: a test cell that is not executed has no output, and stock nbgrader pays full
    points for a test cell without output. Points, locks and schema versions go, since an editor may have broken them.
    A cell that was turned into text or into code gets its released type back.
    """
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(KERNEL), language_info=NotebookNode(LANGUAGE))
    for position, cell in enumerate(notebook.cells):
        nbgrader = cell.get("metadata", {}).get("nbgrader", {})
        name = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
        was = released.get(name) if isinstance(name, str) else None
        if was is not None and was.cell_type != cell.cell_type:
            new_cell: Callable[..., NotebookNode] = new_code_cell if was.cell_type == "code" else new_markdown_cell
            notebook.cells[position] = cell = new_cell(cell.source)
        if was is not None and was.is_test:
            cell.source = was.source
        cell.metadata = NotebookNode(nbgrader=NotebookNode(was.metadata())) if was is not None else NotebookNode()
    return notebook
