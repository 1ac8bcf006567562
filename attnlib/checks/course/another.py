"""Finding the other right answer to an exercise, as an attempt and as text."""

import ast
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from attnlib.checks.exercise import Exercise


@dataclass(frozen=True)
class Another:
    """A right answer with its source, as a student would write it, and why it works."""

    attempt: Any
    source: str
    why: str


def another(exercise: Exercise) -> Another | None:
    """The one that `also` has for this exercise; it is imported only now, since few checks ask for it."""
    function = getattr(importlib.import_module("attnlib.checks.course.right.also"), exercise.name, None)
    if exercise.kind == "choice" or not inspect.isfunction(function):
        return None
    attempt: Any = function
    if exercise.kind == "module":
        attempt = type(exercise.name, (exercise.reference,), {"forward": function})
    return Another(attempt, _source(function, exercise), inspect.getdoc(function) or "")


def _source(function: Any, exercise: Exercise) -> str:
    """Without its docstring; of a module, the method `forward`."""
    lines = inspect.getsource(function).rstrip().split("\n")
    [definition] = ast.parse("\n".join(lines)).body
    assert isinstance(definition, ast.FunctionDef)
    docstring = definition.body[0]
    source = "\n".join(lines[: docstring.lineno - 1] + lines[docstring.end_lineno :])
    return source.replace(f"def {exercise.name}(self: Any", "def forward(self") if exercise.kind == "module" else source
