"""The source of an attempt that runs in this process, and the shortcuts that stand in it."""

import inspect
import textwrap
from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from attnlib.checks.shortcuts import Use, shortcuts
from attnlib.checks.watch import _resolve

LIBRARIES = ("torch", "attnlib", "einops", "numpy")


def shortcuts_of(attempt: Any, forbidden: tuple[str, ...]) -> list[Use]:
    """The forbidden names in the attempt's own source, with the lines of its file or cell; none if it cannot be had."""
    objects = {id(target): name for name in forbidden if (target := _resolve(name)) is not None}
    found: list[Use] = []
    methods = _methods(attempt)
    for function in _functions(attempt):
        try:
            lines, first = inspect.getsourcelines(function)
            uses = shortcuts(
                textwrap.dedent("".join(lines)), forbidden, names=_names(function, objects), methods=methods
            )
        except (OSError, TypeError, SyntaxError):
            continue  # no source, or (a lambda inside of something else) only a part of a statement
        if function.__name__ != "<lambda>" or "".join(lines).count("lambda") == 1:
            found += [Use(use.name, use.line + max(first, 1) - 1, use.text) for use in uses]
    return found


def _functions(attempt: Any) -> Iterator[FunctionType]:
    """The functions that the student wrote: the attempt itself, or the methods of its class and of its own bases."""
    attempt = inspect.unwrap(attempt.func if isinstance(attempt, partial) else attempt)
    if isinstance(attempt, MethodType):
        attempt = attempt.__func__
    if isinstance(attempt, FunctionType):
        if not str(attempt.__module__).startswith(LIBRARIES):
            yield attempt
        return
    for base in _own_classes(attempt):
        yield from (inspect.unwrap(f) for f in vars(base).values() if isinstance(f, FunctionType))


def _own_classes(attempt: Any) -> list[type]:
    kind = attempt if isinstance(attempt, type) else type(attempt)
    return [c for c in kind.__mro__ if not str(c.__module__).startswith((*LIBRARIES, "builtins", "functools"))]


def _methods(attempt: Any) -> set[str]:
    return {name for base in _own_classes(attempt) for name, f in vars(base).items() if isinstance(f, FunctionType)}


def _names(function: FunctionType, objects: dict[int, str]) -> dict[str, str]:
    """What the names stand for that the function finds around itself, as far as a forbidden one may be behind them."""
    around = inspect.getclosurevars(function)
    found = {}
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, ModuleType):
            found[name] = value.__name__
        elif id(value) in objects:
            found[name] = objects[id(value)]
        elif isinstance(value, type) and f"{value.__module__}.{value.__qualname__}".startswith(LIBRARIES):
            found[name] = f"{value.__module__.split('.modules')[0]}.{value.__qualname__}"
    return found
