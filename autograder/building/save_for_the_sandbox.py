"""Make a release that only the sandbox can judge: nbgrader without the grader's own config finds no kernel for it."""

import json
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import SaveCells

NO_KERNEL = {
    "display_name": "The sandbox, and no kernel",
    "language": "python",
    "name": "none-for-students--judge-them-in-the-sandbox-with-autograder-nbgrader_config.py",
}
"""The kernel that nbgrader's Autograde gives each submission, and has to start before any cell runs.

The judge needs no kernel. Its steps are set by another config: where that one isn't read, this refuses what nbgrader
itself would run with the instructor's own rights.
"""


class SaveForTheSandbox(SaveCells):  # type: ignore[misc]
    """nbgrader's SaveCells, with the name of a kernel that doesn't exist; the release keeps its own."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        own, nb.metadata.kernelspec = nb.metadata.kernelspec, NO_KERNEL
        nb, resources = super().preprocess(nb, resources)
        nb.metadata.kernelspec = own
        with Gradebook(self.db_url) as gradebook:  # if there are submissions, nbgrader leaves the row unchanged
            gradebook.find_notebook(self.notebook_id, self.assignment_id).kernelspec = json.dumps(NO_KERNEL)
            gradebook.db.commit()
        return nb, resources


def is_for_the_sandbox(assignment: Any) -> bool:
    """True if the gradebook's assignment was saved in this way."""
    return all(notebook.kernelspec == json.dumps(NO_KERNEL) for notebook in assignment.notebooks)
