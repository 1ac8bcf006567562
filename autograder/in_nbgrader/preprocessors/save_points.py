"""Write what each test cell earned to the gradebook."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import SaveAutoGrades

from autograder.in_nbgrader.preprocessors.judge_in_sandbox import POINTS


class SavePoints(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with the verdict's points: the notebook's own outputs are no verdict."""

    def _add_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        if cell.cell_type != "code" or cell.metadata.nbgrader.get("solution"):
            super()._add_score(cell, resources)  # written answers are graded by hand, as nbgrader does
            return
        name = cell.metadata.nbgrader["grade_id"]
        grade = self.gradebook.find_grade(name, self.notebook_id, self.assignment_id, self.student_id)
        grade.auto_score = resources[POINTS].get(name, 0.0)
        grade.needs_manual_grade = grade.manual_score is not None  # a grade given by hand is looked at again
        self.gradebook.db.commit()
