"""Explain why a loop doesn't end, from the lines that were running when time ran out; nothing is run for it."""

import ast
import linecache
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from .installed import LIBRARIES

Loop = ast.While | ast.For
SIDES: dict[type[ast.cmpop], int] = {ast.Lt: 1, ast.LtE: 1, ast.Gt: -1, ast.GtE: -1}
"""A comparison, and whether its left side has to grow for it to become false."""
PURE = {
    *("abs", "all", "any", "bool", "float", "int", "isinstance", "len", "list", "max", "min", "range", "round", "sum"),
    *(
        "str",
        "tuple",
        "zip",
        "item",
        "mean",
        "norm",
        "numel",
        "size",
        "dim",
        "amax",
        "amin",
        "dist",
        "allclose",
        "sqrt",
    ),
}
"""Functions and methods that change nothing."""
GROWING = ("append", "extend", "insert", "add", "update", "setdefault")
WITHOUT_END = ("count", "cycle", "repeat", "iter")
MOST_FRAMES = 20
CATCHES = (ast.Try, ast.With, ast.Await)
OPERATORS = (ast.cmpop, ast.boolop, ast.operator, ast.unaryop)
SIMPLE = (ast.Name, ast.expr_context, ast.Constant, ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, *OPERATORS)


def endless(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return the loop among these frames that doesn't end, and the reason; empty if either is unknown."""
    sure: list[str] = []
    unsure: list[str] = []
    for frame in reversed(frames[-MOST_FRAMES:]):
        try:
            tree = ast.parse("".join(linecache.getlines(frame.filename)))
            for loop, before in _loops_around(tree, frame.lineno or 0):
                where = f"Line {loop.lineno} (`{linecache.getline(frame.filename, loop.lineno).strip()}`)"
                if reason := _reason(loop, before):
                    sure.append(f"{where}: {reason}.")
                elif isinstance(loop, ast.While):
                    unsure.append(
                        f"{where} was still running. Follow its condition by hand, from one round to the next."
                    )
        except (SyntaxError, ValueError, RecursionError):
            continue  # a cell with magics, or a sum of some hundred terms
    return next(iter((*sure, *unsure)), "")


def surely_endless(frames: Sequence[FrameType]) -> bool:
    """Return True if a `while` among these frames, the innermost first, goes on unless an error ends the attempt.

    Nothing in it leaves it, nothing around it catches an error, and its condition compares numbers that stay.
    """
    found, trees = False, dict[str, ast.Module]()
    try:
        for frame in [f for f in frames if not any(part in f.f_code.co_filename for part in LIBRARIES)][:MOST_FRAMES]:
            path, line = frame.f_code.co_filename, frame.f_lineno or 0
            if path not in trees:
                trees[path] = ast.parse("".join(linecache.getlines(path)))
            if any(isinstance(n, CATCHES) and _is_at(n, line) for n in ast.walk(trees[path])):
                return False
            found = found or any(_goes_on(loop, frame, trees[path]) for loop, _ in _loops_around(trees[path], line))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return found


def _goes_on(loop: Loop, frame: FrameType, tree: ast.Module) -> bool:
    inside = list(_inside(loop))
    if isinstance(loop, ast.For) or any(isinstance(n, CATCHES) for n in inside) or list(_ways_out(loop, None)):
        return False
    if isinstance(loop.test, ast.Constant):
        return bool(loop.test.value)
    changed = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)}
    changed |= {name for n in ast.walk(tree) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    is_own = frame.f_locals is not frame.f_globals or not any(isinstance(n, ast.Call) for n in inside)
    numbers = {name for name, value in frame.f_locals.items() if type(value) in (bool, int, float)}
    is_simple = all(isinstance(n, SIMPLE) for n in ast.walk(loop.test))
    return is_simple and is_own and _names(loop.test) <= numbers - changed


def _is_at(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", 0) or 0)


def _loops_around(tree: ast.Module, line: int) -> Iterator[tuple[Loop, list[ast.stmt]]]:
    """The loops of the innermost function around a line, inner ones first, each with the statements before it."""
    around = [n for n in ast.walk(tree) if _is_at(n, line)]
    functions = [n for n in around if isinstance(n, ast.FunctionDef)]
    inner = max(functions, key=lambda n: n.lineno) if functions else tree
    within = list(ast.walk(inner))
    for loop in sorted((n for n in around if isinstance(n, Loop) and n in within), key=lambda n: -n.lineno):
        yield loop, [n for n in within if isinstance(n, ast.stmt) and n.lineno < loop.lineno]


def _reason(loop: Loop, before: list[ast.stmt]) -> str:
    if isinstance(loop, ast.For):
        name = ast.unparse(loop.iter)
        calls = [n.func for n in _inside(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        if any(call.attr in GROWING and ast.unparse(call.value) == name for call in calls):
            return f"the loop goes through `{name}`, and each round makes it longer"
        without_end = isinstance(loop.iter, ast.Call) and _called(loop.iter) in WITHOUT_END
        always, said = without_end, f"`{name}` has no end"
    else:
        always, said = isinstance(loop.test, ast.Constant) and bool(loop.test.value), ""
        if not always:
            return _stays(loop, loop.test, before)
    ways = list(_ways_out(loop, None)) if always else []
    if always and not ways:
        return f"{f'{said}, and there' if said else 'there'} is no `break` or `return` in it"
    reasons = [_never_comes(loop, guard) for guard in ways]
    return reasons[0] if reasons and all(reasons) else ""


def _stays(loop: Loop, test: ast.expr, before: list[ast.stmt]) -> str:
    """Explain why the condition of a `while` stays true."""
    asked, names = ast.unparse(test), _names(test)
    if not names & _changed(loop, test):
        return "" if _may_vary(test) else f"{_nothing_changes(names)} so `{asked}` stays true"
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1):
        return ""
    left, right, op = test.left, test.comparators[0], type(test.ops[0])
    for side, other, sign in ((left, right, 1), (right, left, -1)):
        if isinstance(side, ast.Name) and not _names(other) & _changed(loop, test):
            return _of_counter(loop, side.id, asked, sign * SIDES.get(op, 0), op, before)
    return ""


def _of_counter(loop: Loop, name: str, asked: str, way: int, op: type[ast.cmpop], before: list[ast.stmt]) -> str:
    """Explain why a number that changes in each round doesn't end its loop; `way` is the direction it should go."""
    stores = [n for n in _inside(loop) if isinstance(n, ast.Assign | ast.AugAssign) and _binds(n, name)]
    steps = [_step(n, name) for n in stores]
    for store in stores:
        if store in loop.body and isinstance(store, ast.Assign) and isinstance(store.value, ast.Constant):
            return f"each round sets `{name}` to {ast.unparse(store.value)} again in line {store.lineno}"
    skipping = [n.lineno for n in _inside(loop, own=True) if isinstance(n, ast.Continue)]
    if skipping and all(store.lineno > min(skipping) for store in stores):
        return f"`continue` in line {min(skipping)} begins the next round before `{name}` is changed"
    if steps and None not in steps:
        sizes = [step for step in steps if step is not None]
        if way and all(step * way <= 0 for step in sizes):
            how = "larger" if way > 0 else "smaller"
            now = "never changes" if not any(sizes) else f"becomes {'smaller' if way > 0 else 'larger'} in each round"
            return f"`{name}` {now}, and `{asked}` ends only once it is {how}"
        if op is ast.NotEq and any(abs(step) != 1 for step in sizes):
            return (
                f"`{name}` changes by {abs(sizes[0])} in each round, and may step over the number that ends `{asked}`"
            )
    begins = [n.value for n in before if isinstance(n, ast.Assign) and _binds(n, name)]
    scaled = all(isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Mult | ast.FloorDiv) for n in stores)
    if scaled and begins and isinstance(begins[-1], ast.Constant) and begins[-1].value == 0:
        return f"`{name}` starts at 0, and 0 times or divided by any number is still 0"
    if scaled and asked == f"{name} >= 0":
        return f"`{name}` reaches 0 and stays there, so `{asked}` stays true"
    return ""


def _never_comes(loop: Loop, guard: ast.expr | None) -> str:
    """Explain why a `break` or a `return` is never reached."""
    if guard is None or _may_vary(guard) or _names(guard) & _changed(loop, guard):
        return ""
    return f"{_nothing_changes(_names(guard))} so the condition for leaving it, `{ast.unparse(guard)}`, never changes"


def _nothing_changes(names: set[str]) -> str:
    listed = " or ".join(f"`{name}`" for name in sorted(names))
    return f"nothing in the loop changes {listed}," if names else "there is nothing in it that could change,"


def _ways_out(node: ast.AST, guard: ast.expr | None, inner: bool = False) -> Iterator[ast.expr | None]:
    """The conditions that end a loop; None for one that isn't tested here, or that others decide on."""
    for field, value in ast.iter_fields(node):
        asked = node.test if isinstance(node, ast.If) and field != "test" else guard
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Return | ast.Raise) or (isinstance(child, ast.Break) and not inner):
                yield asked
            elif isinstance(child, ast.Yield | ast.YieldFrom | ast.Try):
                yield None
            elif isinstance(child, ast.AST) and not isinstance(child, ast.FunctionDef | ast.Lambda):
                yield from _ways_out(child, asked, inner or isinstance(child, Loop))


def _inside(loop: Loop, *, own: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes in a loop's body; with `own`, leave out the bodies of loops inside it."""
    left: list[ast.AST] = list(loop.body)
    while left:
        node = left.pop()
        yield node
        if not (own and isinstance(node, Loop)):
            left += ast.iter_child_nodes(node)


def _names(node: ast.AST) -> set[str]:
    """The variables in an expression, without the functions that it calls."""
    called = {id(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and id(n) not in called}


def _changed(loop: Loop, asked: ast.expr) -> set[str]:
    """The variables that a round may change.

    A variable that is compared directly is a number, and no function can change one that it gets; nor can it change
    the shape of a tensor, but by an operation in place.
    """
    sides = [asked.left, *asked.comparators] if isinstance(asked, ast.Compare) else []
    numbers = {n.id for n in sides if isinstance(n, ast.Name)} | {shaped for n in sides if (shaped := _shaped(n))}
    found: set[str] = set()
    for node in [*_inside(loop), *ast.walk(asked)]:
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(_root(node))
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found |= set(node.names)
        elif isinstance(node, ast.Call) and _called(node) not in PURE:
            touched = {_root(node.func)} if isinstance(node.func, ast.Attribute) else set()
            touched |= {name for given in (*node.args, *node.keywords) for name in _names(given)}
            in_place = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
            found |= touched if in_place else touched - numbers
    return found


def _shaped(node: ast.expr) -> str:
    """The variable whose shape, or one length of it, this is; empty for all else."""
    node = node.value if isinstance(node, ast.Subscript) else node
    is_shape = isinstance(node, ast.Attribute) and node.attr == "shape" and isinstance(node.value, ast.Name)
    return _root(node) if is_shape else ""


def _may_vary(asked: ast.expr) -> bool:
    """True if it calls something that may answer differently each time."""
    return any(_called(n) not in PURE for n in ast.walk(asked) if isinstance(n, ast.Call))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", "")


def _binds(node: ast.Assign | ast.AugAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)


def _step(node: ast.Assign | ast.AugAssign, name: str) -> float | None:
    """Return how much a statement adds to a number; None if it does anything else to it."""
    if isinstance(node, ast.AugAssign):
        op, by = node.op, node.value
    elif isinstance(node.value, ast.BinOp) and ast.unparse(node.value.left) == name:
        op, by = node.value.op, node.value.right
    elif isinstance(node.value, ast.BinOp) and ast.unparse(node.value.right) == name:
        op, by = node.value.op, node.value.left
        if not isinstance(op, ast.Add):
            return None
    else:
        return 0 if ast.unparse(node.value) == name else None
    sign = -1 if isinstance(by, ast.UnaryOp) and isinstance(by.op, ast.USub) else 1
    by = by.operand if isinstance(by, ast.UnaryOp) else by
    if not (isinstance(by, ast.Constant) and isinstance(by.value, int | float)):
        return None
    return sign * by.value if isinstance(op, ast.Add) else -sign * by.value if isinstance(op, ast.Sub) else None
