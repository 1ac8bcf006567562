"""What a cell writes to stderr is shown, and is no error."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor


class WarningsAreNoErrors(NbGraderPreprocessor):
    """nbgrader takes any text on stderr for a failed test; a right answer that warns would get 0."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if cell.cell_type == "code":
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.name = "stdout"
        return cell, resources
