"""Show in the feedback what a test said, but not how it asked."""

from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.lesson_text.regions import split_regions


class HideHiddenTests(NbGraderPreprocessor):
    """Cut hidden tests, and the lines of a traceback that quote them, out of test cells.

    nbgrader's ClearHiddenTests would stop at a student's cell that mentions the markers, and leaves tracebacks as they
    are.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], _cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if cell.cell_type == "code" and utils.is_grade(cell) and not utils.is_solution(cell):
            cell.source = "\n".join(split_regions(cell.source).released).strip("\n")
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [f"{output.ename}: {output.evalue}"]
        return cell, resources
