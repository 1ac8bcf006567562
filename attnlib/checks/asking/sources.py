"""The source of an attempt that runs in this process, and the shortcuts in it."""

import inspect
import textwrap
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any

import torch

from attnlib.checks.asking.shortcuts import REFERENCES, Use, shortcuts
from attnlib.checks.asking.watch import resolve

LIBRARIES = ("torch", "attnlib", "einops", "numpy")


def shortcuts_of(attempt: Any, forbidden: tuple[str, ...], reference: Any = None) -> list[Use]:
    """The forbidden names in the attempt's own source, with the lines of its file or cell; none if it cannot be had.

    Of what the course has written, only the `reference` counts: `yours_or_ours` gives other exercises' to the notebook.
    """
    objects = {id(target): name for name in forbidden if (target := resolve(name)) is not None}
    found: list[Use] = []
    methods = _methods(attempt)
    for function in _functions(attempt):
        try:
            lines, first = inspect.getsourcelines(function)
            uses = shortcuts(
                textwrap.dedent("".join(lines)), forbidden, names=_names(function, objects, reference), methods=methods
            )
        except (OSError, TypeError, SyntaxError, RecursionError):
            # no source, (a lambda inside of something else) only a part of a statement, or nested too deep to be read
            continue
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


def _names(function: FunctionType, objects: dict[int, str], reference: Any) -> dict[str, str]:
    """Map the names around the function to what they stand for, where a forbidden function may be behind them."""
    around = inspect.getclosurevars(function)
    found = {}
    for name, value in {**around.globals, **around.nonlocals}.items():
        if isinstance(value, ModuleType):
            found[name] = value.__name__
        elif id(value) in objects:
            found[name] = objects[id(value)]
        elif (name_in_library := _name_in_library(value)) and (
            value is reference or not name_in_library.startswith(REFERENCES)
        ):
            found[name] = name_in_library
    return found


def _name_in_library(value: Any) -> str:
    """Return the name by which students know a library's function or class; empty for anything else."""
    if not isinstance(value, (type, FunctionType, BuiltinFunctionType, MethodDescriptorType)):
        return ""
    name = value.__name__
    if getattr(torch, name, None) is value:
        return f"torch.{name}"
    if getattr(torch.Tensor, name, None) is value:
        return f"torch.Tensor.{name}"
    home = str(value.__module__)
    return f"{home.split('.modules')[0]}.{value.__qualname__}" if home.startswith((*LIBRARIES, "scipy", "jax")) else ""
