"""Make sure every test is there, below its answer."""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.lesson_text.released import Released, answer_of


def put_test_below_answer(notebook: NotebookNode, released: Released) -> NotebookNode:
    """Put back deleted tests, and move those above their answer to right below it.

    A test whose answer cell is gone goes to the end: the student may have written the answer in a cell of their own.
    """
    for test in (cell for cell in released.values() if cell.is_test and cell.cell_type == "code"):
        answer = _position(notebook, answer_of(test.name, released))
        position = _position(notebook, test.name)
        if position is None:
            cell = new_code_cell(test.source, metadata={"nbgrader": test.metadata()})
            notebook.cells.insert(len(notebook.cells) if answer is None else answer + 1, cell)
        elif answer is not None and position < answer:
            notebook.cells.insert(answer, notebook.cells.pop(position))
    return notebook


def _position(notebook: NotebookNode, name: str | None) -> int | None:
    found = (p for p, cell in enumerate(notebook.cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == name)
    return None if name is None else next(found, None)
