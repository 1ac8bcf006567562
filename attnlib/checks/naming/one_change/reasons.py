"""Reasons why a place needs a kind of change: the texts of `repairs.md`, found by the syntax around the place."""

import ast
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from attnlib.checks.naming.one_change.edits import Edit
from attnlib.checks.naming.one_change.in_expressions import TRUTHS
from attnlib.checks.naming.one_change.kinds import CHANGES

SIGNS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "times", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "power"},
    **{ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Invert: "~", ast.Not: "not"},
    **{ast.And: "and", ast.Or: "or", ast.USub: "-", ast.UAdd: "+", ast.Is: "is", ast.IsNot: "is not"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
}


WORDS = ("result kept", "transposed", "one more axis", "one axis fewer", "lined up", "one more term")
"""Words of a change that are names of its place as well."""


@dataclass(frozen=True)
class Reason:
    """A text, and the kinds of change and places it applies to."""

    kinds: frozenset[str]
    places: tuple[str, ...]
    text: str

    def fits(self, kind: str, called: set[str]) -> bool:
        """True if it explains this kind of change at a place with any of these names."""
        return kind in self.kinds and any(fnmatchcase(place, known) for place in called for known in self.places)


def read(markdown: str) -> tuple[Reason, ...]:
    """Read the reasons in a text, in order; ValueError if one names a kind of change that doesn't exist."""
    found = []
    for heading, text in re.findall(r"^### (.*)\n((?:(?!###).*\n)*)", markdown, re.MULTILINE):
        kinds, places = (part.split(", ") for part in heading.split(": "))
        if unknown := {*kinds} - CHANGES.keys():
            raise ValueError(f"repairs.md: required is a kind of change in `### {heading}`, got {', '.join(unknown)}")
        found.append(Reason(frozenset(kinds), tuple(places), " ".join(text.split())))
    return tuple(found)


REASONS = read((pkgutil.get_data(__package__, "repairs.md") or b"").decode())
"""Read once, before a search begins: where the search runs, no file can be read."""


def reason(tree: ast.AST, edit: Edit) -> str:
    """Return the reason why an edit's first place needs its kind of change; empty if `repairs.md` has none."""
    called = {*places(tree, edit)}
    return next((known.text for known in REASONS if known.fits(edit.repair.kind, called)), "")


def places(tree: ast.AST, edit: Edit) -> Iterator[str]:
    """Yield the names of an edit's first place.

    Its node: `relu()` and `.relu()` for a call, `.T`, an operator such as `@`, `index`, `slice`, `new axis`, `tuple`,
    `condition`, `mask` for what is called like one, `without dim of sum()` where an argument is left out. What the node
    is part of: `dim of softmax()`, `argument of range()`, `bound of slice`, `index of shape`, `operand of power`, `- in
    bound of slice`. Last, what is put there: `keepdim of sum()`, `to @`, `arrow` in a pattern of einsum, `result kept`.
    """
    (site, new), parents = edit.places[0], _parents(tree)
    around = list(_around(site.node, parents))
    own = list(_own(site.node, new))
    yield from own
    yield from around
    yield from (f"{name} in {place}" for name in own for place in around)
    yield from (f"{name} in an index" for name in own if _is_in_an_index(site.node, parents))
    yield from _added(site.node, new)
    words = f"{edit.repair.what} {edit.repair.clause}"
    yield from (word for word in WORDS if word in words)


def _parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _name(function: ast.AST) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    name = getattr(function, "id", "")
    return f"Python's {name}" if name in ("max", "min") else name


