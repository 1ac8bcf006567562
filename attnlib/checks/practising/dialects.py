"""The right answers in which a line is made wrong: the plain one, and those of the bank that run alone."""

import ast
import functools
import re
from collections.abc import Iterator
from typing import TypeGuard

from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.course.right import right_answers
from attnlib.checks.course.wronglines import NoPlace, made
from attnlib.checks.naming.one_change.written import source_of


def dialects(exercise: WrittenExercise) -> tuple[str, ...]:
    """Return right answers as text, each under the exercise's own name; "" for one of the bank that can't run alone.

    The first is the plain one, the others are the bank's in its order, so that a number is an address.
    """
    return exercise.right, *of_the_bank(exercise.name)


@functools.cache
def of_the_bank(exercise: str) -> tuple[str, ...]:
    """Return the bank's alone, which every exercise can have."""
    return tuple(_alone(answer, exercise) for answer in right_answers(exercise))


def _alone(answer: object, name: str) -> str:
    """Return its source, with the helpers that it names; "" if it needs more of its file."""
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
    """Return the lines of a definition, without docstrings and what it prints."""
    assert isinstance(lines, list)
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    told = [inner for inner in ast.walk(node) if _is_told(inner)]
    gone = {row for text in told for row in range(text.lineno, (text.end_lineno or text.lineno) + 1)}
    return (lines[row - 1] for row in range(first, (node.end_lineno or first) + 1) if row not in gone)


def _is_told(node: ast.AST) -> TypeGuard[ast.Expr]:
    """True for a statement that is a text, or that prints one."""
    match node:
        case ast.Expr(ast.Constant(str()) | ast.Call(ast.Name("print"))):
            return True
    return False
