"""Choose the cells of a notebook to run for one exercise.

Demonstrations, pictures and other exercises' answers are left out unless the answer uses a name that they bind. That is
decided by names alone, generously: what could matter is run.
"""

import ast
from collections.abc import Mapping

from .cells import Unit, imported_files, is_opaque, parsed
from .names import bound_names, changed_modules, imported_names, read_at_once, read_names, surely_bound, walked


def needed(units: list[Unit], expression: str, run: str) -> list[Unit]:
    """Return the units that the expression needs, in order; all, if one of the student's hides what it binds.

    `run` is `needed`, or `all`, or `seen`: then a cell that hides what it binds is run only for what can be seen of it.
    """
    wanted = {n.id for n in ast.walk(ast.parse(expression)) if isinstance(n, ast.Name)}
    units = without_stubs(units)
    hiding = any(unit.always and is_opaque(unit.body) for unit in units)
    if run == "all" or (run == "needed" and hiding):
        return units
    chosen: set[int] = set()
    while True:
        more = {i for i, u in enumerate(units) if i not in chosen and (u.answer or u.binds & wanted)}
        if not more:
            return [units[i] for i in sorted(chosen)]
        chosen |= more
        wanted = wanted.union(*(units[i].reads for i in more))


def without_stubs(units: list[Unit]) -> list[Unit]:
    """Return the units without stubs that are answered elsewhere: a stub below the answer would replace it."""
    written = set().union(*(unit.binds for unit in units if unit.role in ("added", "answer")))
    return [unit for unit in units if unit.role != "stub" or not unit.binds & written]


def definitions(units: list[Unit], expression: str, modules: Mapping[str, str]) -> str:
    """Return the source behind the expression: the imports, functions, classes and assignments that it leads to.

    Statements that only compute or assert, such as a comparison with torch's own, are no part of the answer; a module
    is, if a cell wrote it, or if it is one of `modules`, which are beside the notebook.
    """
    wanted = {n.id for n in ast.walk(ast.parse(expression)) if isinstance(n, ast.Name)}
    beside = (ast.Expr, ast.Assert)
    statements = [
        statement
        for unit in units
        for statement in unit.body
        if isinstance(statement, (ast.Import, ast.ImportFrom))
        or not (unit.role == "given" or isinstance(statement, beside))
    ]
    libraries = imported_names(statements)
    statements = _without_replaced(statements)
    names = [_binds(statement, libraries) for statement in statements]
    written = {**modules, **{name: source for unit in units for name, source in unit.files.items()}}
    read: set[str] = set()
    chosen: set[int] = set()
    while more := {i for i, bound in enumerate(names) if i not in chosen and bound & wanted}:
        chosen |= more
        wanted = wanted.union(*(read_names(ast.unparse(statements[i])) for i in more))
        for file in imported_files([statements[i] for i in more]) & {f"file:{name}" for name in written} - read:
            read.add(file)
            inside = _statements_of(written[file.removeprefix("file:")])
            statements += inside
            libraries |= imported_names(inside)
            names += [_binds(statement, libraries) for statement in inside]
        if read:
            wanted |= _members([statements[i] for i in chosen])
            wanted |= set().union(*names) if "*" in wanted else set()
    return "\n".join(ast.unparse(statements[i]) for i in sorted(chosen))


def _binds(statement: ast.stmt, libraries: set[str]) -> set[str]:
    """Return the names that a statement binds or changes: a function of a library's, called, changes no library."""
    return bound_names(statement) - (libraries - changed_modules([statement]))


def _statements_of(source: str) -> list[ast.stmt]:
    try:
        return parsed(source)[1]
    except Exception:  # see `parse`
        return []


def _members(body: list[ast.stmt]) -> set[str]:
    """Return the names that are taken from modules: `helper.f`, `from helper import f`."""
    nodes = walked(body)
    return {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {n.name for n in nodes if isinstance(n, ast.alias)}


def _without_replaced(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Drop imports and assignments of names that are surely bound again before anything uses them.

    A student who imports torch's softmax, and then writes one with that name, uses their own.
    """
    replaced: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in reversed(statements):
        left: ast.stmt | None = statement
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            aliases = [a for a in statement.names if (a.asname or a.name).split(".")[0] not in replaced]
            left = _with_aliases(statement, aliases) if aliases else None
        elif isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
            left = None if surely_bound(statement) <= replaced else statement
        if left is not None:
            kept.append(left)
            replaced = (replaced | surely_bound(left)) - read_at_once(left)
    return kept[::-1]


def _with_aliases(node: ast.Import | ast.ImportFrom, aliases: list[ast.alias]) -> ast.stmt:
    made = ast.Import(aliases) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, aliases, node.level)
    return ast.copy_location(made, node)
