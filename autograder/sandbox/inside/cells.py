"""A notebook's cells as far as one exercise needs them: which to run, and running them.

Demonstrations, pictures and other exercises' answers are left out unless the answer uses a name that they bind. That is
decided by names alone, generously: what could matter is run.
"""

import __future__

import ast
import inspect
import linecache
import signal
import symtable
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from .attempt import failure_of
from .limits import Clock, TimeLimitExceeded, quiet, time_limit
from .shell import RUNNING_MAGICS, WRITING_MAGICS, Missing, run_to_the_end
from .withheld import Withheld

OPAQUE = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "__import__", "get_ipython", "compile"}
RUNNING = {"run", "time", "timeit", "capture", "prun"}  # magics that run code, which may bind names
OURS = ("attnlib", "autograder")
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
    files: dict[str, str]
    """The modules that it writes beside the notebook, with their sources."""
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
    """The names that are bound here, by an import too, or whose attributes an assignment sets: F.softmax = mine."""
    found = imported_names(body).union(*map(_surely_bound, body))
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
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
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
        magic = (first[2:].split() or [""])[0]
        if magic in RUNNING_MAGICS:
            return translate("\n" + rest)
        if magic not in WRITING_MAGICS:
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
    files: dict[str, str]


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
        reads = read_names(text) | imported_files(part)
        binds |= set() if given else named_files(part)
        files = {} if given else written_files(part)
        found.append(Part(part, binds, reads, imported_names(part), changed_modules(part), opaque, files))
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
            units.append(Unit(name, part.body, role, name == wanted, always, binds, part.reads, part.files, flags))
        filename = f"<cell {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return units, broken


def named_files(body: list[ast.stmt]) -> set[str]:
    """The modules whose files are named here: they may be written. `file:helper` stands for helper.py."""
    constants = (n.value for s in body for n in ast.walk(s) if isinstance(n, ast.Constant))
    words = [word for value in constants if isinstance(value, str) and len(value) < 200 for word in value.split()]
    return {f"file:{name.split('/')[-1].removesuffix('.py')}" for name in words if name.endswith(".py")} | {
        f"file:{part}" for name in words if name.endswith(".py") for part in name.split("/")[:-1]
    }


