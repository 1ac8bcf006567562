"""Repairs of slips in expressions: numbers, patterns, functions, operators, calls, names."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from attnlib.checks.naming.one_change.repair import (
    IN_PLACE,
    OLD,
    PIECES,
    REORDERED,
    WORDS,
    Repair,
    expression,
    reworded,
)
from attnlib.checks.naming.one_change.replacements import RELATED, changed
from attnlib.checks.naming.one_change.sites import Site

MEANT = {
    "gelu": ("relu", "silu", "tanh", "sigmoid", "elu", "leaky_relu", "softplus", "mish"),
    "GELU": ("ReLU", "SiLU", "Tanh", "ELU"),
    "softmax": ("log_softmax", "softmin"),
    "mean": ("median",),
    "sum": ("logsumexp", "max", "prod", "cumsum"),
    "var": ("std",),
    "std": ("var",),
    "cat": ("stack", "hstack"),
    "tril": ("triu",),
    "ones": ("zeros",),
    "ones_like": ("zeros_like",),
    "zeros": ("ones", "empty", "rand", "randn"),
    "zeros_like": ("ones_like", "empty_like", "rand_like", "randn_like"),
    "new_zeros": ("new_ones", "new_empty"),
    "relu": ("abs",),
    "ceil": ("floor",),
    "square": ("abs",),
    "exp": ("exp2", "expm1", "log"),
    "sqrt": ("rsqrt",),
    "rsqrt": ("sqrt",),
    "LayerNorm": ("BatchNorm1d", "RMSNorm"),
    "logical_and": ("logical_or",),
    "logical_or": ("logical_and",),
    "repeat_interleave": ("repeat",),
    "repeat": ("repeat_interleave", "expand"),
    "split": ("chunk",),
    "matmul": ("dot", "mul"),
    "reshape": ("view",),
}
"""For each function, those written by mistake for it; `replacements.RELATED` has more, in both directions."""

TRUTHS = re.compile("mask|real|pad|open|allow|block|keep|kept|seen|valid|hid|past|future|closed|causal")
"""Names of variables that hold True and False."""

REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "var", "std", "norm", "prod", "any", "all", "logsumexp")
JOINS = ("cat", "stack", "split", "chunk")
"""Functions whose axis is 0 unless `dim` says otherwise."""
NEW_TENSORS = ("zeros", "ones", "empty", "arange", "full", "eye", "tensor", "linspace", "rand", "randn")
SMALL = range(-4, 5)


def of_number(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Another small number, a fraction, or a variable."""
    value = site.node.value  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    others: list[Any] = [n for n in SMALL if abs(n - value) > 1] if isinstance(value, int) else []
    if isinstance(getattr(site.parent, "op", None), ast.Mult):  # a slice from `-1 * n` fits by chance
        others = [n for n in others if n >= 0 or n == -value]
    others += [0.5, 1.0, 1e-5] if isinstance(value, float) else [0.5]
    for other in others:
        if other != value:
            yield reworded(ast.Constant(other), "number")
    if isinstance(value, int) and value > 1:
        for name in site.scope.names:
            yield Repair(ast.Name(name, ast.Load()), "variable", "a variable in place of")


