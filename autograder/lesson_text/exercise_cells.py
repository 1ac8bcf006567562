"""Complete a lesson's text with what it leaves to the build: nbgrader's metadata, hidden tests, and the points.

A code cell that says

    check("split_heads", split_heads)

and nothing else is the test of the exercise `split_heads`, and the solution above it is the answer. The text above a
test may say `{points}` and `{parts}`; it gets what attnlib.checks declares, as in `4 points` and `values 3, error 1`.
"""

import ast
from collections.abc import Iterable
from typing import Any

from nbformat import NotebookNode

from attnlib.checks.course import called
from attnlib.checks.exercise import Exercise
from autograder.lesson_text.regions import BEGIN_HIDDEN, BEGIN_SOLUTION, END_HIDDEN
from autograder.showing.errors import CourseError

HIDDEN = f"### {BEGIN_HIDDEN}\nfrom attnlib.checks import grade as check\n\n### {END_HIDDEN}"
POINTS, PARTS = "{points}", "{parts}"


def complete_exercises(cells: Iterable[NotebookNode], where: str) -> None:
    """Give answers and tests their metadata, tests their hidden line, and texts the points they ask for."""
    seen: set[str] = set()
    texts: list[NotebookNode] = []
    answer = None
    for cell in cells:
        if "nbgrader" in cell.metadata:
            raise CourseError(f"{where}, cell {cell.id}: nbgrader's metadata is made by the build, from check(…).")
        if cell.cell_type != "code":
            texts.append(cell)
        elif BEGIN_SOLUTION in cell.source:
            if answer is not None:
                raise CourseError(f"{where}, cell {answer.id}: the solution has no check below it.")
            answer = cell
        elif name := _tested(cell.source):
            if answer is None:
                raise CourseError(f"{where}, cell {cell.id}: check({name!r}, …) has no solution above it.")
            if name in seen:
                raise CourseError(f"{where}: two cells check {name!r}.")
            if (exercise := called(name)) is None:
                raise CourseError(f"{where}, cell {cell.id}: attnlib.checks has no exercise {name!r}.")
            seen.add(name)
            _complete(answer, cell, texts, exercise)
            answer, texts = None, []
    if answer is not None:
        raise CourseError(f"{where}, cell {answer.id}: the solution has no check below it.")
    if stray := next((text for text in texts if POINTS in text.source or PARTS in text.source), None):
        raise CourseError(f"{where}, cell {stray.id}: {POINTS} and {PARTS} stand above the check that they are about.")


def checked(statement: ast.stmt) -> str | None:
    """Return the exercise that the statement checks, if it is just a call of `check`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value=str(name)), *_])):
            return name
    return None


def _tested(source: str) -> str | None:
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic of IPython's
        return None
    return checked(body[0]) if len(body) == 1 else None


def _complete(answer: NotebookNode, test: NotebookNode, texts: list[NotebookNode], exercise: Exercise) -> None:
    answer.id, test.id = exercise.name, f"test_{exercise.name}"
    answer.metadata["nbgrader"] = _metadata(answer.id, solution=True)
    if exercise.points:  # a stretch exercise is checked, and not graded
        test.metadata["nbgrader"] = _metadata(test.id, solution=False) | {"points": exercise.points}
        test.source = f"{HIDDEN}\n{test.source}"
    points = f"{exercise.points or 'no'} point{'s' * (exercise.points != 1)}"
    parts = ", ".join(f"{part} {worth}" for part, worth in exercise.parts.items())
    for text in texts:
        text.source = text.source.replace(POINTS, points).replace(PARTS, parts)


def _metadata(grade_id: str, *, solution: bool) -> NotebookNode:
    kind: dict[str, Any] = {"solution": solution, "grade": not solution, "locked": not solution, "task": False}
    return NotebookNode(schema_version=3, grade_id=grade_id, **kind)
