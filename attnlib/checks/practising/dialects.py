"""The right answers in which a line is made wrong: the catalogue's own, and those of the bank that run alone."""

import ast
import functools
import re
from collections.abc import Iterator

from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.right import right_answers
from attnlib.checks.course.wronglines import NoPlace, made
from attnlib.checks.naming.one_change.written import source_of


def dialects(exercise: WrittenExercise) -> tuple[str, ...]:
    """Return right answers as text, each under the exercise's own name; "" for one of the bank that can't run alone.

    The first is the catalogue's, the others are the bank's in its order, so that a number is an address.
    """
    return exercise.right, *of_the_bank(exercise.name)


@functools.cache
def of_the_bank(exercise: str) -> tuple[str, ...]:
    """Return the bank's alone, which every exercise can have."""
    return tuple(_alone(answer, exercise) for answer in right_answers(exercise))


def _alone(answer: object, name: str) -> str:
    """Return its source without docstrings, with the helpers that it names; "" if it needs more of its file."""
    written = source_of(answer)
    if written is None or any(not isinstance(n, ast.FunctionDef | ast.ClassDef) for n in written.tree.body):
        return ""
    code = "\n\n\n".join("".join(_lines(written.lines, node)).rstrip() for node in written.tree.body)
    code = re.sub(rf"\b{written.name}\b", name, code)
    try:
        made(code, name)
    except (NoPlace, NameError, KeyError, SyntaxError):
        return ""
    return code


def _lines(lines: object, node: ast.stmt) -> Iterator[str]:
    """Return the lines of a definition, without those of docstrings."""
    assert isinstance(lines, list)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    docs = {
        row
        for inner in ast.walk(node)
        if isinstance(inner, ast.FunctionDef | ast.ClassDef) and len(inner.body) > 1
        for row in _docstring(inner.body[0])
    }
    return (lines[row - 1] for row in range(first, (node.end_lineno or first) + 1) if row not in docs)


def _docstring(statement: ast.stmt) -> range:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return range(statement.lineno, (statement.end_lineno or 0) + 1) if is_text else range(0)
