"""Find the names that a piece of Python binds and reads, from its syntax tree alone."""

import ast
import symtable
from collections.abc import Sequence
from functools import lru_cache


def walked(body: Sequence[ast.stmt]) -> list[ast.AST]:
    """Return all nodes of the statements; a cell is asked several things one after the other, and walked once."""
    return _walked(tuple(body))


@lru_cache(maxsize=64)
def _walked(body: tuple[ast.stmt, ...]) -> list[ast.AST]:
    return [node for statement in body for node in ast.walk(statement)]


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def bound_names(node: ast.AST) -> set[str]:
    """Return the names that a statement binds, or whose objects it may change: x = 1, x.a = 1, x[0] = 1, x.fill_(1)."""
    if isinstance(node, DEFINITIONS):
        return {node.name}.union(*map(_changed, ast.walk(node)))
    found = set()
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        found = {node.id}
    elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        found = _root(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found = _root(node.func)
    elif isinstance(node, ast.alias):
        found = {(node.asname or node.name).split(".")[0]}
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        found = {node.name}
    for child in ast.iter_child_nodes(node):
        found |= bound_names(child)
    return found


def _changed(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Global):
        return set(node.names)
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return _root(node)
    return set()


def changed_by(body: Sequence[ast.stmt]) -> dict[str, set[str]]:
    """Return, for each function and class, the names whose objects may change when it is called, or has a subclass."""
    found: dict[str, set[str]] = {}
    for node in (one for one in body if isinstance(one, DEFINITIONS)):
        inside = list(ast.walk(node))
        methods = [n.func for n in inside if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        found[node.name] = set().union(*map(_changed, inside), *map(_root, methods))
    return found


def called_for_effect(body: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """Return what decorates, what is the base of a class, and what is called without using its result.

    First the names of functions and classes, then those of the objects whose methods they are.
    """
    found: list[ast.expr] = []
    for node in body:
        if isinstance(node, DEFINITIONS):
            found += [*node.decorator_list, *getattr(node, "bases", ())]
        else:
            found += [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Expr)]
    called = [expression.func if isinstance(expression, ast.Call) else expression for expression in found]
    methods = (c for c in called if isinstance(c, ast.Attribute))
    return {c.id for c in called if isinstance(c, ast.Name)}, set().union(*map(_root, methods))


def imported_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that are imported: calling something of a library does not change it."""
    imports = (n for n in walked(body) if isinstance(n, (ast.Import, ast.ImportFrom)))
    return {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}


def changed_modules(body: list[ast.stmt]) -> set[str]:
    """Return the names that are bound here, also by an import, or whose attributes are assigned: F.softmax = mine."""
    found = imported_names(body).union(*map(surely_bound, body))
    for node in walked(body):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found |= _root(node)
    return found


def read_names(text: str) -> set[str]:
    """Return the notebook's names that code reads: at once, before it binds them, or when a function is called."""
    top = symtable.symtable(text, "<cell>", "exec")
    at_once = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    found, augmented = read_before_bound(ast.parse(text).body, set())
    found = found & at_once | augmented
    tables = top.get_children()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and symbol.is_global()}
    return found


def read_before_bound(body: list[ast.stmt], bound: set[str]) -> tuple[set[str], set[str]]:
    """Return the names that statements may read before they have surely bound them, and those that `+=` reads.

    The first include all that functions and comprehensions read, even their own names: the symbol table tells which.
    """
    found: set[str] = set()
    augmented: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.For):
            found |= _loaded(statement.iter) - bound
            inside = bound | {name for name in bound_names(statement.target) if isinstance(statement.target, NAMES)}
            for block, known in ((statement.body, inside), (statement.orelse, bound)):
                first, second = read_before_bound(block, known)
                found, augmented = found | first, augmented | second
            continue
        found |= _loaded(statement) - bound
        changed = {node.target for node in ast.walk(statement) if isinstance(node, ast.AugAssign)}
        augmented |= {target.id for target in changed if isinstance(target, ast.Name)} - bound
        bound = bound | surely_bound(statement)
    return found, augmented


NAMES = (ast.Name, ast.Tuple, ast.List)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}


def surely_bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds whenever it ends without an error."""
    if isinstance(statement, DEFINITIONS):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name) and is_stored(n)}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return imported_names([statement]) - {"*"}
    return set()


def is_stored(name: ast.Name) -> bool:
    """True if the name is bound here, not read or deleted."""
    return isinstance(name.ctx, ast.Store)


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def read_at_once(statement: ast.stmt) -> set[str]:
    """Return the names that a statement may read when it is run; functions that it calls are not looked into."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parts = [*statement.decorator_list, *statement.args.defaults, *statement.args.kw_defaults]
        return set().union(*(_loaded(part) for part in parts if part is not None))
    return _loaded(statement)
