"""The released cells as the gradebook remembers them: the only trusted description of the cells of a submission."""

from collections.abc import Iterable
from dataclasses import dataclass

from nbgrader.api import Gradebook


@dataclass(frozen=True)
class ReleasedCell:
    """A cell with a grade id: an answer (solution) or a test (grade), with the source that the gradebook holds.

    A test's source is the true one, hidden tests included; an answer's is the stub.
    """

    name: str
    cell_type: str
    source: str
    locked: bool
    solution: bool
    points: float | None
    checksum: str | None

    @property
    def is_test(self) -> bool:
        """True if this cell earns points and is not written by students."""
        return self.points is not None and not self.solution

    def metadata(self) -> dict[str, object]:
        """The cell's nbgrader metadata."""
        found: dict[str, object] = {
            "schema_version": 3,
            "grade_id": self.name,
            "grade": self.points is not None,
            "solution": self.solution,
            "locked": self.locked,
            "task": False,
            "cell_type": self.cell_type,
            "checksum": self.checksum,
        }
        if self.points is not None:
            found["points"] = self.points
        return found


Released = dict[str, ReleasedCell]


def released_cells(db_url: str, assignment: str, notebook: str) -> Released:
    """The released cells by grade id."""
    with Gradebook(db_url) as gradebook:
        entry = gradebook.find_notebook(notebook, assignment)
        points = {cell.name: float(cell.max_score) for cell in entry.grade_cells}
        solutions = {cell.name for cell in entry.solution_cells}
        return {
            cell.name: ReleasedCell(
                name=cell.name,
                cell_type=cell.cell_type,
                source=cell.source,
                locked=cell.locked,
                solution=cell.name in solutions,
                points=points.get(cell.name),
                checksum=cell.checksum,
            )
            for cell in entry.source_cells
        }


def answer_of(test: str, released: Released) -> str | None:
    """Return the grade id of the answer that a test is for."""
    return longest_answer(test, [name for name, cell in released.items() if cell.solution])


def longest_answer(test: str, answers: Iterable[str]) -> str | None:
    """Return the longest matching answer: `test_softmax_twice` is for `softmax`, unless there is a `softmax_twice`."""
    fitting = [name for name in answers if test == f"test_{name}" or test.startswith(f"test_{name}_")]
    return max(fitting, key=len, default=None)
