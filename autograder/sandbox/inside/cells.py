"""A notebook's cells as far as one exercise needs them: which to run, and running them.

Demonstrations, pictures and other exercises' answers are left out unless the answer uses a name that they bind. That is
decided by names alone, generously: what could matter is run.
"""

import __future__

import ast
import builtins
import linecache
import signal
import symtable
import sys
import types
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from .attempt import failure_of
from .limits import Clock, TimeLimitExceeded, quiet, time_limit

OPAQUE = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "__import__", "get_ipython", "compile"}
TRANSPARENT_MAGICS = ("time", "timeit", "capture", "prun", "matplotlib")
CELL_SECONDS = 10.0  # of processor time, for one cell of a student's
GIVEN_CELL_SECONDS = 30.0  # and for one that was given
STUCK_CELL_SECONDS = 1.0  # and for one that did not end before, when another answer of the same student was judged


@dataclass
class Unit:
    """What is run or left out as one: a statement of a cell that was given, or a whole cell of the student's."""

    cell: str
    body: list[ast.stmt]
    role: str  # "given", "added", "answer", or "stub": an answer as it was released
    answer: bool  # of the exercise that is judged
    always: bool
    binds: set[str]
    reads: set[str]
    flags: int = 0
    """The compiler's: of what this cell and those above it import from __future__, as IPython keeps it."""


@dataclass
class Outcome:
    """What came of a cell: the error with which it ended, and what it printed."""

    cell: str
    error: str = ""
    text: str = ""
    printed: str = ""


def bound_names(node: ast.AST) -> set[str]:
    """The names that a statement binds, or whose objects it may change: x = 1, x.a = 1, x[0] = 1, x.fill_(1)."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        found = {node.name}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Global):
                found.update(inner.names)
            elif isinstance(inner, (ast.Attribute, ast.Subscript)) and isinstance(inner.ctx, (ast.Store, ast.Del)):
                found |= _root(inner)
        return found
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


def imported_names(body: list[ast.stmt]) -> set[str]:
    """The names that stand for something of a library: calling it does not change it."""
    imports = (n for s in body for n in ast.walk(s) if isinstance(n, (ast.Import, ast.ImportFrom)))
    return {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}


def changed_modules(body: list[ast.stmt]) -> set[str]:
    """The names that an import binds, or whose attributes an assignment sets: F.softmax = mine."""
    found = imported_names(body)
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found |= _root(node)
    return found


def read_names(text: str) -> set[str]:
    """The notebook's names that a piece of code reads: at once, before it binds them, or when a function is called."""
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
    """The names that statements may read before they have surely bound them, and those that `+=` reads.

    What functions and comprehensions read is among the first, their own names too: the symbol table tells them apart.
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
        bound = bound | _surely_bound(statement)
    return found, augmented


NAMES = (ast.Name, ast.Tuple, ast.List)


def _loaded(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}


def _surely_bound(statement: ast.stmt) -> set[str]:
    """The names that a statement binds whenever it ends without an error."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name) and is_stored(n)}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return imported_names([statement]) - {"*"}
    return set()


def is_stored(name: ast.Name) -> bool:
    """Whether the name is bound here."""
    return isinstance(name.ctx, ast.Store)


def _root(node: ast.expr) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def translate(source: str) -> str:
    """IPython's magics as Python, or as nothing: no shell is here, and nothing is measured."""
    from IPython.core.inputtransformer2 import TransformerManager

    first, _, rest = source.lstrip().partition("\n")
    if first.startswith("%%"):
        if first[2:].split()[:1] and first[2:].split()[0] in TRANSPARENT_MAGICS:
            return translate("\n" + rest)
        return ""
    return TransformerManager().transform_cell(source)


@dataclass(frozen=True)
class Part:
    """What can be said of some statements by themselves, without the cells around them."""

    body: list[ast.stmt]
    binds: set[str]
    reads: set[str]
    imports: set[str]
    changes: set[str]
    opaque: bool


@cache
def read_cell(source: str, given: bool) -> tuple[str, list[Part]]:
    """The cell as Python, and its parts: each statement of a cell that was given, else the cell as a whole.

    The warm process reads the given cells before it forks, so that no child has to.
    """
    source, body = _parsed(source)
    lines = source.split("\n")
    found = []
    for part in [[statement] for statement in body] if given else [body]:
        text = "\n".join(lines[_first_line(part[0]) - 1 : part[-1].end_lineno]) if part else ""
        binds = set().union(*map(bound_names, part))
        opaque = not given and is_opaque(part)
        found.append(Part(part, binds, read_names(text), imported_names(part), changed_modules(part), opaque))
    return source, found


def parse(cells: list[dict[str, Any]], wanted: str) -> tuple[list[Unit], list[Outcome]]:
    """The units of all cells in their order, and the cells that are no Python."""
    units: list[Unit] = []
    broken: list[Outcome] = []
    libraries: set[str] = set()
    flags = 0
    for cell in cells:
        name, role = cell["name"], cell["role"]
        try:
            source, parts = read_cell(cell["source"], role == "given")
        except (SyntaxError, ValueError, RuntimeError, MemoryError) as error:
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
            broken.append(Outcome(name, type(error).__name__, f"{what}{line}"))
            continue
        for part in parts:
            libraries |= part.imports
            binds = part.binds - (libraries - part.changes)
            always = part.opaque or name == wanted
            flags |= future_flags(part.body)
            units.append(Unit(name, part.body, role, name == wanted, always, binds, part.reads, flags))
        filename = f"<cell {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return units, broken


