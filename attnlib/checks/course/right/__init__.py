"""The bank of right answers: at least five ways to write each exercise, all of which its check must accept.

Beside them, in `plain`, is the answer whose lines slips replace.

A file holds a table `ALTERNATIVES` of answers by the exercise's name, written as students write: without types, some
with a print. The first answer is shown to a learner whose own is right, if it is a function called like its exercise
or a class, and a docstring says why it works. Any name will do for a file, which is found by the exercises in it.
"""

import ast
import functools
import importlib
import inspect
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from attnlib.checks import course

__path__ += [f"{package}/right" for package in course.OTHERS]


def right_answers(exercise: str) -> list[Any]:
    """The right answers to one exercise; files that do not name it are not imported.

    >>> len(right_answers("softmax")) >= 5
    True
    """
    named = [path for path in files() if f'"{exercise}"' in path.read_text(encoding="utf-8")]
    return [answer for path in named for answer in load(path).ALTERNATIVES.get(exercise, [])]


def bank() -> dict[str, list[Any]]:
    """All right answers by the exercise's name."""
    found: dict[str, list[Any]] = {}
    for path in files():
        for name, several in load(path).ALTERNATIVES.items():
            found[name] = [*found.get(name, ()), *several]
    return found


@functools.cache
def load(path: Path) -> ModuleType:
    """A file of the bank as a module of its own, not of attnlib: a check looks into it as into any student's code."""
    spec = spec_from_file_location(f"right_answers_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where `inspect` looks for the source of a class
    spec.loader.exec_module(module)
    return module


def files() -> list[Path]:
    """The files of the bank of right answers."""
    return sorted(path for place in __path__ for path in Path(place).glob("[!_]*.py"))


def plain_answer(lesson: str, name: str) -> Any:
    """The plain right answer to an exercise of the lesson; a LookupError if there is none.

    >>> plain_answer("10_flash_attention", "softmax_gradient").__name__
    'softmax_gradient'
    """
    if not hasattr(module := _plain(lesson), name):
        raise LookupError(f"{name} needs a reference, or a right answer of its name in {_plain_name(lesson)}")
    return getattr(module, name)


@functools.cache
def plain_source(lesson: str, name: str) -> str:
    """Its source, after that of its helpers; "" if there is none, because its author has it in the catalogue."""
    text = inspect.getsource(module) if (module := _plain(lesson)) else ""
    lines, own, used = text.split("\n"), [], {name}
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in used:
            own.append("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            used |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif own:
            break
    return "\n\n".join(reversed(own))


@functools.cache
def _plain(lesson: str) -> ModuleType | None:
    try:
        return importlib.import_module(_plain_name(lesson))
    except ModuleNotFoundError as error:
        if error.name != _plain_name(lesson):
            raise
        return None


def _plain_name(lesson: str) -> str:
    return f"{__name__}.plain.lesson_{lesson[:2]}"
