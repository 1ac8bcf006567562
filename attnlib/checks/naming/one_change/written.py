"""An answer's source: the syntax tree that defines it, and the values of its names."""

import ast
import contextlib
import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

OUTSIDE = {
    *("open", "input", "display", "plt", "tqdm", "eval", "exec", "exit", "breakpoint", "setattr", "delattr", "globals"),
    *("os", "sys", "time", "Path", "pathlib", "shutil", "tempfile", "pickle", "requests", "socket", "subprocess"),
    *("threading", "multiprocessing", "torch.save", "np.save"),
}
"""Names that reach out of an answer. A check may call them a dozen times, but not hundreds of times more."""
MOST_NODES = 4000  # the longest answer of the course, a block with all of its parts, has a third of it
DEEPEST = 100  # levels of the tree: whoever reads one takes several calls for each, and Python allows a thousand
SCOPES = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
HARMLESS = ("torch.", "functools.", "staticmethod", "classmethod", "dataclass")  # decorators


@dataclass(frozen=True)
class Written:
    """An answer's source: a tree that defines it (and the helpers beside it), and the values of its names."""

    tree: ast.Module
    name: str
    namespace: dict[str, Any]
    lines: Sequence[str]
    behind_init: frozenset[int]
    """The `id`s of all statements in methods other than `__init__`, of a module and of the modules beside it."""
    can_restart: bool = True
    """True if a fresh start is possible: the cell itself makes everything the answer changes outside itself."""
    beside: frozenset[str] = frozenset()
    """The names that the same cell or file binds, or a function around the answer."""

    @property
    def path(self) -> str:
        """The name of the file that it is compiled as."""
        return f"<{self.name}, changed>"

    def reaches_outside(self) -> bool:
        """True if it names anything that shows, reads, writes or waits."""
        named = (n for n in ast.walk(self.tree) if isinstance(n, ast.Name | ast.Attribute))
        return any(ast.unparse(n) in OUTSIDE for n in named)

    def is_long(self) -> bool:
        """True if it is far longer than an answer, with too many places to try a change at each."""
        return sum(1 for _ in ast.walk(self.tree)) > MOST_NODES

    def run(self) -> dict[str, Any]:
        """Run the tree as it is now and return the names it binds; none if its statements fail."""
        try:
            code = compile(self.tree, self.path, "exec")
        except SyntaxError:
            return {}  # such as a `return` outside of a function
        names = dict(self.namespace)
        try:
            exec(code, names)
        except Exception:  # the student's own statements, changed, may raise anything
            return {}
        return names


def source_of(attempt: Any) -> Written | None:
    """The source of a function or class that was written in a file or a notebook's cell, with the helpers it uses.

    None without one, or where it is nested too deep to be read, such as a sum of some hundred terms.
    """
    functions = [f for f in vars(attempt).values() if isinstance(f, FunctionType)] if isinstance(attempt, type) else []
    outside = functions[0] if functions else attempt
    function = getattr(outside, "__wrapped__", outside)  # such as by @torch.no_grad()
    if not isinstance(outside, FunctionType) or not isinstance(function, FunctionType):
        return None
    path = function.__code__.co_filename
    lines = linecache.getlines(path, function.__globals__)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None  # a cell with magics
    if _is_deep(tree):
        return None
    node = _defining(tree, attempt, function)
    if node is None or (function is not outside and not _decorated_harmlessly(node)):
        return None
    libraries = {name for name, value in function.__globals__.items() if isinstance(value, ModuleType)}
    state = _state(tree, [*_helpers(tree, node), node], libraries)
    name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else "answer"
    if isinstance(node, ast.Lambda):
        node = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node)
    body = [*(state or []), *_helpers(tree, node), node]
    for defined in body:
        if isinstance(defined, ast.FunctionDef | ast.ClassDef):  # what others do may not be done a hundred times
            defined.decorator_list = [d for d in defined.decorator_list if _is_harmless(d)]
    namespace = {**function.__globals__, **_closed_over(function)}
    methods = [n for c in body if isinstance(c, ast.ClassDef) for n in c.body if isinstance(n, ast.FunctionDef)]
    behind = frozenset(id(n) for m in methods if m.name != "__init__" for n in ast.walk(m))
    module = ast.fix_missing_locations(ast.Module(body, []))
    return Written(module, name, namespace, lines, behind, state is not None, frozenset(_bound(tree, node)))


