"""The mutation operators: what may replace a node of the syntax tree."""

import ast
import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.MatMult: (ast.Mult, ast.Add),
    ast.Pow: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.BitAnd: (ast.BitOr, ast.BitXor),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
RELATED = {
    "sum": ("mean", "amax"),
    "mean": ("sum", "amax"),
    "amax": ("amin", "mean"),
    "tril": ("triu",),
    "triu": ("tril",),
    "cat": ("stack",),
    "any": ("all",),
    "exp": ("exp2", "expm1"),
    "sqrt": ("square",),
    "square": ("abs",),
    "softmax": ("log_softmax", "softmin"),
    "ones": ("zeros",),
    "gelu": ("relu", "silu"),
    "bool": ("int64", "float32"),
    "LayerNorm": ("RMSNorm",),
    "Dropout": ("Identity", "AlphaDropout"),
    "split": ("chunk",),
    "transpose": ("reshape",),
    "ValueError": ("RuntimeError",),
}

TRANSPOSED = ("T", "mT")


@dataclass
class Scope:
    """The names that may be taken for one another: a function's, and those of its object."""

    names: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)

    def of_class(self, node: ast.ClassDef) -> "Scope":
        """The scope inside a class, whose methods share what is assigned to `self`."""
        stores = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
        return Scope([], sorted({n.attr for n in stores}))

    def of_function(self, node: ast.FunctionDef) -> "Scope":
        """The scope inside a function: its parameters, and later what it has assigned."""
        return Scope([a.arg for a in node.args.args if a.arg != "self"], self.attributes)

    def assign(self, node: ast.Assign) -> None:
        """Add what the statement assigns; what is not assigned yet would only be a NameError."""
        stores = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
        self.names += [name for name in stores if name not in self.names]


def replacements(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """The nodes that a slip could have put in the place of this one."""
    for kind, make in _OPERATORS.items():
        if isinstance(node, kind):
            yield from make(node, scope)


def is_error(node: ast.AST) -> bool:
    """True if the node makes an exception, whose wording is left to the author."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error")


def changed(node: ast.AST, **fields: Any) -> Any:
    """A copy of the node with some of its fields set anew."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _swapped(items: list[Any]) -> Iterator[list[Any]]:
    for i, j in combinations(range(len(items)), 2):
        new = list(items)
        new[i], new[j] = new[j], new[i]
        yield new


def _of_operation(node: ast.BinOp, scope: Scope) -> Iterator[ast.AST]:
    for other in OPERATORS.get(type(node.op), ()):
        yield changed(node, op=other())
    yield node.left
    yield node.right
    if not isinstance(node.op, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
        yield changed(node, left=node.right, right=node.left)


def _of_comparison(node: ast.Compare, scope: Scope) -> Iterator[ast.AST]:
    for at, op in enumerate(node.ops):  # `0 <= i < n` has two
        for other in COMPARISONS.get(type(op), ()):
            yield changed(node, ops=[*node.ops[:at], other(), *node.ops[at + 1 :]])


def _of_choice(node: ast.BoolOp, scope: Scope) -> Iterator[ast.AST]:
    if len(node.values) == 2:
        yield from node.values


def _of_sign(node: ast.UnaryOp, scope: Scope) -> Iterator[ast.AST]:
    yield node.operand
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        assert isinstance(node.operand.value, int | float)
        for value in _near(-node.operand.value):
            yield ast.Constant(value)


def _of_constant(node: ast.Constant, scope: Scope) -> Iterator[ast.AST]:
    if isinstance(node.value, str):
        for text in _other_texts(node.value):
            yield ast.Constant(text)
    else:
        for value in _near(node.value):
            yield ast.Constant(value)


def _near(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return value + 1, value - 1
    if isinstance(value, float):
        return (1.0,) if value == 0 else (2 * value, value / 2, -value, 0.0)
    return ()


def _other_texts(text: str) -> Iterator[str]:
    """An einops pattern with two of its axes exchanged, behind the arrow or within one group before it."""
    yield from RELATED.get(text, ())
    if "->" not in text:
        return
    left, right = text.split("->")
    for other in _axes_exchanged(right):
        yield f"{left}->{other}"
    for group in re.findall(r"\([^)]*\)", left):
        for other in _axes_exchanged(group):
            yield f"{left.replace(group, other)}->{right}"


def _axes_exchanged(pattern: str) -> Iterator[str]:
    tokens = re.split(r"(\w+)", pattern)
    places = [i for i, token in enumerate(tokens) if re.fullmatch(r"\w+", token)]
    for i, j in combinations(places, 2):
        new = list(tokens)
        new[i], new[j] = new[j], new[i]
        yield "".join(new)


def _of_call(node: ast.Call, scope: Scope) -> Iterator[ast.AST]:
    if is_error(node):
        return
    for args in _swapped(node.args):
        yield changed(node, args=args)
    for i in range(len(node.args)):
        if len(node.args) + len(node.keywords) > 1 or getattr(node.func, "attr", "") != "to":  # `x.to()` is x itself
            yield changed(node, args=node.args[:i] + node.args[i + 1 :])
    for i in range(len(node.keywords)):
        yield changed(node, keywords=node.keywords[:i] + node.keywords[i + 1 :])
    if node.args and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]
    if isinstance(node.func, ast.Attribute):
        yield node.func.value


def _of_attribute(node: ast.Attribute, scope: Scope) -> Iterator[ast.AST]:
    if isinstance(node.ctx, ast.Load):
        for name in RELATED.get(node.attr, ()):
            yield changed(node, attr=name)
        if node.attr in TRANSPOSED:
            yield node.value
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in scope.attributes:
            for name in scope.attributes:
                yield changed(node, attr=name)


def _of_name(node: ast.Name, scope: Scope) -> Iterator[ast.AST]:
    if isinstance(node.ctx, ast.Load):
        for name in (*scope.names, *RELATED.get(node.id, ())) if node.id in scope.names else RELATED.get(node.id, ()):
            yield changed(node, id=name)


def _of_sequence(node: ast.Tuple | ast.List, scope: Scope) -> Iterator[ast.AST]:
    for elements in _swapped(node.elts):
        yield changed(node, elts=elements)


def _of_subscript(node: ast.Subscript, scope: Scope) -> Iterator[ast.AST]:
    yield node.value


def _of_condition(node: ast.If, scope: Scope) -> Iterator[ast.AST]:
    yield changed(node, test=ast.UnaryOp(ast.Not(), node.test))
    yield changed(node, test=ast.Constant(True))


def _of_statement(node: ast.stmt, scope: Scope) -> Iterator[ast.AST]:
    yield ast.Pass()


_OPERATORS: dict[Any, Callable[[Any, Scope], Iterator[ast.AST]]] = {
    ast.BinOp: _of_operation,
    ast.Compare: _of_comparison,
    ast.BoolOp: _of_choice,
    ast.UnaryOp: _of_sign,
    ast.Constant: _of_constant,
    ast.Call: _of_call,
    ast.Attribute: _of_attribute,
    ast.Name: _of_name,
    (ast.Tuple, ast.List): _of_sequence,
    ast.Subscript: _of_subscript,
    ast.If: _of_condition,
    (ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.Raise, ast.Return): _of_statement,
}
