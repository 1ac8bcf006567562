"""What may stand in the place of a node of a wrong answer: the mutation operators, and what undoes further slips."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from attnlib.checks.naming.one_change.replacements import RELATED, changed, replacements
from attnlib.checks.naming.one_change.sites import Site


@dataclass(frozen=True)
class Repair:
    """A new node, the kind of the change, and the words that stand before the old node's text."""

    node: ast.AST
    kind: str
    what: str


WORDS = {
    "always": "",
    "branch": "",
    "removal": "",
    "number": "another number in place of",
    "operator": "another operator in",
    "function": "another function in place of",
    "order": "another order in",
    "pattern": "another pattern in place of",
    "condition": "another condition in place of",
    "name": "another variable in place of",
    "in_place": "a new tensor in place of the change in place by",
}

ALTERNATIVES = {
    "relu": "gelu",
    "silu": "gelu",
    "tanh": "gelu",
    "sigmoid": "gelu",
    "elu": "gelu",
    "leaky_relu": "gelu",
    "softplus": "gelu",
    "mish": "gelu",
    "ReLU": "GELU",
    "SiLU": "GELU",
    "Tanh": "GELU",
    "ELU": "GELU",
    "log_softmax": "softmax",
    "softmin": "softmax",
    "median": "mean",
    "logsumexp": "sum",
    "max": "sum",
    "prod": "sum",
    "std": "var",
    "var": "std",
    "stack": "cat",
    "hstack": "cat",
    "triu": "tril",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "floor": "ceil",
    "abs": "square",
    "exp2": "exp",
    "expm1": "exp",
    "log": "exp",
    "cumsum": "sum",
    "rsqrt": "sqrt",
    "sqrt": "rsqrt",
    "BatchNorm1d": "LayerNorm",
    "RMSNorm": "LayerNorm",
    "logical_or": "logical_and",
    "logical_and": "logical_or",
    "repeat": "repeat_interleave",
    "repeat_interleave": "repeat",
    "chunk": "split",
    "expand": "repeat",
    "dot": "matmul",
    "mul": "matmul",
    "view": "reshape",
}
"""What is written, and what was meant; `replacements.RELATED` has more pairs, in both directions."""

TRUTHS = re.compile("mask|real|pad|open|allow|block|keep|kept|seen|valid|hid|past|future|closed|causal")
"""What variables are called that hold True and False."""

REDUCTIONS = ("sum", "mean", "amax", "amin", "max", "var", "std", "norm", "prod", "any", "all", "logsumexp")
NEW_TENSORS = ("zeros", "ones", "empty", "arange", "full", "eye", "tensor", "linspace", "rand", "randn")
SMALL = range(-4, 5)


