"""attnlib as one exercise may use it: without what it asks for, and without anything built on that."""

import ast
import functools
from pathlib import Path
from typing import Any

import attnlib
from attnlib.checks import course
from attnlib.checks.exercise import Exercise
from attnlib.checks.practising.programs import with_imports

CHECKS = Path(__file__).with_name("silent_checks.py").read_text(encoding="utf-8")
LENT = "\n\nLENT = {sources!r}\n"
STAND_INS = """
from inside.withheld import stand_in as _stand_in

for _name in {names!r}:
    globals()[_name] = _stand_in(f"attnlib.{{_name}}")

"""


@functools.cache
def everything() -> dict[str, str]:
    """Return attnlib with its checks, others' lessons and the texts these read, for a process that judges nothing."""
    folder = Path(attnlib.__path__[0])
    found = {path: ".".join(path.relative_to(folder.parent).with_suffix("").parts) for path in folder.rglob("*.py")}
    for package in course.OTHERS:
        inside = package.glob("lesson_*/**/*.py")
        found |= {p: ".".join((course.__name__, *p.relative_to(package).with_suffix("").parts)) for p in inside}
    found |= {path: f"/{path.relative_to(folder.parent).as_posix()}" for path in folder.glob("checks/naming/**/*.md")}
    return {name.removesuffix(".__init__"): path.read_text(encoding="utf-8") for path, name in sorted(found.items())}


def withheld(exercise: Exercise) -> set[str]:
    """Return attnlib's names that the exercise forbids, and its reference's."""
    names = {name.split(".")[1] for name in exercise.forbidden if name.startswith("attnlib.")}
    reference = exercise.reference
    for owner in (reference, getattr(reference, "__wrapped__", reference)):
        if getattr(owner, "__module__", "").startswith("attnlib.") and ".checks." not in owner.__module__:
            names.add(owner.__name__)
    return names


@functools.cache
def _modules() -> dict[str, tuple[str, ast.Module, set[str]]]:
    """Read attnlib's files without the checks: by module name the source, its tree, and all names in it."""
    folder = Path(attnlib.__path__[0])
    paths = {".".join(path.relative_to(folder.parent).with_suffix("").parts): path for path in folder.rglob("*.py")}
    found = {}
    for name, path in sorted(paths.items()):
        if not name.startswith("attnlib.checks."):
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
            found[name.removesuffix(".__init__")] = source, tree, _used(tree) | _names(tree)
    return found


@functools.cache
def _definitions() -> list[tuple[str, set[str]]]:
    """Return attnlib's functions and classes, and the names that each of them uses."""
    nodes = [node for _, tree, _ in _modules().values() for node in tree.body]
    return [(node.name, _used(node)) for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]


@functools.cache
def view(names: frozenset[str] = frozenset(), lent: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the sources that a student's `import attnlib` finds, by module name, in which `names` can't be called.

    `lent` are the exercises of other lessons whose right answers the notebook goes on with.
    """
    gone = set(names)
    while more := {name for name, used in _definitions() if name not in gone and gone & used}:
        gone |= more  # whatever uses a withheld name goes as well
    found = {"attnlib.checks": CHECKS + LENT.format(sources={name: _right_answer(name) for name in sorted(lent)})}
    for module, (source, tree, known) in _modules().items():
        if gone & known:
            kept = [node for statement in tree.body if (node := _kept(statement, gone)) is not None]
            source = STAND_INS.format(names=sorted(gone & _names(tree))) + ast.unparse(ast.Module(kept, []))
        found[module] = source
    return found


def _right_answer(name: str) -> str:
    exercise: Any = course.find(name)
    return with_imports(exercise.right, exercise.right)[0]


def _names(tree: ast.Module) -> set[str]:
    """Return the names that a file defines or imports."""
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def _used(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _kept(node: ast.stmt, gone: set[str]) -> ast.stmt | None:
    """Return the statement without the names that are gone; None if nothing of it is left."""
    if isinstance(node, ast.ImportFrom):
        aliases = [alias for alias in node.names if alias.name not in gone]
        return ast.ImportFrom(node.module, aliases, node.level) if aliases else None
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return None if node.name in gone else node
    if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]:
        names = [name for name in ast.literal_eval(node.value) if name not in gone]
        return ast.parse(f"__all__ = {names!r}").body[0]
    return node
