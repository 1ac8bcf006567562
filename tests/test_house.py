"""The house keeps its form: short files, short functions, and arrows that point down."""

import ast
import functools
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, permutations
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [
    path for top in ("attnlib", "autograder", "benchmarks", "tests") for path in sorted((ROOT / top).rglob("*.py"))
]
CATALOGUE = "attnlib/checks/course/"
"""Lists of slips may be longer than a file of code: a reader finds one by its name, and splitting would hide it."""

MOST_LINES, MOST_LINES_OF_A_FUNCTION, MOST_LINES_OF_AN_ADAPTER = 300, 60, 250
UPWARD: set[tuple[str, str]] = set()
CIRCLES: set[frozenset[str]] = set()
"""What does not hold yet. These lists may only shrink: an entry that is no longer needed fails, too."""
LESSONS = [f"attnlib.checks.course.{path.name}" for path in sorted((ROOT / CATALOGUE).glob("lesson_*"))]

FORBIDDEN = [
    ("attnlib", "attnlib.checks"),
    ("attnlib", "autograder"),
    ("attnlib.checks", "autograder"),
    *((f"attnlib.checks.{room}", "attnlib.checks.course") for room in ("asking", "draw", "exercise", "naming")),
    *((f"attnlib.checks.{room}", "attnlib.checks.course") for room in ("trial", "verdict")),
    *permutations(LESSONS, 2),
    *((f"autograder.{room}", "autograder.elsewhere") for room in ("judging", "sandbox", "in_nbgrader", "grading")),
    *((product, tests) for product in ("attnlib", "autograder", "benchmarks") for tests in ("tests", "odd")),
]
"""From where to where nothing may be imported. `attnlib` without its checks is a library of its own."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """The full names of all that a file imports, in functions too, and by a name given to importlib."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def is_from(name: str, package: str) -> bool:
    """The checks are in attnlib's folder, and so is `python -m attnlib`: neither is meant where attnlib is."""
    apart = within(name, "attnlib.checks") or name == "attnlib.__main__"
    return within(name, package) and not (package == "attnlib" and apart)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.relative_to(ROOT).as_posix()}::{node.name}", node.end_lineno - node.lineno + 1


def room(name: str, house: str) -> str | None:
    """The folder or the single file of the house in which a module is."""
    return name.removeprefix(f"{house}.").partition(".")[0] if name.startswith(f"{house}.") else None


def rooms(house: str) -> dict[str, set[str]]:
    """Each room with those from which it imports."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / house.replace(".", "/")).rglob("*.py"):
        here = room(name_of(path), house)
        if here is not None:
            found.setdefault(here, set()).update(filter(None, (room(name, house) for name in imported(path))))
    return {here: {other for other in others if other in found} - {here} for here, others in found.items()}


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = list(graph[start])
    while left:
        if (here := left.pop()) not in found:
            found.add(here)
            left += graph[here]
    return found


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The rooms that reach one another."""
    reach = {start: reached(graph, start) for start in graph}
    return {frozenset(o for o in reach[start] if start in reach[o]) for start in graph if start in reach[start]}


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    lengths = {p.relative_to(ROOT).as_posix(): len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES}
    assert {p: n for p, n in lengths.items() if n > MOST_LINES and not p.startswith(CATALOGUE)} == {}


def test_no_adapter_to_another_platform_is_more_than_that() -> None:
    lengths = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCES if p.parent.name == "elsewhere"}
    assert len(lengths) > 10
    assert {name: n for name, n in lengths.items() if n > MOST_LINES_OF_AN_ADAPTER} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {name: n for path in SOURCES for name, n in functions(path) if n > MOST_LINES_OF_A_FUNCTION}
    assert long == {}


def test_arrows_point_down() -> None:
    found = {
        (name_of(path), name)
        for path in SOURCES
        for name in imported(path)
        for start, end in FORBIDDEN
        if is_from(name_of(path), start) and within(name, end)
    }
    assert found - UPWARD == set()
    assert UPWARD - found == set(), "mended by now: take them off the list"


@pytest.mark.parametrize("house", ["attnlib.checks", "autograder"])
def test_rooms_do_not_import_one_another_in_a_circle(house: str) -> None:
    graph = rooms(house)
    assert len(graph) > 3
    assert circles(graph) == set()


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their names alone."""
    names = Counter(path.name for path in SOURCES if path.name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []


def modules() -> dict[str, set[str]]:
    """Each file of the product with those from which it imports."""
    files = {name_of(path): path for path in SOURCES if not within(name_of(path), "tests")}

    def file_of(name: str) -> str:
        return name if name in files or not name else file_of(name.rpartition(".")[0])

    return {here: {file_of(name) for name in imported(path)} - {here, ""} for here, path in files.items()}


def test_no_two_files_import_one_another() -> None:
    found = circles(modules())
    assert found - CIRCLES == set()
    assert CIRCLES - found == set(), "mended by now: take them off the list"


def test_what_is_looked_for_would_be_found() -> None:
    """A circle, also a long one; an import in any form."""
    names = ["a", "b", "c", "d"]
    line = {**{one: {other} for one, other in pairwise(names)}, "d": set()}
    assert circles(line) == set()
    assert circles({**line, "c": {"d", "a"}}) == {frozenset("abc")}
    assert {"ast", "collections.abc.Iterator", "pathlib.Path"} <= set(imported(Path(__file__)))
    assert "attnlib.checks.exercise.Exercise" in set(imported(ROOT / "attnlib" / "checks" / "course" / "__init__.py"))
    assert is_from("attnlib.masks", "attnlib")
    assert not is_from("attnlib.checks.draw", "attnlib")
    assert not is_from("attnlib.__main__", "attnlib")
    assert within("attnlib.checks.course.usual", "attnlib.checks.course")


def test_the_wheel_carries_every_text_that_attnlib_reads() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["attnlib"]
    carried = {path for pattern in patterns for path in (ROOT / "attnlib").glob(pattern)}
    assert {path for kind in ("md", "tsv") for path in (ROOT / "attnlib").rglob(f"*.{kind}")} <= carried
