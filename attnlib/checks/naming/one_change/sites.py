"""The places in a syntax tree where one small thing may be replaced by another."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from attnlib.checks.naming.one_change.replacements import Scope, is_error


@dataclass
class Site:
    """A node of the syntax tree, its place in the tree, its statement, and the names around it."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    statement: ast.stmt
    scope: Scope

    def put(self, node: ast.AST) -> None:
        """Put another node in this place; `put(site.node)` undoes it."""
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def sites(tree: ast.Module) -> Iterator[Site]:
    """Every node but docstrings, annotations, decorators and the words of an error, outer ones first."""
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
