"""Execute a submission, and say in each cell that was not reached why it was not."""

from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute

REASONS = {
    DeadKernelError: "the kernel died in this cell or in one above it",
    CellTimeoutError: "the kernel no longer answered",
}


class ExecuteAndExplain(Execute):
    """nbgrader's Execute, except that a kernel that dies leaves a notebook to grade instead of an exception.

    The cells that had run keep their outputs and their points; the others show an error and earn nothing. Stock
    nbgrader fails the whole submission, and pays full points for a test cell without output.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any], km: Any = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        try:
            return super().preprocess(nb, resources, km)
        except (DeadKernelError, CellTimeoutError) as error:
            reason = next(text for kind, text in REASONS.items() if isinstance(error, kind))
            for cell in nb.cells:
                if cell.cell_type == "code" and cell.source.strip() and cell.get("execution_count") is None:
                    cell.outputs = [*cell.outputs, _not_executed(reason)]
            return nb, resources


def _not_executed(reason: str) -> NotebookNode:
    text = f"NotExecuted: {reason}"
    return new_output("error", ename="NotExecuted", evalue=reason, traceback=[text])
