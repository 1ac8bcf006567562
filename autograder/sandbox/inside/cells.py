"""A notebook's cells as Python: the names that each statement binds, reads and imports, and the files it writes."""

import __future__

import ast
import linecache
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

from .names import (
    bound_names,
    called_for_effect,
    changed_by,
    changed_modules,
    imported_names,
    read_names,
    walked,
)
from .shell import RUNNING_MAGICS, WRITING_MAGICS

OPAQUE = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "__import__", "get_ipython", "compile"}
RUNNING = {"run", "time", "timeit", "capture", "prun"}  # magics that run code, which may bind names
MOST_LINES_READ = 20_000  # a count, not a clock: no verdict depends on a machine's speed


@dataclass
class Unit:
    """The least that is run or left out: a statement of a cell that was given, or a whole cell of the student's."""

    cell: str
    body: list[ast.stmt]
    role: str  # "given", "added", "answer", or "stub": an answer as it was released
    answer: bool  # True for the answer to the exercise that is judged
    always: bool
    binds: set[str]
    reads: set[str]
    files: dict[str, str]
    """The modules that it writes beside the notebook, with their sources."""
    flags: int = 0
    """The compiler's flags for all that this cell and those above import from __future__, which IPython keeps."""


@dataclass
class Outcome:
    """The result of a cell: the error that ended it, its text, the name or module it lacks, and the cell's output."""

    cell: str
    error: str = ""
    text: str = ""
    printed: str = ""
    lacks_name: str = ""
    lacks_module: str = ""
    stopped: int = 0
    """The line of the statement that did not end in its time; 0 if all did, or if it isn't known."""


def translate(source: str) -> str:
    """Translate IPython's magics to Python, or to nothing: there is no shell here, and nothing is measured."""
    first, _, rest = source.lstrip().partition("\n")
    if first.startswith("%%"):
        magic = (first[2:].split() or [""])[0]
        if magic in RUNNING_MAGICS:
            return translate("\n" + rest)
        if magic not in WRITING_MAGICS:
            return ""
    return str(_translator().transform_cell(source))


def _translator() -> Any:
    """Return IPython's translator, which reads the whole cell again after each magic; the lines read are bounded."""
    from IPython.core.inputtransformer2 import TransformerManager

    translator: Any = TransformerManager()
    translate_one, read = translator.do_one_token_transform, 0

    def bounded(lines: list[str]) -> Any:
        nonlocal read
        read += len(lines)
        if read > MOST_LINES_READ:
            raise RuntimeError("has more magics than are read")
        return translate_one(lines)

    translator.do_one_token_transform = bounded
    return translator


@dataclass(frozen=True)
class Part:
    """Some statements, with the properties that do not depend on the cells around them."""

    body: list[ast.stmt]
    binds: set[str]
    reads: set[str]
    imports: set[str]
    changes: set[str]
    calls: set[str]
    changing: dict[str, set[str]]
    """The functions and classes defined here, with the names whose objects they may change."""
    opaque: bool
    files: dict[str, str]


@cache
def read_cell(source: str, given: bool) -> tuple[str, list[Part]]:
    """Return the cell as Python, and its parts: each statement of a cell that was given, else the cell as a whole.

    The warm process reads the given cells before it forks, so that no child has to.
    """
    source, body = parsed(source)
    lines = source.split("\n")
    found = []
    for part in [[statement] for statement in body] if given else [body]:
        text = "\n".join(lines[first_line(part[0]) - 1 : part[-1].end_lineno]) if part else ""
        binds = set().union(*map(bound_names, part))
        opaque = not given and is_opaque(part)
        reads = read_names(text) | imported_files(part)
        calls, objects = (set(), set()) if given else called_for_effect(part)
        binds |= set() if given else named_files(part) | objects
        files = {} if given else written_files(part)
        changing = {} if given else changed_by(part)
        changes = changed_modules(part)
        found.append(Part(part, binds, reads, imported_names(part), changes, calls, changing, opaque, files))
    return source, found


def parse(cells: list[dict[str, Any]], wanted: str) -> tuple[list[Unit], list[Outcome]]:
    """Return the units of all cells in order, and an outcome for each cell that is not Python."""
    units: list[Unit] = []
    broken: list[Outcome] = []
    libraries: set[str] = set()
    changing: dict[str, set[str]] = {}
    flags = 0
    for cell in cells:
        name, role = cell["name"], cell["role"]
        try:
            source, parts = read_cell(cell["source"], role == "given")
        except Exception as error:  # IPython's translator raises others, too, such as IndexError for `a = %\`
            what = error.msg if isinstance(error, SyntaxError) else str(error)
            line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
            broken.append(Outcome(name, type(error).__name__, f"{what}{line}"))
            continue
        for part in parts:
            libraries |= part.imports
            changing |= part.changing
            binds = part.binds.union(*(changing[name] for name in part.calls & changing.keys()))
            binds -= libraries - part.changes
            always = part.opaque or name == wanted
            flags |= future_flags(part.body)
            units.append(Unit(name, part.body, role, name == wanted, always, binds, part.reads, part.files, flags))
        filename = f"<cell {name}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return units, broken


def named_files(body: list[ast.stmt]) -> set[str]:
    """Return the modules whose files are named here, as they may be written; `file:helper` stands for helper.py."""
    constants = (n.value for n in walked(body) if isinstance(n, ast.Constant))
    words = [word for value in constants if isinstance(value, str) and len(value) < 200 for word in value.split()]
    return {f"file:{name.split('/')[-1].removesuffix('.py')}" for name in words if name.endswith(".py")} | {
        f"file:{part}" for name in words if name.endswith(".py") for part in name.split("/")[:-1]
    }


def imported_files(body: list[ast.stmt]) -> set[str]:
    """Return the modules that are imported here, which another cell may have written."""
    found: set[str] = set()
    for node in walked(body):
        if isinstance(node, ast.Import):
            found.update(*(alias.name.split(".") for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(node.module.split("."))
        elif isinstance(node, ast.Call) and "import_module" in (getattr(node.func, k, "") for k in ("id", "attr")):
            names = (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            found.update(*(name.split(".") for name in names))
    return {f"file:{name}" for name in found}


def written_files(body: list[ast.stmt]) -> dict[str, str]:
    """Return the modules that `%%writefile` writes here, with their sources."""
    found: dict[str, str] = {}
    for node in walked(body):
        if (magic := _magic(node)) and magic[0] in WRITING_MAGICS and len(magic) == 3:
            name = (magic[1].split() or [""])[-1].split("/")[-1].removesuffix(".py")
            found[name] = found.get(name, "") + magic[2]
    return found


def _magic(node: ast.AST) -> list[str]:
    """Return the words of `get_ipython().run_line_magic("time", "x = 1")` and its like; none for anything else."""
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
    """Return the compiler's flags for all that the statements import from __future__."""
    found = 0
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                found |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return found


def parsed(source: str) -> tuple[str, list[ast.stmt]]:
    """Return the source, its magics translated if it has any, and its statements."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return source, ast.parse(source).body
        except SyntaxError:
            source = translate(source)
            return source, ast.parse(source).body


def first_line(statement: ast.stmt) -> int:
    """Return the line in which the statement begins, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def is_opaque(body: list[ast.stmt]) -> bool:
    """True if these statements may bind names that their syntax tree doesn't show."""
    nodes = walked(body)
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
