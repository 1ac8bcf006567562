"""Replace each solution by its stub."""

from typing import Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import ClearSolutions

from autograder.lesson_text.regions import split_regions


class ClearSolutionsToStubs(ClearSolutions):
    """nbgrader's ClearSolutions with stubs of our own: broken code to fix, a choice to make, or NotImplementedError.

    A solution cell without a region is an error: nbgrader would replace all of it, and the student would get no
    signature.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], cell_index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", f"number {cell_index}")
        try:
            regions = split_regions(cell.source, name)
        except ValueError as error:
            raise RuntimeError(f"cell {name}: {error}") from None
        if regions.count and not utils.is_solution(cell):
            raise RuntimeError(f"cell {name}: it has a solution, but is not marked as a solution cell")
        if utils.is_solution(cell):
            if not regions.count:
                raise RuntimeError(f"cell {name}: a solution cell needs a solution between its markers")
            cell.source = "\n".join(regions.released)
        return cell, resources