def imported_files(body: list[ast.stmt]) -> set[str]:
    """The modules that are imported here, which another cell may have written."""
    found: set[str] = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.Import):
            found.update(*(alias.name.split(".") for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(node.module.split("."))
        elif isinstance(node, ast.Call) and "import_module" in (getattr(node.func, k, "") for k in ("id", "attr")):
            names = (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            found.update(*(name.split(".") for name in names))
    return {f"file:{name}" for name in found}


def written_files(body: list[ast.stmt]) -> dict[str, str]:
    """The modules that `%%writefile` writes here, with their sources."""
    found: dict[str, str] = {}
    for node in (n for statement in body for n in ast.walk(statement)):
        if (magic := _magic(node)) and magic[0] in WRITING_MAGICS and len(magic) == 3:
            name = (magic[1].split() or [""])[-1].split("/")[-1].removesuffix(".py")
            found[name] = found.get(name, "") + magic[2]
    return found


def _magic(node: ast.AST) -> list[str]:
    """The words of `get_ipython().run_line_magic("time", "x = 1")` and its like; none for anything else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return []
    shell = node.func.value.func if isinstance(node.func.value, ast.Call) else None
    if not (isinstance(shell, ast.Name) and shell.id == "get_ipython"):
        return []
    if not all(isinstance(argument, ast.Constant) for argument in node.args):
        return []
    if node.func.attr in ("run_line_magic", "run_cell_magic"):
        return [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    return ["system"] if node.func.attr in ("system", "getoutput") else []


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
    nodes = [n for statement in body for n in ast.walk(statement)]
    harmless = set()
    for node in nodes:
        if isinstance(node, ast.Call) and (magic := _magic(node)) and magic[0] not in RUNNING:
            harmless |= {id(inner) for inner in ast.walk(node.func)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in OPAQUE and id(node) not in harmless:
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
    statements = _without_replaced(statements)
    names = [bound_names(statement) for statement in statements]
    written = {name: source for unit in units for name, source in unit.files.items()}
    read: set[str] = set()
    chosen: set[int] = set()
    while more := {i for i, bound in enumerate(names) if i not in chosen and bound & wanted}:
        chosen |= more
        wanted = wanted.union(*(read_names(ast.unparse(statements[i])) for i in more))
        for file in imported_files([statements[i] for i in more]) & {f"file:{name}" for name in written} - read:
            read.add(file)
            inside = _statements_of(written[file.removeprefix("file:")])
            statements += inside
            names += [bound_names(statement) for statement in inside]
        if read:
            wanted |= _members([statements[i] for i in chosen])
            wanted |= set().union(*names) if "*" in wanted else set()
    return "\n".join(ast.unparse(statements[i]) for i in sorted(chosen))


def _statements_of(source: str) -> list[ast.stmt]:
    try:
        return _parsed(source)[1]
    except (SyntaxError, ValueError):
        return []


def _members(body: list[ast.stmt]) -> set[str]:
    """What is asked of modules: `helper.f`, `from helper import f`."""
    nodes = [n for statement in body for n in ast.walk(statement)]
    return {n.attr for n in nodes if isinstance(n, ast.Attribute)} | {n.name for n in nodes if isinstance(n, ast.alias)}


def _without_replaced(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without imports and assignments of names that are surely bound again before anything uses them.

    Who imports torch's softmax, and then writes one with that name, uses their own.
    """
    replaced: set[str] = set()
    kept: list[ast.stmt] = []
    for statement in reversed(statements):
        left: ast.stmt | None = statement
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            aliases = [a for a in statement.names if (a.asname or a.name).split(".")[0] not in replaced]
            left = _with_aliases(statement, aliases) if aliases else None
        elif isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
            left = None if _surely_bound(statement) <= replaced else statement
        if left is not None:
            kept.append(left)
            replaced = (replaced | _surely_bound(left)) - _read_at_once(left)
    return kept[::-1]


def _with_aliases(node: ast.Import | ast.ImportFrom, aliases: list[ast.alias]) -> ast.stmt:
    made = ast.Import(aliases) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, aliases, node.level)
    return ast.copy_location(made, node)


def _read_at_once(statement: ast.stmt) -> set[str]:
    """The names that a statement may read when it is run; what is called may read any, but is not looked into."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        parts = [*statement.decorator_list, *statement.args.defaults, *statement.args.kw_defaults]
        return set().union(*(_loaded(part) for part in parts if part is not None))
    return _loaded(statement)


def run_units(
    units: list[Unit],
    namespace: dict[str, Any],
    stuck: Collection[str] = (),
    shown: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Outcome]:
    """Run them, cell by cell; an error ends its cell, and no other. Cells that are `stuck` are not waited for again.

    `shown` holds, by cell, what a demonstration binds that needs what is withheld here.
    """
    place = 0
    while place < len(units):
        first = units[place]
        seconds = GIVEN_CELL_SECONDS if first.role == "given" else CELL_SECONDS
        seconds = STUCK_CELL_SECONDS if first.cell in stuck else seconds
        body: list[ast.stmt] = []
        while place < len(units) and units[place].cell == first.cell:
            body += units[place].body
            place += 1
        values = (shown or {}).get(first.cell) if first.role == "given" else None
        yield run_cell(first.cell, body, namespace, seconds, first.flags, values)


def run_cell(
    cell: str,
    body: list[ast.stmt],
    namespace: dict[str, Any],
    seconds: float,
    flags: int,
    values: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run one cell's statements within the limits."""
    outcome = Outcome(cell)
    with quiet() as text:
        try:
            with _woken(), time_limit(Clock(cpu_seconds=seconds, wall_seconds=1e9)):
                while body:
                    body = _run_statements(body, f"<cell {cell}>", namespace, flags, values, outcome)
        except TimeLimitExceeded:
            outcome.error = "TimeLimit"
            outcome.text = f"did not end within {seconds:.0f} seconds of computing"
        except Woken:
            outcome.error = "TimeLimit"
            outcome.text = "waited without computing"
        except BaseException as error:
            _note(outcome, error)
    outcome.printed = text.text()
    return outcome


def _note(outcome: Outcome, error: BaseException) -> None:
    failure = failure_of(error)
    outcome.error = type(error).__name__
    outcome.text = failure.text.removeprefix("raised ") + (f", at {failure.place}" if failure.place else "")


def _run_statements(
    body: list[ast.stmt],
    filename: str,
    namespace: dict[str, Any],
    flags: int,
    values: Mapping[str, Any] | None,
    outcome: Outcome,
) -> list[ast.stmt]:
    """Run the statements; return those behind one that only the grading has stopped, which is noted and passed over."""
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(ast.Module(body, []), filename, "exec", flags, dont_inherit=True)
    try:
        waiting = eval(code, namespace)
        if code.co_flags & inspect.CO_COROUTINE:
            run_to_the_end(waiting)
    except Exception as error:
        place = _stopped_at(body, error, filename)
        if place is None or not (values is not None or _is_of_grading(body[place], error)):
            raise
        _note(outcome, error)
        bound = bound_names(body[place])
        if isinstance(error, ModuleNotFoundError) and values is None:
            namespace.update(dict.fromkeys(bound, Missing(error)))
        namespace.update({name: value for name, value in (values or {}).items() if name in bound})
        return body[place + 1 :]
    return []


def _is_of_grading(statement: ast.stmt, error: Exception) -> bool:
    """Whether the statement works where the student wrote it: the library is whole there, and others are installed."""
    if isinstance(error, ModuleNotFoundError) and isinstance(statement, (ast.Import, ast.ImportFrom)):
        return (error.name or "").split(".")[0] not in OURS
    return isinstance(error, Withheld)


def _stopped_at(body: list[ast.stmt], error: Exception, filename: str) -> int | None:
    """Which of the statements an exception comes from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != filename:
        trace = trace.tb_next
    if trace is None:
        return None
    line = trace.tb_lineno
    return next((i for i, s in enumerate(body) if _first_line(s) <= line <= (s.end_lineno or s.lineno)), None)


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