def future_flags(body: list[ast.stmt]) -> int:
    """The compiler's flags for what the statements import from __future__."""
    found = 0
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                found |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return found


def _parsed(source: str) -> tuple[str, list[ast.stmt]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return source, ast.parse(source).body
        except SyntaxError:
            source = translate(source)
            return source, ast.parse(source).body


def _first_line(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def is_opaque(body: list[ast.stmt]) -> bool:
    """Whether names may be bound here that cannot be seen."""
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id in OPAQUE:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
    return False


def needed(units: list[Unit], expression: str, run: str) -> list[Unit]:
    """The units that the expression needs, in their order; all, if one of the student's hides what it binds.

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
    """The units without stubs for which there is an answer elsewhere: below it, a stub would take its place."""
    written = set().union(*(unit.binds for unit in units if unit.role in ("added", "answer")))
    return [unit for unit in units if unit.role != "stub" or not unit.binds & written]


def definitions(units: list[Unit], expression: str) -> str:
    """The source of what the expression is made of: imports, functions, classes and assignments that it leads to.

    What a student's cell computes beside it, to compare the answer with torch's own, is no part of the answer.
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
    names = [bound_names(statement) for statement in statements]
    chosen: set[int] = set()
    while more := {i for i, bound in enumerate(names) if i not in chosen and bound & wanted}:
        chosen |= more
        wanted = wanted.union(*(read_names(ast.unparse(statements[i])) for i in more))
    return "\n".join(ast.unparse(statements[i]) for i in sorted(chosen))


def run_units(units: list[Unit], namespace: dict[str, Any], stuck: Collection[str] = ()) -> Iterator[Outcome]:
    """Run them, cell by cell; an error ends its cell, and no other. Cells that are `stuck` are not waited for again."""
    place = 0
    while place < len(units):
        cell, seconds = units[place].cell, GIVEN_CELL_SECONDS if units[place].role == "given" else CELL_SECONDS
        seconds = STUCK_CELL_SECONDS if cell in stuck else seconds
        body: list[ast.stmt] = []
        flags = units[place].flags
        while place < len(units) and units[place].cell == cell:
            body += units[place].body
            place += 1
        yield run_cell(cell, body, namespace, seconds, flags)


def run_cell(cell: str, body: list[ast.stmt], namespace: dict[str, Any], seconds: float, flags: int) -> Outcome:
    """Run one cell's statements within the limits."""
    outcome = Outcome(cell)
    with quiet() as text:
        try:
            with _woken(), time_limit(Clock(cpu_seconds=seconds, wall_seconds=1e9)):
                code = compile(ast.Module(body, []), f"<cell {cell}>", "exec", flags, dont_inherit=True)
                exec(code, namespace)
        except TimeLimitExceeded:
            outcome.error = "TimeLimit"
            outcome.text = f"did not end within {seconds:.0f} seconds of computing"
        except Woken:
            outcome.error = "TimeLimit"
            outcome.text = "waited without computing"
        except BaseException as error:
            failure = failure_of(error)
            outcome.error = type(error).__name__
            outcome.text = f"{failure.text.removeprefix('raised ')}" + (
                f", at {failure.place}" if failure.place else ""
            )
    outcome.printed = text.text()
    return outcome


class Woken(BaseException):
    """Raised in a cell that only waits: the grader, which sees that, sends a signal."""


@contextmanager
def _woken() -> Iterator[None]:
    def wake(signum: int, frame: Any) -> None:
        raise Woken

    signal.signal(signal.SIGUSR1, wake)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def new_namespace() -> dict[str, Any]:
    """A notebook's empty namespace, with what IPython would put there."""
    main = types.ModuleType("__main__")
    namespace = main.__dict__
    namespace.update(__builtins__=builtins, get_ipython=NoShell, display=display)
    return namespace


class NoShell:
    """What `get_ipython()` gives, and all that it has: magics do nothing, and there is no shell."""

    def __getattr__(self, name: str) -> "NoShell":
        return self

    def __call__(self, *arguments: Any, **more: Any) -> "NoShell":
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(())


class Colab(types.ModuleType):
    """`google.colab`, whose parts do nothing: an answer's cell may mount a drive before it defines the answer."""

    def __getattr__(self, name: str) -> NoShell:
        if name.startswith("__"):
            raise AttributeError(name)
        return NoShell()


def offer_colab() -> None:
    """Make `from google.colab import drive` work."""
    sys.modules.setdefault("google", types.ModuleType("google"))
    sys.modules["google.colab"] = Colab("google.colab")


def display(*objects: Any, **options: Any) -> None:
    """IPython's `display`, as text."""
    print(*objects)
