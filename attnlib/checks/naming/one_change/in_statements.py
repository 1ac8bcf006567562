"""Repairs of slips in statements: a missing last step, a branch, a block, a result that nobody keeps."""

import ast
from collections.abc import Iterator
from typing import Any

from attnlib.checks.naming.one_change.repair import IN_PLACE, Repair, expression
from attnlib.checks.naming.one_change.replacements import changed
from attnlib.checks.naming.one_change.sites import Site


def of_value(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """One more step at the end of a statement."""
    node: Any = site.node
    if node.value is None or _makes_a_layer(node.value):
        return

    def with_step(text: str, what: str = "", kind: str = "step", clause: str = "") -> Repair:
        return Repair(changed(node, value=expression(text, x=node.value)), kind, f"{what} in", clause)

    if aspects & {"shape", "failure"}:
        for axis in (-1, -2, 0, 1):
            yield with_step(f"_x.unsqueeze({axis})", "one more axis")
            yield with_step(
                f"_x.squeeze({axis})", kind="squeeze", clause="if the result of this line had one axis fewer"
            )
        for axis in (-1, -2, 0, 1, 2):
            yield with_step(f"_x.sum(dim={axis})", "a sum")
    for one, other in ((-1, -2), (1, 2), (0, 1), (1, -1)):
        yield with_step(
            f"_x.transpose({one}, {other})", kind="addition", clause="if the result of this line were transposed"
        )
    if aspects & {"values"}:
        for text in ("_x ** 0.5", "_x ** 2", "_x.exp()", "-_x", "~_x", "1 - _x", "_x.flip(-1)", "_x.flip(-2)"):
            yield with_step(text, "one more step")
        names = site.scope.names
        for name in names:
            yield with_step(f"{name} + _x", "one more term")
        for layer in site.scope.attributes:
            yield with_step(f"self.{layer}(_x)", "one more layer")
    if aspects & {"dtype"}:
        yield with_step("_x.bool()", kind="dtype", clause="if the result of this line had another dtype")
        for name in site.scope.names[:3]:
            yield with_step(f"_x.to({name}.dtype)", kind="dtype", clause="if the result of this line had another dtype")
    if aspects & {"device"}:
        for name in site.scope.names[:3]:
            yield with_step(
                f"_x.to({name}.device)", kind="addition", clause="if the result of this line were on another device"
            )


def _makes_a_layer(node: ast.AST) -> bool:
    """True for `nn.Linear(…)` and the like: a layer takes no step, and a parameter is none any more after one."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("nn.", "torch.nn."))


def of_condition(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Take one of two branches in every case."""
    node: Any = site.node
    if isinstance(node, ast.IfExp):
        yield Repair(node.body, "branch")
        yield Repair(node.orelse, "branch")
    elif node.orelse:
        yield Repair(changed(node, test=ast.Constant(False)), "branch")


def of_block(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Take a block out of its `with`, and move a `return` that is indented too far."""
    node: Any = site.node
    if isinstance(node, ast.With):
        yield Repair(ast.If(ast.Constant(True), node.body, []), "removal", "its lines outside of")
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        first, *more = node.decorator_list
        clause = f"without {'these decorators' if more else 'this decorator'}"
        yield Repair(changed(node, decorator_list=[]), "removal", clause=clause, at=first)
    for i, statement in enumerate(node.body):
        if isinstance(statement, ast.For) and isinstance(statement.body[-1], ast.Return) and len(statement.body) > 1:
            loop = changed(statement, body=statement.body[:-1])
            body = [*node.body[:i], loop, statement.body[-1], *node.body[i + 1 :]]
            yield Repair(changed(node, body=body), "order", "the `return` after the loop in")
        if i and not isinstance(node, ast.ClassDef):
            body = [*node.body[: i - 1], statement, node.body[i - 1], *node.body[i + 1 :]]
            clause = f"if it changed places with `{ast.unparse(statement).split(chr(10))[0]}`"
            yield Repair(changed(node, body=body), "order", clause=clause, at=node.body[i - 1])


def of_lost_result(site: Site, aspects: set[str]) -> Iterator[Repair]:
    """Keep a result that was thrown away, or make a change in place."""
    node: Any = site.node
    if isinstance(node, ast.AugAssign):
        target = ast.Name(node.target.id, ast.Load()) if isinstance(node.target, ast.Name) else None
        if target is not None:
            new = ast.Assign([node.target], ast.BinOp(target, node.op, node.value))
            yield Repair(new, "in_place", clause=IN_PLACE)
    elif isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        root = node.value.func.value
        if isinstance(root, ast.Name):
            call = changed(node.value, func=changed(node.value.func, attr=node.value.func.attr.removesuffix("_")))
            new = ast.Assign([ast.Name(root.id, ast.Store())], call)
            if node.value.func.attr.endswith("_"):
                yield Repair(new, "in_place", clause=IN_PLACE)
            else:
                yield Repair(new, "addition", f"the result kept (`{root.id} = …`) in")
