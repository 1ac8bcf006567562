"""Put the overview at the end of a release."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.lesson_text.progress_cell import progress_cell


class AddProgress(NbGraderPreprocessor):
    """Adds the cell to what students get, in the repository and through nbgrader alike; no lesson's text has it."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        nb.cells.append(progress_cell(resources["nbgrader"]["assignment"]))
        return nb, resources
