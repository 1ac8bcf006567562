"""Write what each test cell earned to the gradebook."""

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import SaveAutoGrades

from autograder.verdict import earned


class SavePoints(SaveAutoGrades):
    """nbgrader's SaveAutoGrades with a rule that fails closed: points are a number that the test gave, or 0."""

    def _add_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        if cell.cell_type != "code" or cell.metadata.nbgrader.get("solution"):
            super()._add_score(cell, resources)  # written answers are graded by hand, as nbgrader does
            return
        grade = self.gradebook.find_grade(
            cell.metadata.nbgrader["grade_id"], self.notebook_id, self.assignment_id, self.student_id
        )
        grade.auto_score = earned(cell, float(cell.metadata.nbgrader["points"]))
        grade.needs_manual_grade = grade.manual_score is not None  # a grade given by hand is looked at again
        self.gradebook.db.commit()
