"""Describe a change: the place, and the kind of change it needs."""

import ast
import re
from dataclasses import replace

from attnlib.checks.exercise import Misconception
from attnlib.checks.naming.one_change.edits import Edit
from attnlib.checks.naming.one_change.kinds import CHANGES
from attnlib.checks.naming.one_change.reasons import reason
from attnlib.checks.naming.one_change.repair import OLD
from attnlib.checks.naming.one_change.written import Written


def _is_method(node: ast.AST) -> bool:
    """True for a method of a tensor, but not for a function of a module."""
    return isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("torch", "F", "nn", "math", "einops")


def _ordinal(line: str, old: str, node: ast.AST) -> str:
    """Say which of several equal pieces of a line is meant; empty if there is only one."""
    starts = [len(line[: m.start()].encode()) for m in re.finditer(rf"(?<!\w){re.escape(old)}(?!\w)", line)]
    at = getattr(node, "col_offset", None)
    if len(starts) < 2 or at not in starts:
        return ""
    place = starts.index(at)
    return f"the {('first', 'second', 'third', 'fourth')[place]} " if place < 4 else ""


def told(written: Written, edit: Edit) -> Misconception:
    """Return the finding that names an edit's place, and what would be different there."""
    (site, new), repair = edit.places[0], edit.repair
    number = getattr(repair.at or site.node, "lineno", site.statement.lineno)
    old = ast.unparse(site.node).split("\n")[0]
    lines = sorted({number, *(getattr(s.node, "lineno", s.statement.lineno) for s, _ in edit.places[1:])})
    places = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    others = len(edit.places) - 1
    which = "second such place" if others == 1 else f"{others} other such places"
    several = f" (and likewise at the {which})" if others else ""
    line = written.lines[number - 1]
    text = line.strip()
    which_one = f"{'' if others or repair.at else _ordinal(line, old, site.node)}`{old}`"
    if isinstance(new, ast.Pass):
        statement = f"`{old}`" if ";" in text else "this line"
        way = "without these lines" if hasattr(site.node, "body") else f"without {statement}"
    elif isinstance(site.node, ast.If) and isinstance(new, ast.If) and isinstance(new.test, ast.Constant):
        way = f"if the lines below {'it' if new.test.value else '`else`'} always ran"
    elif isinstance(site.node, ast.IfExp) and repair.kind == "branch":
        way = f"with `{ast.unparse(new)}` in every case"
    elif repair.kind == "operator" and isinstance(site.node, ast.BinOp):
        sign = ast.unparse(ast.BinOp(ast.Name("a"), site.node.op, ast.Name("b")))[2:-2]
        way = f"with another operator in place of `{sign}` before `{ast.unparse(site.node.right)}`"
    elif repair.clause:
        way = repair.clause.replace(OLD, which_one)
    elif repair.kind == "function" and _is_method(site.node):
        way = f"with another method in place of `.{site.node.attr}`"  # type: ignore[attr-defined]
    elif repair.what:
        way = f"with {repair.what} {which_one}"
    elif isinstance(site.node, ast.Call) and isinstance(new, ast.Call) and new.func is site.node.func:
        given = [*site.node.args, *site.node.keywords]
        left_out = next(a for a in given if not any(a is kept for kept in (*new.args, *new.keywords)))
        way = f"without `{ast.unparse(left_out)}`"
    else:
        way = f"with `{ast.unparse(new)}` in place of {which_one}"
    sentence = f"In {places} (`{text}`): {way}{several}, the answer would pass all that was checked."
    return replace(CHANGES[repair.kind], explanation=f"{sentence} {reason(written.tree, edit)}".rstrip())
