"""Read single nodes of an attempt's source: the names it reads, the layers it makes, the results it drops."""

import ast
import re
from collections.abc import Collection, Sequence
from typing import Any

from torch import Tensor, nn

KEEPS_NOTHING = (
    *("backward", "add", "remove", "sort", "index_copy", "register_hook", "retain_grad", "share_memory", "item"),
)
"""Methods of tensors that act by themselves, and methods that lists and sets have as well."""
EINOPS = ("einsum", "rearrange", "reduce", "repeat")


def attributes_set(tree: ast.AST) -> set[str]:
    """The attributes that are set on `self`."""
    attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {n.attr for n in attributes if is_self(n.value)}


def layers_of(tree: ast.AST) -> set[str]:
    """The attributes that are set to an object of some class: layers, without those that work in place."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not _given(node.value, "inplace"):
            called = ast.unparse(node.value.func).rpartition(".")[2]
            if called[:1].isupper():
                found |= {t.attr for t in node.targets if isinstance(t, ast.Attribute) and is_self(t.value)}
    return found


def forgotten_layers(method: ast.FunctionDef) -> list[tuple[str, ast.Assign]]:
    """The variables of a constructor that hold a layer of torch.nn, and that it never reads: `self.` is missing."""
    assigned = [n for n in ast.walk(method) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    made = [(n.targets[0], n) for n in assigned if re.match(r"(torch\.)?nn\.[A-Z]", ast.unparse(n.value))]
    read = names_read(method)
    unread = [(t.id, n) for t, n in made if isinstance(t, ast.Name) and t.id not in read]
    return unread if method.name == "__init__" else []


def loops_over(function: ast.FunctionDef, layers: set[str]) -> set[str]:
    """The variables of loops over an attribute that is one of these layers: `for block in self.blocks`."""
    loops = [n for n in ast.walk(function) if isinstance(n, ast.For) and isinstance(n.iter, ast.Attribute)]
    return {n.target.id for n in loops if n.iter.attr in layers and isinstance(n.target, ast.Name)}  # type: ignore[attr-defined]


def is_functional_dropout(node: ast.Call) -> bool:
    """True if it calls one of the functions F.dropout, F.dropout1d, F.alpha_dropout and so on."""
    called = ast.unparse(node.func)
    return re.fullmatch(r"(F|(torch\.)?nn\.functional|functional|torch)\.(\w+_)?dropout\w*", called) is not None


def drops_numbers(node: ast.Call, zeros: Collection[str] = ()) -> bool:
    """True if it makes a dropout layer or calls the function with a probability other than 0.

    `zeros` are the arguments that are 0, since the contract has none of that name and this is their default.
    """
    layer = re.fullmatch(r"((torch\.)?nn\.)?\w*Dropout\d?d?", ast.unparse(node.func)) is not None
    off = [*node.args[:1], *_given(node, "p")] if layer else [*node.args[1:3], *_given(node, "p", "training")]
    never = any(
        not value.value if isinstance(value, ast.Constant) else ast.unparse(value).removeprefix("self.") in zeros
        for value in off
    )
    return (layer or is_functional_dropout(node)) and not never


def _given(node: ast.Call, *names: str) -> list[ast.expr]:
    return [keyword.value for keyword in node.keywords if keyword.arg in names]


def zero_by_default(function: ast.FunctionDef) -> set[str]:
    """The arguments with the default 0, 0.0, False or None."""
    own = function.args
    given = [*zip(own.args[::-1], own.defaults[::-1], strict=False), *zip(own.kwonlyargs, own.kw_defaults, strict=True)]
    return {argument.arg for argument, value in given if isinstance(value, ast.Constant) and not value.value}


def position_of(node: ast.Name) -> tuple[int, int]:
    """Line and column, to sort by."""
    return node.lineno, node.col_offset


def is_self(node: ast.AST) -> bool:
    """True if it is the name `self`."""
    return isinstance(node, ast.Name) and node.id == "self"


def is_of_the_notebook(name: str, value: Any, constants: bool) -> bool:
    """True if it is data: a tensor, a layer, some of them in a list, or a number; one in capitals if `constants`."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(v, Tensor | nn.Module) for v in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return constants or not name.isupper()
    return isinstance(value, Tensor | nn.Module)


