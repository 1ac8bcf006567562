"""An assignment by the instructor's source: the only trusted description of the cells of a submission."""

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from attnlib.checks.course import called
from attnlib.checks.exercise import Exercise
from attnlib.checks.practising.assigned import questions
from autograder.lesson_text.due_cell import due_cells
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, to_text
from autograder.lesson_text.progress_cell import progress_cell
from autograder.lesson_text.regions import split_regions
from autograder.lesson_text.released import Released, ReleasedCell, longest_answer
from autograder.showing.errors import CourseError

DEALT = "bugs"
"""The name under which a student's own source notebook keeps the bugs dealt to this student."""


@dataclass(frozen=True)
class Question:
    """One test cell: the exercise it checks, and the expression whose value is the student's answer."""

    test: str
    exercise: Exercise
    expression: str
    answer: str | None
    points: float


class Assignment:
    """One lesson as it was released."""

    def __init__(self, name: str, source: NotebookNode) -> None:
        self.name, self.source = name, source

    @classmethod
    def read(cls, source: Path) -> "Assignment":
        """Read nbgrader's source notebook, or the lesson's text."""
        return cls(source.stem, read_lesson(source) if source.suffix == ".py" else read_notebook(source))

    @cached_property
    def released(self) -> Released:
        """The released cells by grade id: an answer's source is its stub, a test's is the true one."""
        found: Released = {}
        for cell in self.source.cells:
            nbgrader = cell.metadata.get("nbgrader")
            if not nbgrader:
                continue
            name, stub = nbgrader.grade_id, NotebookNode(cell)
            if nbgrader.solution:
                stub = NotebookNode({**cell, "source": "\n".join(split_regions(cell.source, name).released)})
            found[name] = ReleasedCell(
                name=name,
                cell_type=cell.cell_type,
                source=stub.source,
                locked=bool(nbgrader.get("locked")),
                solution=bool(nbgrader.solution),
                points=float(nbgrader.points) if nbgrader.grade else None,
                checksum=compute_checksum(stub),
            )
        return found

    @cached_property
    def given(self) -> frozenset[str]:
        """The sources of code cells that aren't exercises: demonstrations, pictures, imports."""
        cells = [*self.source.cells, *due_cells(self.name), progress_cell(self.name)]
        return frozenset(
            cell.source.strip() for cell in cells if cell.cell_type == "code" and not cell.metadata.get("nbgrader")
        )

    @cached_property
    def dealt(self) -> dict[str, Exercise]:
        """The questions about a student's own bugs, by name; none in a lesson."""
        bugs = enumerate(self.source.metadata.get(DEALT, ()), 1)
        return {asked.name: asked for number, bug in bugs for asked in questions(number, bug)}

    @cached_property
    def questions(self) -> list[Question]:
        """The questions the tests ask, in the notebook's order; a CourseError if a test asks nothing that is known."""
        tests = [cell for cell in self.released.values() if cell.is_test and cell.cell_type == "code"]
        answers = [name for name, cell in self.released.items() if cell.solution]
        return [self._question(test, answers) for test in tests]

    def _question(self, test: ReleasedCell, answers: Iterable[str]) -> Question:
        for node in ast.walk(ast.parse("\n".join(split_regions(test.source, test.name).released))):
            if not (
                isinstance(node, ast.Call) and ast.unparse(node.func) in ("check", "grade") and len(node.args) == 2
            ):
                continue
            name, answer = node.args
            known = str(name.value) if isinstance(name, ast.Constant) else ""
            exercise = self.dealt.get(known) or called(known)
            if exercise is not None:
                home = longest_answer(test.name, answers)
                return Question(test.name, exercise, ast.unparse(answer), home, test.points or 0.0)
        raise CourseError(
            f"{self.name}, cell {test.name}: a graded test is check(EXERCISE, ANSWER), "
            "so that the answer can be judged outside of the student's process."
        )

    @cached_property
    def text(self) -> str:
        """The lesson's notebook as JSON, as it travels to a worker."""
        return to_text(self.source)

    @cached_property
    def digest(self) -> str:
        """The digest of all that grading depends on: the text of the lesson."""
        return hashlib.sha256(self.text.encode()).hexdigest()
