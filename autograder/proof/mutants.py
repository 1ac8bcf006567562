"""Mutants of a right answer: its source with one small thing changed."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.proof.replacements import Scope, is_error, replacements


@dataclass(frozen=True)
class Mutant:
    """A changed answer; `key` names the change by the statement before and after, not by a line number."""

    key: str
    source: str


@dataclass
class Site:
    """A place in the syntax tree where something else may be put."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    statement: ast.stmt
    scope: Scope

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants(source: str) -> list[Mutant]:
    """Every mutant of the source, each once; docstrings, annotations and the words of an error are left alone.

    >>> [mutant.key for mutant in mutants("def f(a, b): return a - b")][:3]
    ['return a - b → pass', 'return a - b → return a + b', 'return a - b → return a']
    """
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    keys: Counter[str] = Counter()
    found = []
    for site in list(_sites(tree)):
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


def _sites(tree: ast.Module) -> Iterator[Site]:
    for statement in tree.body:
        yield from _sites_below(tree, "body", tree.body.index(statement), statement, statement, Scope())


def _sites_below(
    parent: ast.AST, field: str, index: int | None, node: ast.AST, statement: ast.stmt, scope: Scope
) -> Iterator[Site]:
    statement = node if isinstance(node, ast.stmt) else statement
    if isinstance(node, ast.expr_context | ast.operator | ast.unaryop | ast.cmpop) or _is_docstring(node):
        return
    if isinstance(node, ast.ClassDef):
        scope = scope.of_class(node)
    if isinstance(node, ast.FunctionDef):
        scope = scope.of_function(node)
    yield Site(parent, field, index, node, statement, scope)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases") or (name == "args" and is_error(node)):
            continue
        children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for place, child in children:
            if isinstance(child, ast.AST):
                yield from _sites_below(node, name, place, child, statement, scope)
    if isinstance(node, ast.Assign):
        scope.assign(node)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
