"""The right answers: the lessons' solutions between their markers, and those of the bank."""

import ast
import contextlib
import functools
import inspect
import io
import linecache
import sys
import textwrap
import warnings
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode

from attnlib.checks import Exercise
from attnlib.checks.course import find
from attnlib.checks.course.another import another
from attnlib.checks.course.right import right_answers
from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.regions import solved_source
from autograder.sandbox.inside.names import read_names, surely_bound
from autograder.showing.errors import CourseError


@dataclass(frozen=True)
class Answer:
    """A right answer as source: `name` is judged, and `namespace` holds the names its source uses."""

    exercise: str
    source: str
    name: str
    namespace: dict[str, Any]


def run_source(answer: Answer, source: str) -> Any:
    """Return the function or class that `source` defines in place of the answer's own."""
    names = dict(answer.namespace)
    path = f"<{answer.exercise}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # a mutant may say `(-2)[0]`
        exec(compile(source, path, "exec"), names)
    return names[answer.name]


@functools.cache
def answers_in(layout: Layout, lesson: str) -> dict[str, Answer]:
    """Return the answers of one lesson, without whatever the other lessons import."""
    return _answers_of(read_lesson(layout.text(lesson)))


def solution(layout: Layout, exercise: Exercise) -> Answer:
    """The lesson's solution of one exercise."""
    found = answers_in(layout, exercise.lesson)
    if exercise.name not in found:
        file = shown(layout.text(exercise.lesson))
        wanted = f"required are a solution and, after it, a cell `check({exercise.name!r}, …)`"
        raise CourseError(f"{file}: {wanted}, found only {', '.join(found) or 'none'}.")
    return found[exercise.name]


def _answers_of(notebook: NotebookNode) -> dict[str, Answer]:
    """Return the solutions; each may use the lesson's imports, its cells' definitions above, and earlier solutions."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    judged: dict[str, str] = {}
    names: dict[str, Any] = {"__name__": "right_answers"}
    for cell in cells:
        judged |= _judged_names(cell.source)
        exec(_imports(cell.source), names)
    found = {}
    given: list[ast.stmt] = []
    for cell in cells:
        is_answer = cell.metadata.get("nbgrader", {}).get("solution") and cell.id in judged
        source = solved_source(cell.source) if is_answer else ""
        if any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(source).body):
            with contextlib.redirect_stdout(io.StringIO()):  # `yours_or_ours` prints whose answer it returns
                exec(_definitions(given, read_names(source) - names.keys(), names.keys()), names)
            found[cell.id] = Answer(cell.id, source, judged[cell.id], dict(names))
            names[judged[cell.id]] = run_source(found[cell.id], source)
        elif not is_answer:
            given += _parsed(cell.source).body
    return found


def _definitions(statements: list[ast.stmt], wanted: Set[str], known: Set[str]) -> str:
    """Return those of the statements that bind what is wanted, or what they themselves read."""
    chosen: set[int] = set()
    while more := {i for i, s in enumerate(statements) if i not in chosen and surely_bound(s) & wanted}:
        chosen |= more
        wanted = (wanted | set().union(*(read_names(ast.unparse(statements[i])) for i in more))) - known
    return "\n".join(ast.unparse(statements[i]) for i in sorted(chosen))


def _judged_names(source: str) -> dict[str, str]:
    """Map the exercise's name to the answer's, for each call of `check` in a test cell."""
    found = {}
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "check":
            name, answer = node.args
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and isinstance(answer, ast.Name):
                found[name.value] = answer.id
    return found


def _imports(source: str) -> str:
    return "\n".join(ast.unparse(n) for n in _parsed(source).body if isinstance(n, ast.Import | ast.ImportFrom))


def _parsed(source: str) -> ast.Module:
    """The cell as Python; lines that only IPython understands are left out."""
    return ast.parse("\n".join(line for line in source.split("\n") if not line.lstrip().startswith(("%", "!"))))


def written_plainly(exercise: str) -> Answer | None:
    """Return the first function or class in a bank's file that prints nothing and that no learner is shown."""
    is_shown = another(find(exercise)) is not None
    for answer in right_answers(exercise)[is_shown:]:
        if (inspect.isfunction(answer) or isinstance(answer, type)) and answer.__qualname__.isidentifier():
            source = textwrap.dedent(inspect.getsource(answer))
            if "print(" not in source:
                return Answer(exercise, source, answer.__name__, vars(sys.modules[answer.__module__]))
    return None