def _own(node: Any, new: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.Expr | ast.Return) and isinstance(node.value, ast.AST):
        if not isinstance(new, ast.Pass) or _is_one_step(node):
            yield from _own(node.value, new)
    elif isinstance(node, ast.Call):
        yield f"{_name(node.func)}()"
        yield "call"
        if isinstance(node.func, ast.Attribute):
            yield f".{node.func.attr}()"
        if isinstance(new, ast.Call) and new.func is node.func:
            kept = {id(part) for part in (*new.args, *new.keywords)}
            left_out = [key.arg for key in node.keywords if id(key) not in kept]
            texts = [isinstance(getattr(part, "value", None), str) for part in node.args if id(part) not in kept]
            left_out += ["argument" for is_text in texts if not is_text]
            yield from (f"without text of {_name(node.func)}" for is_text in texts if is_text)
            yield from (f"without {argument} of {_name(node.func)}()" for argument in left_out)
    elif isinstance(node, ast.Attribute):
        yield from (f".{node.attr}", f"{node.attr}()")
    elif isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.AugAssign):
        yield SIGNS[type(node.op)]
    elif isinstance(node, ast.Compare):
        others = new.ops if isinstance(new, ast.Compare) else []
        exchanged = (op for op, other in zip(node.ops, others, strict=False) if type(op) is not type(other))
        yield SIGNS.get(type(next(exchanged, node.ops[0])), "in")
    elif isinstance(node, ast.Subscript) and any(
        isinstance(part, ast.Constant) and part.value is None for part in ast.walk(node.slice)
    ):
        yield "new axis"
    elif isinstance(node, ast.Subscript):
        yield "slice" if any(isinstance(part, ast.Slice) for part in ast.walk(node.slice)) else "index"
    elif isinstance(node, ast.Tuple | ast.List):
        yield "tuple"
    elif isinstance(node, ast.If | ast.IfExp):
        yield "condition"
    elif isinstance(node, ast.With | ast.FunctionDef):
        around = [item.context_expr for item in node.items] if isinstance(node, ast.With) else node.decorator_list
        yield from (f"{_name(getattr(one, 'func', one))}()" for one in around)
    elif isinstance(node, ast.Name) and TRUTHS.search(node.id):
        yield "mask"


def _is_one_step(node: Any) -> bool:
    """True if a statement does one thing alone, as `x = x.float()` and `x.mul_(2)` do, so that without it goes that."""
    taken = list(ast.iter_child_nodes(node.value))
    taken += [part for call in taken if isinstance(call, ast.Attribute) for part in ast.iter_child_nodes(call)]
    names = {part.id for part in taken if isinstance(part, ast.Name)}
    targets = {part.id for part in getattr(node, "targets", ()) if isinstance(part, ast.Name)}
    return isinstance(node, ast.Expr) or not names.isdisjoint(targets)


def _around(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[str]:
    """Name what the node is part of, looking through a sign and through a tuple of axes or indices."""
    part, around = node, parents.get(node)
    while isinstance(around, ast.UnaryOp | ast.keyword | ast.Tuple) and part is not getattr(around, "func", None):
        part, around = around, parents.get(around)
    if isinstance(around, ast.Call) and part is not around.func:
        word = part.arg if isinstance(part, ast.keyword) else "argument"
        yield f"{word} of {_name(around.func)}()"
    elif isinstance(around, ast.Slice):
        yield "bound of slice"
    elif isinstance(around, ast.Subscript) and part is around.slice:
        yield "index of shape" if _name(around.value) == "shape" else "index"
    elif isinstance(around, ast.Attribute):
        yield f"index of {around.attr}" if around.attr == "shape" else f"argument of {around.attr}()"
    elif isinstance(around, ast.BinOp) and not (isinstance(around.op, ast.Pow) and part is around.left):
        yield f"operand of {SIGNS[type(around.op)]}"
    elif isinstance(around, ast.If | ast.IfExp) and part is around.test:
        yield "condition"


def _is_in_an_index(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """True if the node helps to compute an index or a bound of a slice, with nothing but operators on the way."""
    part, around = node, parents.get(node)
    while isinstance(around, ast.BinOp | ast.UnaryOp | ast.Tuple | ast.Slice):
        part, around = around, parents.get(around)
    return isinstance(around, ast.Subscript) and part is around.slice


def _added(node: ast.AST, new: ast.AST) -> Iterator[str]:
    """The argument that the new node has and the old one has not; the dtype or device it is brought to."""
    known = {ast.dump(part) for part in ast.walk(node)}
    if isinstance(new, ast.BinOp) and isinstance(node, ast.BinOp):
        yield from (f"to {SIGNS[type(new.op)]}", f"{SIGNS[type(node.op)]} to {SIGNS[type(new.op)]}")
    if isinstance(new, ast.Constant) and "->" in str(new.value):
        yield "arrow"
    for part in ast.walk(new):
        if isinstance(part, ast.keyword) and isinstance(new, ast.Call) and ast.dump(part) not in known:
            yield f"{part.arg} of {_name(new.func)}()"
        elif isinstance(part, ast.Attribute) and part.attr in ("dtype", "device") and ast.dump(part) not in known:
            yield f"{part.attr} of {ast.unparse(part.value)}"
