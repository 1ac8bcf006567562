"""One file made of many: a program with all that it needs of the learner's package, definitions before their use."""

import ast
import re
from collections.abc import Mapping

from attnlib.checks.standing.own_file import imports_of
from attnlib.checks.standing.own_source import bindings, import_of, used

Place = tuple[str, str]
"""A file, and a name in it."""


class OneFile:
    r"""Statements of several files, put together: `add` takes one and all that it uses.

    `files` are texts by name. What a file imports from beside it (`from .lesson_05 import …`) is found in `files`;
    `instead` names other things that are another file's. Of two different things under one name, the second one gets
    the name of its file behind its own.

    >>> main = "from lib import half\ndef run():\n    return half(4)"
    >>> made = OneFile({"main": main, "mine": "def cut(x):\n    return x / 2"}, {("main", "half"): ("mine", "cut")})
    >>> made.add(("main", "run"))
    'run'
    >>> print(*made.statements.values(), sep="\n")
    def cut(x):
        return x / 2
    def run():
        return cut(4)
    """

    def __init__(self, files: Mapping[str, str], instead: Mapping[Place, Place]) -> None:
        self.instead = instead
        self.read = {file: dict(bindings([text])) for file, text in files.items()}
        self.names: dict[Place, str] = {}
        self.home: dict[str, str] = {}
        """The file that each name of the new one comes from."""
        self.imports: dict[str, str] = {}
        self.statements: dict[str, str] = {}

    def add(self, place: Place) -> str:
        """Take the name from a file, with all that it needs; return its name in the new file."""
        place = self.instead.get(place, place)
        file, name = place
        if place in self.names:
            return self.names[place]
        statement, source = self.read[file][name]
        if isinstance(statement, ast.ImportFrom) and statement.level:
            original = next(alias.name for alias in statement.names if name in (alias.asname, alias.name))
            self.names[place] = self.add((statement.module or "", original))
            return self.names[place]
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            return self._add_import(place, ast.parse(import_of(name, statement)).body[0])
        called = self.names[place] = self._free(name, file)
        self.home[called] = file
        needs = {other: self.add((file, other)) for other in used(source) if other in self.read[file] and other != name}
        self.statements[called] = renamed(source, needs | {name: called})
        return called

    def _add_import(self, place: Place, statement: ast.stmt) -> str:
        file, name = place
        same = ast.unparse(statement)
        if self.imports.get(name) != same:
            called = self._free(name, file)
            if called != name:
                assert isinstance(statement, (ast.Import, ast.ImportFrom))
                statement.names[0].asname = called
            self.imports[called] = ast.unparse(statement)
            self.home[called] = file
            name = called
        self.names[place] = name
        return name

    def _free(self, name: str, file: str) -> str:
        return name if name not in self.home else f"{name}_{file.removeprefix('lesson_')}"

    def import_lines(self) -> list[str]:
        """The imports, sorted, each module once."""
        return imports_of(node for line in self.imports.values() for node in ast.parse(line).body)


def renamed(source: str, names: Mapping[str, str]) -> str:
    r"""The source of a statement with other names for what it binds and uses; attributes and arguments stay.

    >>> renamed("def f(a):\n    return g(a).g + f(g=1)", {"f": "f_2", "g": "h"})
    'def f_2(a):\n    return h(a).g + f_2(g=1)'
    """
    lines = [line.encode() for line in source.split("\n")]
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.append((node.lineno, node.col_offset, node.end_col_offset or 0, node.id))
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names:
            head = lines[node.lineno - 1][node.col_offset :].decode()
            # Python reads a name in its normal form: µ is a Greek μ
            if written := re.match(r"(?:def|class)\s+(\w+)", head):
                start, end = (node.col_offset + len(head[:place].encode()) for place in written.span(1))
                found.append((node.lineno, start, end, node.name))
    for line, start, end, name in sorted(found, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:start] + names.get(name, name).encode() + text[end:]
    return b"\n".join(lines).decode()
