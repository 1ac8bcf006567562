"""Mutants of a right answer: its source with one small thing changed."""

import ast
from collections import Counter
from dataclasses import dataclass

from attnlib.checks.naming.one_change.replacements import replacements
from attnlib.checks.naming.one_change.sites import sites


@dataclass(frozen=True)
class Mutant:
    """A changed answer; `key` names the change by the statement before and after, not by a line number."""

    key: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of the source, each once; docstrings, annotations and the words of an error are left alone.

    >>> [mutant.key for mutant in mutants("def f(a, b): return a - b")][:3]
    ['return a - b → pass', 'return a - b → return a + b', 'return a - b → return a']
    """
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    keys: Counter[str] = Counter()
    found = []
    for site in list(sites(tree)):
        before = _headline(site.statement)
        for new in replacements(site.node, site.scope):
            site.put(new)
            text = ast.unparse(tree)
            after = _headline(new if site.node is site.statement and isinstance(new, ast.stmt) else site.statement)
            site.put(site.node)
            if text not in seen:
                seen.add(text)
                key = f"{before} → {after}"
                keys[key] += 1
                found.append(Mutant(key if keys[key] == 1 else f"{key} ({keys[key]})", text))
    return found


def _headline(statement: ast.AST) -> str:
    """The statement on one line; of a compound one, its first line."""
    return ast.unparse(statement).split("\n")[0]
