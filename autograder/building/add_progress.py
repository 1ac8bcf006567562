"""Put the overview at the end of a release, and the cell of what is due again below its title."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.lesson_text.due_cell import due_cells
from autograder.lesson_text.progress_cell import progress_cell


class AddProgress(NbGraderPreprocessor):
    """Adds both cells to the students' notebooks, in the repository and through nbgrader; no lesson's text has them."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        lesson = resources["nbgrader"]["assignment"]
        nb.cells[1:1] = due_cells(lesson)
        nb.cells.append(progress_cell(lesson))
        return nb, resources
