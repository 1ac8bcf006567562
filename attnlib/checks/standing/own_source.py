"""The source of an answer with the imports and helpers that it needs, from the cells that a kernel ran."""

import ast
import builtins
import contextlib
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

PACKAGE = "my_attention"


class NotKept(Exception):
    """Raised for an answer that means nothing outside of its notebook; the text says why."""


@dataclass
class OwnSource:
    """The contents of a file for one answer: lines of imports, and statements by the name each binds, in order."""

    imports: dict[str, str] = field(default_factory=dict)
    statements: dict[str, str] = field(default_factory=dict)
    home: str = ""


def own_source(
    name: str,
    cells: list[str],
    written: Mapping[str, Any],
    cell_of: Callable[[Any], int | None] = lambda _value: None,
    home: str = "",
) -> OwnSource:
    r"""The statement that binds `name`, and before it all that it uses.

    `written` are the notebook's names, by which an object of a library, or of an earlier lesson, is told from a value.
    A function or a class is taken from the cell that made it, by `cell_of`; all else from the last that binds its name.
    `home` is the module that the source is for: it has its own answers, and does not import them from itself.

    >>> cells = ["import math", "def half(x):\n    return x / 2", "def root(x):\n    return math.sqrt(half(x))"]
    >>> found = own_source("root", cells, {"math": sys, "half": len, "root": len})
    >>> list(found.imports.values()), list(found.statements)
    (['import math'], ['half', 'root'])

    Raises NotKept for a name that no statement binds, or only an import; and for one that needs a value which the
    notebook computed.
    """
    found = OwnSource(home=home)
    bound_by = dict(bindings(cells))
    for each in [*bound_by]:
        value = written.get(each)
        if (number := cell_of(value)) is not None:
            its_own = dict(bindings(cells[number : number + 1]))
            if each in its_own:
                bound_by[each] = its_own[each]
            elif (
                getattr(value, "__name__", "") == each
            ):  # it was made in another way than by a statement of the cell's own
                del bound_by[each]
    _add(name, bound_by, written, found, frozenset())
    if name in found.imports:
        raise NotKept(f"it is not written in this notebook, but imported ({found.imports[name]})")
    return found


def bindings(cells: list[str]) -> Iterator[tuple[str, tuple[ast.stmt, str]]]:
    """Each name that a cell's own statements bind, with the statement; a later one counts."""
    for cell in cells:
        try:
            body = ast.parse(cell).body
        except (SyntaxError, ValueError):
            continue
        for statement in body:
            alone = not any(_share_a_line(statement, other) for other in body if other is not statement)
            source = _with_decorators(statement, cell) if alone else ast.get_source_segment(cell, statement) or ""
            for name in bound(statement):
                yield name, (statement, source)


def _share_a_line(one: ast.stmt, other: ast.stmt) -> bool:
    return one.lineno <= (other.end_lineno or 0) and other.lineno <= (one.end_lineno or 0)


def _with_decorators(statement: ast.stmt, cell: str) -> str:
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return "\n".join(cell.split("\n")[first - 1 : statement.end_lineno])


def bound(statement: ast.stmt) -> list[str]:
    """The names that a statement of a file or a cell binds.

    >>> bound(ast.parse("from torch import nn, Tensor as T").body[0]), bound(ast.parse("a = b, c = 1, 2").body[0])
    (['nn', 'T'], ['a', 'b', 'c'])
    """
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return []
    names = [node for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]
    return [node.id for node in names if isinstance(node.ctx, ast.Store)]  # `a.b = 1` changes a, and doesn't bind it


def _add(
    name: str,
    bound_by: Mapping[str, tuple[ast.stmt, str]],
    written: Mapping[str, Any],
    found: OwnSource,
    around: frozenset[str],
) -> None:
    if name in found.imports or name in found.statements or name in around:
        return
    statement, source = bound_by.get(name, (None, ""))
    value = written.get(name)
    called = getattr(value, "__name__", name)
    if isinstance(value, ModuleType) and called.split(".")[0] == PACKAGE:
        raise NotKept(f"it uses {called} as a whole; import the names that it needs, as in from {PACKAGE} import …")
    if isinstance(statement, (ast.Import, ast.ImportFrom)) and not _is_of_the_package(statement):
        found.imports[name] = import_of(name, statement)
    elif called not in {name, *around} and called in bound_by and written.get(called) is value:  # another name for it
        _add(called, bound_by, written, found, around | {name})
        found.statements[name] = f"{name} = {called}"
    elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)) or _is_plain(statement, value):
        for other in used(source):
            if other in written and not (hasattr(builtins, other) and written[other] is getattr(builtins, other)):
                _add(other, bound_by, written, found, around | {name})
        found.statements[name] = source
    elif line := _from_a_module(name, value):
        if not line.startswith(f"from .{found.home} import "):
            found.imports[name] = line
        elif called != name:  # the file has it already
            found.statements[name] = f"{name} = {called}"
    else:
        raise NotKept(f"it uses {name}, which the notebook computes")


def _is_of_the_package(statement: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] == PACKAGE


def import_of(name: str, statement: ast.Import | ast.ImportFrom) -> str:
    """The import of one of the names that a statement imports."""
    alias = next(alias for alias in statement.names if (alias.asname or alias.name.split(".")[0]) == name)
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))


def _is_plain(statement: ast.stmt | None, value: Any) -> bool:
    """True if an assignment means the same anywhere: a number, text, a lambda or part of a library, but no result."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None or len(bound(statement)) != 1:
        return False
    with contextlib.suppress(ValueError):
        literal = ast.literal_eval(statement.value)
        if type(value) is type(literal) and value != literal:  # it was changed since, as by `+=`
            return False
    calls = any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement.value))
    is_lambda = isinstance(statement.value, ast.Lambda)
    return is_lambda or not calls or (callable(value) and not _from_a_module(bound(statement)[0], value))


def _from_a_module(name: str, value: Any) -> str:
    """The import of a function or a class that some module has by its own name; empty for all else."""
    module, called = getattr(value, "__module__", None), getattr(value, "__name__", "")
    if isinstance(value, ModuleType):
        return f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    if not isinstance(module, str) or module == "__main__":
        return ""
    mine = module.startswith(f"{PACKAGE}.")  # loaded anew each time, so a later load may have replaced the value
    there = getattr(sys.modules.get(module), called, None)
    if there is None or (there is not value and not mine):
        return ""
    home = f".{module.removeprefix(PACKAGE + '.')}" if mine else module
    return f"from {home} import {called}" + (f" as {name}" if name != called else "")


def used(source: str) -> list[str]:
    """The names that a statement looks up around itself, in the order of the alphabet."""

    def globals_of(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            at_the_top = table.get_type() == "module" and symbol.is_referenced() and not symbol.is_assigned()
            if at_the_top or (table.get_type() != "module" and symbol.is_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from globals_of(child)

    return sorted(set(globals_of(symtable.symtable(source, "<cell>", "exec"))))