def of_fill(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """The number that is filled in where a mask says so."""
    node: Any = site.node
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name.removesuffix("_") in ("masked_fill", "where", "full", "full_like", "nan_to_num"):
        for place in range(len(node.args)):
            for text in ("float('-inf')", "0.0"):
                args = [*node.args[:place], expression(text), *node.args[place + 1 :]]
                yield Repair(changed(node, args=args), "number", "another number in")


def of_pattern(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """An einsum or einops pattern with one axis for another, or two of them exchanged."""
    value = site.node.value  # type: ignore[attr-defined]
    if not isinstance(value, str) or "->" not in value:
        return
    spaced = " " in value.split("->")[1].strip() or bool(re.search(r"\w+ \w+", value))
    tokens = re.split(r"(\w+)" if spaced else r"(\w)", value)
    places = range(1, len(tokens), 2)
    axes = sorted({tokens[i] for i in places})
    for i in places:
        for axis in (*axes, ""):
            if axis != tokens[i]:
                text = "".join([*tokens[:i], axis, *tokens[i + 1 :]])
                yield reworded(ast.Constant(text), "pattern")
        for j in places:
            if i < j and tokens[i] != tokens[j]:
                new = list(tokens)
                new[i], new[j] = new[j], new[i]
                yield reworded(ast.Constant("".join(new)), "pattern")


def of_infinity(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Minus infinity, where a text says which one."""
    if site.node.value == "inf":  # type: ignore[attr-defined]
        yield reworded(ast.Constant("-inf"), "number")


def of_function(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A function's or method's name, and an underscore that makes it work in place."""
    node: Any = site.node
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    others = {meant for table in (MEANT, RELATED) for meant, written in table.items() if name in written}
    for other in sorted(others):
        new = changed(node, attr=other) if isinstance(node, ast.Attribute) else changed(node, id=other)
        yield Repair(new, "function", WORDS["function"], clause=PIECES if name == "chunk" else "")
    alone = isinstance(site.statement, ast.Expr) and getattr(site.statement.value, "func", None) is node
    if isinstance(node, ast.Attribute) and name.endswith("_") and not name.startswith("_") and not alone:
        yield Repair(changed(node, attr=name[:-1]), "in_place", clause=IN_PLACE)


def of_operation(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Another operator; a transpose in a matrix product; a layer in place of its weight."""
    node: Any = site.node
    for op in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.MatMult):
        if not isinstance(node.op, op):
            yield reworded(changed(node, op=op()), "operator")
    if isinstance(node.op, ast.MatMult):
        for text in ("_a @ _b.mT", "_a.mT @ _b", "_b @ _a.mT", "_b.mT @ _a"):
            new = expression(text, a=node.left, b=node.right)
            yield Repair(new, "addition", "a transpose in")
        if isinstance(node.right, ast.Attribute | ast.Call) and (layer := _layer_of(node.right)) is not None:
            yield Repair(ast.Call(layer, [node.left], []), "addition", "all of the layer in")


def _layer_of(node: ast.AST) -> ast.expr | None:
    """The `self.w` of `self.w.weight`, with or without a transpose behind it."""
    found = [n.value for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "weight"]
    return found[0] if len(found) == 1 else None


def reduces(node: ast.AST) -> bool:
    """True for a reduction with `dim=`."""
    named = getattr(getattr(node, "func", None), "attr", "") in REDUCTIONS
    return named and any(keyword.arg == "dim" for keyword in getattr(node, "keywords", ()))


def of_call(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """An argument that is missing, and a new shape that needs a transpose."""
    node: Any = site.node
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = {k.arg for k in node.keywords}

    def with_keyword(key: str, value: Any) -> Repair:
        given_as = value if isinstance(value, ast.expr) else ast.Constant(value)
        return Repair(changed(node, keywords=[*node.keywords, ast.keyword(key, given_as)]), "addition", f"{key}=… in")

    if name in REDUCTIONS:
        if "keepdim" not in given:
            yield with_keyword("keepdim", True)
        if "dim" not in given:
            for axis in (-1, -2):
                yield with_keyword("dim", axis)
        if name in ("var", "std"):
            yield with_keyword("correction", 0)
    if name in JOINS and "dim" not in given:
        for axis in (-1, 1):
            yield with_keyword("dim", axis)
    if name == "Linear" and "bias" not in given:
        yield with_keyword("bias", False)
    if name in NEW_TENSORS and aspects & {"device", "dtype", "failure"}:
        for other in site.scope.names[:3]:
            if "device" not in given:
                yield with_keyword("device", expression(f"{other}.device"))
            if "dtype" not in given:
                yield with_keyword("dtype", expression(f"{other}.dtype"))
    if name in ("view", "reshape", "flatten", "rearrange"):
        yield from _of_reshape(node, name)


def _of_reshape(node: Any, name: str) -> Iterator[Repair]:
    """Axes that have to change places before or after the numbers are put in another shape."""
    method = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id in ("torch", "einops")
    )
    if not method:
        return
    for one, other in ((1, 2), (-1, -2), (0, 1)):
        moved = expression(f"_x.transpose({one}, {other})", x=node.func.value)
        func = changed(node.func, value=moved, attr="reshape" if name == "view" else name)
        yield Repair(changed(node, func=func), "addition", "a transpose before the new shape in")
        yield Repair(
            expression(f"_x.transpose({one}, {other})", x=node), "addition", "a transpose after the new shape in"
        )
    for i in range(len(node.args)):
        for j in range(i + 1, len(node.args)):
            args = list(node.args)
            args[i], args[j] = args[j], args[i]
            moved = expression(f"_x.transpose({i}, {j})", x=changed(node, args=args))
            yield Repair(moved, "addition", clause=REORDERED)


def of_argument(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A variable that has not gone through a layer, a mask that is upside down, an input that is changed."""
    node: Any = site.node
    if not isinstance(node.ctx, ast.Load):
        return
    if aspects & {"values", "failure"} and TRUTHS.search(node.id):
        yield Repair(expression("~_x", x=node), "condition", "a `~` before")
    if aspects & {"mutation"}:
        yield Repair(expression("_x.clone()", x=node), "addition", "a copy in place of")
    if aspects & {"failure", "values", "shape"}:
        if _is_measured(site):
            yield Repair(expression("_x.mT", x=node), "axis", "another axis of")
            return
        written = isinstance(getattr(site.parent, "ctx", None), ast.Store)
        if not written and not isinstance(site.parent, ast.For | ast.comprehension):  # neither lines anything up
            for text in ("_x.unsqueeze(1)", "_x.unsqueeze(-1)"):
                yield Repair(expression(text, x=node), "step", clause=f"if the axes of {OLD} were lined up")
        yield Repair(expression("_x.mT", x=node), "step", clause=f"if {OLD} were transposed")


def _is_measured(site: Site) -> bool:
    """True if only its length or shape is used."""
    called = getattr(site.parent, "func", None)
    return (isinstance(called, ast.Name) and called.id == "len") or getattr(site.parent, "attr", "") in (
        "shape",
        "size",
    )