def repairs(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """The changes of one node; `aspects` are those in which the answer is wrong, and leave some changes out."""
    if isinstance(getattr(site.node, "ctx", None), ast.Store | ast.Del) and not isinstance(site.node, ast.Tuple):
        return  # what is assigned to, or deleted
    for new in replacements(site.node, site.scope):
        kind = _kind(site.node, new)
        yield Repair(new, kind, WORDS[kind])
    for kinds, make in _MORE:
        if isinstance(site.node, kinds):
            yield from make(site, aspects)


def _kind(old: ast.AST, new: ast.AST) -> str:
    """The kind of a change that a mutation operator made."""
    if isinstance(old, ast.UnaryOp) and isinstance(new, ast.Constant):
        return "number"
    if isinstance(old, ast.If):
        if isinstance(new, ast.Pass):
            return "branch"
        return "always" if isinstance(new, ast.If) and isinstance(new.test, ast.Constant) else "condition"
    if isinstance(new, ast.Pass) or any(new is node for node in ast.walk(old)):
        return "removal"
    if isinstance(new, ast.Constant):
        return "pattern" if isinstance(new.value, str) else "number"
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


def _expression(text: str, **parts: Any) -> Any:
    """An expression whose placeholders `_name` are other nodes."""

    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return parts.get(node.id.removeprefix("_"), node) if node.id.startswith("_") else node

    return Filled().visit(ast.parse(text, mode="eval").body)


def _of_number(site: Site, aspects: set[str]) -> Iterator[Repair]:
    value = site.node.value  # type: ignore[attr-defined]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    others: list[Any] = [n for n in SMALL if abs(n - value) > 1] if isinstance(value, int) else []
    others += [0.5, 1.0, 1e-5] if isinstance(value, float) else [0.5]
    for other in others:
        if other != value:
            yield Repair(ast.Constant(other), "number", WORDS["number"])
    if isinstance(value, int) and value > 1:
        for name in site.scope.names:
            yield Repair(ast.Name(name, ast.Load()), "name", "a variable in place of")


def _of_fill(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """The number that is filled in where a mask says so."""
    node: Any = site.node
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if name.removesuffix("_") in ("masked_fill", "where", "full", "full_like", "nan_to_num"):
        for place in range(len(node.args)):
            for text in ("float('-inf')", "0.0"):
                args = [*node.args[:place], _expression(text), *node.args[place + 1 :]]
                yield Repair(changed(node, args=args), "number", "another number in")


def _of_pattern(site: Site, aspects: set[str]) -> Iterator[Repair]:
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
                yield Repair(ast.Constant(text), "pattern", WORDS["pattern"])
        for j in places:
            if i < j and tokens[i] != tokens[j]:
                new = list(tokens)
                new[i], new[j] = new[j], new[i]
                yield Repair(ast.Constant("".join(new)), "pattern", WORDS["pattern"])


def _of_infinity(site: Site, aspects: set[str]) -> Iterator[Repair]:
    if site.node.value == "inf":  # type: ignore[attr-defined]
        yield Repair(ast.Constant("-inf"), "number", WORDS["number"])


def _of_function(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A function's or method's name, and an underscore that makes it work in place."""
    node: Any = site.node
    name = node.attr if isinstance(node, ast.Attribute) else node.id
    others = {ALTERNATIVES[name]} if name in ALTERNATIVES else set()
    others |= {other for other, found in RELATED.items() if name in found}
    for other in sorted(others):
        new = changed(node, attr=other) if isinstance(node, ast.Attribute) else changed(node, id=other)
        yield Repair(new, "function", WORDS["function"])
    alone = isinstance(site.statement, ast.Expr) and getattr(site.statement.value, "func", None) is node
    if isinstance(node, ast.Attribute) and name.endswith("_") and not name.startswith("_") and not alone:
        yield Repair(changed(node, attr=name[:-1]), "in_place", WORDS["in_place"])


def _of_operation(site: Site, aspects: set[str]) -> Iterator[Repair]:
    node: Any = site.node
    for op in (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult):
        if not isinstance(node.op, op):
            yield Repair(changed(node, op=op()), "operator", WORDS["operator"])
    if isinstance(node.op, ast.MatMult):
        for text in ("_a @ _b.mT", "_a.mT @ _b", "_b @ _a.mT", "_b.mT @ _a"):
            new = _expression(text, a=node.left, b=node.right)
            yield Repair(new, "addition", "a transpose in")
        if isinstance(node.right, ast.Attribute | ast.Call) and (layer := _layer_of(node.right)) is not None:
            yield Repair(ast.Call(layer, [node.left], []), "addition", "all of the layer in")


def _layer_of(node: ast.AST) -> ast.expr | None:
    """The `self.w` of `self.w.weight`, with or without a transpose behind it."""
    found = [n.value for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr == "weight"]
    return found[0] if len(found) == 1 else None


def _of_call(site: Site, aspects: set[str]) -> Iterator[Repair]:
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
    if name == "Linear" and "bias" not in given:
        yield with_keyword("bias", False)
    if name in NEW_TENSORS and aspects & {"device", "dtype", "failure"}:
        for other in site.scope.names[:3]:
            if "device" not in given:
                yield with_keyword("device", _expression(f"{other}.device"))
            if "dtype" not in given:
                yield with_keyword("dtype", _expression(f"{other}.dtype"))
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
        moved = _expression(f"_x.transpose({one}, {other})", x=node.func.value)
        func = changed(node.func, value=moved, attr="reshape" if name == "view" else name)
        yield Repair(changed(node, func=func), "addition", "a transpose before the new shape in")
        yield Repair(
            _expression(f"_x.transpose({one}, {other})", x=node), "addition", "a transpose after the new shape in"
        )
    for i in range(len(node.args)):
        for j in range(i + 1, len(node.args)):
            args = list(node.args)
            args[i], args[j] = args[j], args[i]
            moved = _expression(f"_x.transpose({i}, {j})", x=changed(node, args=args))
            yield Repair(moved, "addition", "a transpose in place of the other order in")


def _of_value(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """One more step at the end of a statement."""
    node: Any = site.node
    if node.value is None:
        return

    def with_step(text: str, what: str) -> Repair:
        kind = "addition" if what in ("a transpose", "another dtype", "another device") else "step"
        return Repair(changed(node, value=_expression(text, x=node.value)), kind, f"{what} in")

    if aspects & {"shape", "failure"}:
        for axis in (-1, -2, 0, 1):
            yield with_step(f"_x.unsqueeze({axis})", "one more axis")
            yield with_step(f"_x.squeeze({axis})", "one axis less")
        for axis in (-1, -2, 0, 1, 2):
            yield with_step(f"_x.sum(dim={axis})", "a sum")
    for one, other in ((-1, -2), (1, 2), (0, 1), (1, -1)):
        yield with_step(f"_x.transpose({one}, {other})", "a transpose")
    if aspects & {"values"}:
        for text in ("_x ** 0.5", "_x ** 2", "_x.exp()", "-_x", "~_x", "1 - _x", "_x.flip(-1)", "_x.flip(-2)"):
            yield with_step(text, "one more step")
        names = site.scope.names
        for name in names:
            yield with_step(f"{name} + _x", "one more term")
        for layer in site.scope.attributes:
            yield with_step(f"self.{layer}(_x)", "one more layer")
    if aspects & {"dtype"}:
        yield with_step("_x.bool()", "another dtype")
        for name in site.scope.names[:3]:
            yield with_step(f"_x.to({name}.dtype)", "another dtype")
    if aspects & {"device"}:
        for name in site.scope.names[:3]:
            yield with_step(f"_x.to({name}.device)", "another device")


def _of_argument(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A variable that has not gone through a layer, a mask that is upside down, an input that is changed."""
    node: Any = site.node
    if not isinstance(node.ctx, ast.Load):
        return
    if aspects & {"values", "failure"} and TRUTHS.search(node.id):
        yield Repair(_expression("~_x", x=node), "condition", "a `~` before")
    if aspects & {"mutation"}:
        yield Repair(_expression("_x.clone()", x=node), "addition", "a copy of")
    if aspects & {"failure", "values", "shape"}:
        for text in ("_x.unsqueeze(1)", "_x.unsqueeze(-1)", "_x.mT"):
            yield Repair(_expression(text, x=node), "step", "its axes lined up for")


def _of_condition(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """One of two ways that is taken in every case."""
    node: Any = site.node
    if isinstance(node, ast.IfExp):
        yield Repair(node.body, "branch", "")
        yield Repair(node.orelse, "branch", "")
    elif node.orelse:
        yield Repair(changed(node, test=ast.Constant(False)), "branch", "")


def _of_block(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A block without its `with`, and a `return` that stands too deep."""
    node: Any = site.node
    if isinstance(node, ast.With):
        yield Repair(ast.If(ast.Constant(True), node.body, []), "removal", "its lines outside of")
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield Repair(changed(node, decorator_list=[]), "removal", "no decorator before")
    for i, statement in enumerate(node.body):
        if isinstance(statement, ast.For) and isinstance(statement.body[-1], ast.Return) and len(statement.body) > 1:
            loop = changed(statement, body=statement.body[:-1])
            body = [*node.body[:i], loop, statement.body[-1], *node.body[i + 1 :]]
            yield Repair(changed(node, body=body), "order", "the `return` behind the loop in")
        if i and not isinstance(node, ast.ClassDef):
            body = [*node.body[: i - 1], statement, node.body[i - 1], *node.body[i + 1 :]]
            yield Repair(changed(node, body=body), "order", "another order of its lines in")


def _of_lost_result(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """A result that nobody keeps, and a change in place."""
    node: Any = site.node
    if isinstance(node, ast.AugAssign):
        target = ast.Name(node.target.id, ast.Load()) if isinstance(node.target, ast.Name) else None
        if target is not None:
            new = ast.Assign([node.target], ast.BinOp(target, node.op, node.value))
            yield Repair(new, "in_place", WORDS["in_place"])
    elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        root = node.value.func.value
        if isinstance(root, ast.Name):
            call = changed(node.value, func=changed(node.value.func, attr=node.value.func.attr.removesuffix("_")))
            new = ast.Assign([ast.Name(root.id, ast.Store())], call)
            if node.value.func.attr.endswith("_"):
                yield Repair(new, "in_place", WORDS["in_place"])
            else:
                yield Repair(new, "addition", f"the result kept (`{root.id} = …`) in")


_MORE: tuple[tuple[Any, Callable[[Site, set[str]], Iterator[Repair]]], ...] = (
    (ast.Constant, _of_number),
    (ast.Constant, _of_pattern),
    (ast.Constant, _of_infinity),
    ((ast.Attribute, ast.Name), _of_function),
    (ast.BinOp, _of_operation),
    (ast.Call, _of_call),
    (ast.Call, _of_fill),
    ((ast.Assign, ast.Return), _of_value),
    (ast.Name, _of_argument),
    ((ast.If, ast.IfExp), _of_condition),
    ((ast.FunctionDef, ast.With, ast.For), _of_block),
    ((ast.Expr, ast.AugAssign), _of_lost_result),
)