def _is_deep(tree: ast.Module) -> bool:
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _is_harmless(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).startswith(HARMLESS)


def _decorated_harmlessly(node: Any) -> bool:
    """True if the definition is still the answer without its other decorators."""
    return isinstance(node, ast.ClassDef) or all(map(_is_harmless, node.decorator_list))


def _defining(tree: ast.Module, attempt: Any, function: FunctionType) -> Any:
    first = function.__code__.co_firstlineno
    if isinstance(attempt, type):
        classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == attempt.__name__)
        return next((n for n in classes if n.lineno <= first <= (n.end_lineno or 0)), None)
    if function.__name__ == "<lambda>":
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == first]
        return found[0] if len(found) == 1 else None
    named = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function.__name__)
    return next((n for n in named if n.lineno == first or any(d.lineno == first for d in n.decorator_list)), None)


def _helpers(tree: ast.Module, node: ast.AST) -> list[ast.stmt]:
    """The functions and classes at the top of the same file or cell that the answer names, and those that they name."""
    defined = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n is not node}
    wanted, left = set[str](), [node]
    while left:
        names = {n.id for n in ast.walk(left.pop()) if isinstance(n, ast.Name)} & (set(defined) - wanted)
        wanted |= names
        left += [defined[name] for name in names]
    return [n for name, n in defined.items() if name in wanted]


def _state(tree: ast.Module, code: Sequence[ast.AST], libraries: set[str]) -> list[ast.stmt] | None:
    """Return the cell's statements that set up afresh what the code changes outside; None if one is missing.

    Earlier calls have filled the notebook's caches and counters. A change that helps with them may not help afresh.
    """
    kept = set().union(*(_changed_outside(node, libraries) for node in code))
    assignments = [statement for statement in tree.body if isinstance(statement, ast.Assign)]
    found = [
        statement
        for statement in assignments
        if {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)} & kept
    ]
    set_up = {t.id for s in found for t in s.targets if isinstance(t, ast.Name) and _is_plain(s.value)}
    return [*found] if kept <= set_up else None


def _bound(around: ast.AST, answer: ast.AST) -> Iterator[str]:
    """Yield the names bound by the cell or file and by the functions in it that hold the answer, arguments included."""
    for node in ast.iter_child_nodes(around):
        if node is answer:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        if not isinstance(node, SCOPES) or any(inner is answer for inner in ast.walk(node)):
            yield from _bound(node, answer)


def _is_plain(value: ast.expr) -> bool:
    """True if an expression makes a new value out of nothing, such as `{}`, `[0] * 8` or `defaultdict(list)`."""
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    return names <= {"dict", "list", "set", "tuple", "Counter", "OrderedDict", "defaultdict", "None", "int", "float"}


CHANGES_IN_PLACE = {
    *("append", "add", "update", "setdefault", "pop", "insert", "extend", "clear", "popitem", "remove", "discard"),
}


def _changed_outside(code: ast.AST, libraries: set[str]) -> set[str]:
    """The names of what the code does not make itself, and changes: caches, counters, kept answers.

    A function of a library that changes something in place, `nn.init.zeros_(x)`, does not change the library, but x.
    """
    declared = {name for n in ast.walk(code) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    own = {n.arg for n in ast.walk(code) if isinstance(n, ast.arg)}
    own |= {n.id for n in ast.walk(code) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.name for n in ast.walk(code) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    changed = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            changed |= {_root(node)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            in_place = node.func.attr in CHANGES_IN_PLACE or re.fullmatch(r"[a-z]\w*[a-z0-9]_", node.func.attr)
            if in_place:
                root = _root(node.func)
                changed |= {_root(given) for given in node.args} if root in libraries else {root}
    return (changed - own - {""}) | declared


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _closed_over(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # an empty cell: what is assigned later, or was deleted
            found[name] = cell.cell_contents
    return found
