"""Decide which copy counts where a cell was copied."""

from collections import defaultdict

from nbformat import NotebookNode
from nbformat.v4 import new_raw_cell

from autograder.lesson_text.regions import split_regions
from autograder.lesson_text.released import Released, answer_of


def keep_one_copy(notebook: NotebookNode, released: Released) -> NotebookNode:
    """Leave each grade id on one cell; the other copies stay as ordinary cells, without a grade id.

    The last copy of a test counts. Its answer is the last edited copy above it, as when the notebook is run from top
    to bottom; if all edited copies are below, the last of them. A copy that is still the released stub, beside an
    edited one, becomes raw text: if executed, it would replace the answer by the stub.
    """
    places = defaultdict(list)
    for position, cell in enumerate(notebook.cells):
        if "nbgrader" in cell.metadata:
            places[cell.metadata.nbgrader.grade_id].append(position)

    kept = {name: positions[-1] for name, positions in places.items()}
    tests = {answer_of(name, released): kept[name] for name in kept if released[name].is_test}
    for name, positions in places.items():
        if released[name].solution and len(positions) > 1:
            edited = [p for p in positions if notebook.cells[p].source.strip() != released[name].source.strip()]
            above = [p for p in edited if p < tests.get(name, len(notebook.cells))]
            kept[name] = (above or edited or positions[:1])[-1]
            for position in set(positions) - set(edited) - {kept[name]}:
                notebook.cells[position] = new_raw_cell(notebook.cells[position].source)

    for name, positions in places.items():
        for position in positions:
            if position != kept[name]:
                cell = notebook.cells[position]
                cell.metadata.pop("nbgrader", None)
                if released[name].is_test:  # without its metadata, feedback would show all of it
                    cell.source = "\n".join(split_regions(cell.source, name).released)
    return notebook
