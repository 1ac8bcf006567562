"""Replacements for a node of a wrong answer: the mutation operators, and repairs of further slips."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

from attnlib.checks.naming.one_change import in_expressions, in_statements
from attnlib.checks.naming.one_change.repair import Repair, reworded
from attnlib.checks.naming.one_change.replacements import RELATED, replacements
from attnlib.checks.naming.one_change.sites import Site


def repairs(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """The changes of one node; `aspects` are those in which the answer is wrong, and leave some changes out."""
    if isinstance(getattr(site.node, "ctx", None), ast.Store | ast.Del) and not isinstance(site.node, ast.Tuple):
        return  # a target of an assignment or a deletion
    for new in replacements(site.node, site.scope):
        if not _may_fit_by_chance(site.node, new):
            yield reworded(new, _kind(site.node, new))
    for kinds, make in _MORE:
        if isinstance(site.node, kinds):
            yield from make(site, aspects)


def _may_fit_by_chance(old: ast.AST, new: ast.AST) -> bool:
    """True for a size that just fits, a tensor in place of one like it, a missing copy, or one maximum for all.

    A write to the original would then reach its copy. And anything subtracted before a softmax cancels: so does the
    largest number of all rows, until one row is far below the others.
    """
    if isinstance(old, ast.Constant):
        return type(old.value) is int and old.value > LARGEST
    if not isinstance(old, ast.Call):
        return False
    if new in old.args and ast.unparse(old.func).endswith("_like"):
        return True
    name = old.func.attr if isinstance(old.func, ast.Attribute) else ""
    if name in EXTREMES and isinstance(new, ast.Call) and new.func is old.func:
        given = (len(old.args), "dim" in {k.arg for k in old.keywords})
        return (len(new.args), "dim" in {k.arg for k in new.keywords}) != given
    return name == "clone"


EXTREMES = ("amax", "amin", "max", "min")
LARGEST = 8
"""The largest number that may be meant as it is: an axis, a power, a multiple. Anything larger is a size."""


def _kind(old: ast.AST, new: ast.AST) -> str:
    """The kind of a change that a mutation operator made."""
    if isinstance(old, ast.UnaryOp) and isinstance(new, ast.Constant):
        return "number"
    if isinstance(old, ast.If):
        if isinstance(new, ast.Pass):
            return "branch"
        return "always" if isinstance(new, ast.If) and isinstance(new.test, ast.Constant) else "condition"
    if isinstance(new, ast.Pass) or any(new is node for node in ast.walk(old)):
        # where a sum along an axis is left out, all may be right by chance: another axis is tried before
        return "reduction" if in_expressions.reduces(old) else "removal"
    if isinstance(new, ast.Constant):
        return "pattern" if isinstance(new.value, str) else "flag" if isinstance(new.value, bool) else "number"
    if isinstance(old, ast.BinOp) and isinstance(new, ast.BinOp):
        return "order" if type(old.op) is type(new.op) else "operator"
    if isinstance(old, ast.Compare):
        return "operator"
    if isinstance(old, ast.Call) and isinstance(new, ast.Call):
        same = len(old.args) == len(new.args) and len(old.keywords) == len(new.keywords)
        return "order" if same else "removal"
    if isinstance(old, ast.Tuple | ast.List):
        return "order"
    if isinstance(old, ast.Name) and isinstance(new, ast.Name):
        return "function" if new.id in RELATED.get(old.id, ()) else "name"
    if isinstance(old, ast.Attribute) and isinstance(new, ast.Attribute):
        return "function" if new.attr in RELATED.get(old.attr, ()) else "name"
    raise TypeError(f"a change of no known kind: {ast.unparse(old)} → {ast.unparse(new)}")


_MORE: tuple[tuple[Any, Callable[[Site, set[str]], Iterator[Repair]]], ...] = (
    (ast.Constant, in_expressions.of_number),
    (ast.Constant, in_expressions.of_pattern),
    (ast.Constant, in_expressions.of_infinity),
    ((ast.Attribute, ast.Name), in_expressions.of_function),
    (ast.BinOp, in_expressions.of_operation),
    (ast.Call, in_expressions.of_call),
    (ast.Call, in_expressions.of_fill),
    ((ast.Assign, ast.Return), in_statements.of_value),
    (ast.Name, in_expressions.of_argument),
    ((ast.If, ast.IfExp), in_statements.of_condition),
    ((ast.FunctionDef, ast.With, ast.For), in_statements.of_block),
    ((ast.Expr, ast.AugAssign), in_statements.of_lost_result),
)