def names_called(tree: ast.AST) -> set[str]:
    """The names that are called, as a model is: none of them is a tensor."""
    return {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def lost_by(value: ast.expr, layers: set[str], called: Collection[str] = (), no_tensors: Collection[str] = ()) -> str:
    """Name the result that a statement of this expression throws away; empty if it may do something else as well.

    `layers` are the attributes that hold a layer, `called` the variables that hold one; a method of what is in
    `no_tensors` may change it, as `model.double()` does.
    """
    if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare):
        return f"`{_short(value)}` is"
    if not isinstance(value, ast.Call):
        return ""
    if isinstance(value.func, ast.Name):
        return f"`{value.func.id}(…)` is" if value.func.id in {*EINOPS, *called} else ""
    if not isinstance(value.func, ast.Attribute):
        return ""
    name, owner = value.func.attr, value.func.value
    if _given(value, "out", "inplace") or name.endswith("_") or ast.unparse(owner) in no_tensors:
        return ""
    if is_self(owner):
        return f"`self.{name}(…)` is" if name in layers else ""
    of_torch = ast.unparse(owner) in ("torch", "F", "nn.functional", "torch.nn.functional", "einops")
    known = name in EINOPS or hasattr(nn.functional, name) or hasattr(Tensor, name)
    of_tensor = not of_torch and isinstance(owner, ast.Name | ast.Call | ast.BinOp) and hasattr(Tensor, name)
    if name in KEEPS_NOTHING and not of_torch:
        return ""
    return f"`{_short(value.func)}(…)` is" if (of_torch and known) or of_tensor else ""


def _short(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 40 else f"{text[:39]}…"


def names_read(function: ast.FunctionDef) -> set[str]:
    """The names whose values the function uses."""
    found = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    changed = {
        n.target.id for n in ast.walk(function) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    shared = {name for n in ast.walk(function) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    return found | changed | shared


def names_filled(function: ast.FunctionDef) -> set[str]:
    """The names of lists, dictionaries and sets that the function puts something into."""
    nodes = list(ast.walk(function))
    called = {ast.unparse(n.func).rpartition(".") for n in nodes if isinstance(n, ast.Call)}
    stored = {ast.unparse(n.value) for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)}
    added = {ast.unparse(n.target) for n in nodes if isinstance(n, ast.AugAssign)}
    return {name for name, _, what in called if what in FILLING} | stored | added


FILLING = ("append", "extend", "insert", "update", "setdefault", "add")


def is_unwritten(function: ast.FunctionDef) -> bool:
    """True if the function ends without an answer."""
    return isinstance(function.body[-1], ast.Raise | ast.Pass)


def listed(names: Sequence[str]) -> str:
    """The names as words of a sentence: `a`, `b` and `c`."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))


def idle_calls(tree: ast.AST) -> set[int]:
    """The calls, by their `id`, whose result nobody uses: as a statement, or as an attribute that is not read."""
    statements = [n for n in ast.walk(tree) if isinstance(n, ast.Expr)]
    lost = {id(n) for s in statements for n in ast.walk(s)}
    read = {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in lost
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and all(isinstance(t, ast.Attribute) for t in node.targets):
            lost |= {id(node.value)} if not {t.attr for t in node.targets} & read else set()  # type: ignore[attr-defined]
    return lost


def repeats_an_object(node: ast.AST) -> bool:
    """True for `[…] * n` where an entry is made right there and can be changed: a list, a dictionary, a tensor."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List)):
        return False
    return any(isinstance(entry, ast.List | ast.Dict | ast.Set | ast.Call) for entry in node.left.elts)
