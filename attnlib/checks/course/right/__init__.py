"""The bank of right answers: at least five ways to write each exercise, all of which its check must accept.

A file holds a table `ALTERNATIVES` of answers by the exercise's name, written as students write: without types, some
with a print. The first answer is shown to a learner whose own is right, if it is a function called like its exercise
or a class, and a docstring says why it works. Any name will do for a file, which is found by the exercises in it.
"""

import functools
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
