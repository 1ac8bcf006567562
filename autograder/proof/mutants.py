"""Mutants of a right answer: its source with one small thing changed."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from attnlib.checks.naming.one_change.replacements import replacements
from attnlib.checks.naming.one_change.sites import sites


@dataclass(frozen=True)
class Mutant:
    """A changed answer; `key` names the change by its place and its pieces, not by the line."""

    key: str
    shown: str
    """The whole statement before and after."""
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of the source, each once; docstrings, annotations and the words of an error are left alone.

    >>> [mutant.key for mutant in mutants("def f(a, b): return a - b")][:3]
    ['f, return → pass', 'f, return: - → +', 'f, return: - b →']
    """
    tree = ast.parse(source)
    functions = dict(_functions(tree, ""))
    seen = {ast.unparse(tree)}
    keys: Counter[str] = Counter()
    found = []
    for site in list(sites(tree)):
        before, old = _headline(site.statement), ast.unparse(site.node)
        for new in replacements(site.node, site.scope):
            site.put(new)
            text = ast.unparse(tree)
            whole = site.node is site.statement and isinstance(new, ast.Pass)
            after = _headline(new if site.node is site.statement and isinstance(new, ast.stmt) else site.statement)
            site.put(site.node)
            if text not in seen:
                seen.add(text)
                change = " → pass" if whole else f": {_exchanged(old, ast.unparse(new))}"
                key = f"{functions.get(site.statement, '')}, {_known_by(site.statement)}{change}"
                keys[key] += 1
                found.append(Mutant(key if keys[key] == 1 else f"{key} ({keys[key]})", f"{before} → {after}", text))
    return found


def _functions(node: ast.AST, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield every statement with the name of the function it is in, or defines."""
    for child in ast.iter_child_nodes(node):
        inner = f"{name}.{child.name}".strip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else name
        yield child, inner
        yield from _functions(child, inner)


def _known_by(statement: ast.stmt) -> str:
    """Return the name of a line, however its expression is written: what it assigns or calls, or its keyword."""
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0])
    if isinstance(statement, ast.AugAssign | ast.For):
        return ast.unparse(statement.target)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return f"{ast.unparse(statement.value.func)}()"
    return {"FunctionDef": "def", "ClassDef": "class"}.get(type(statement).__name__, type(statement).__name__.lower())


def _exchanged(old: str, new: str) -> str:
    """Return what differs between the texts, from the first different word to the last."""
    before, after = (re.findall(r"-?\d[\d.]*|\w+|\s+|[^\w\s]", text) for text in (old, new))
    first = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), None)
    first = min(len(before), len(after)) if first is None else first
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    parts = ("".join(words[first : len(words) - last]).strip() for words in (before, after))
    return " → ".join(parts).strip()


def _headline(statement: ast.AST) -> str:
    """The statement on one line; of a compound one, its first line."""
    return ast.unparse(statement).split("\n")[0]
