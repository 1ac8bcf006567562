"""An answer whose source shows that it does nothing but compute, for machines that cannot confine a process.

Nothing can be deleted, sent or left behind by code that holds nothing to do it with. So every name that the answer
takes from outside must stand for a number, a function or class of a library that only computes, or a function or class
of the notebook's whose source meets the same rule; and every attribute must be one that tensors, modules and Python's
own containers have, or that the answer gives to its own objects. What it then calls, by whatever name, is one of these.
"""

import ast
import builtins
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.naming.one_change.written import Written, source_of

BUILTINS = {
    *("abs", "all", "any", "bool", "classmethod", "complex", "dict", "divmod", "enumerate", "filter", "float"),
    *("frozenset", "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next"),
    *("object", "pow", "print", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str"),
    *("staticmethod", "sum", "super", "tuple", "zip", "Ellipsis", "NotImplemented"),
    *(name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)),
}
MADE_BY_PYTHON = ("__build_class__", "__import__", "__name__")
"""The names that Python's own statements use: for a class, and for an import that was checked."""
LIBRARIES = (
    "math",
    "einops",
    "itertools",
    "collections",
    "typing",
    "jaxtyping",
    "dataclasses",
    "functools",
    "_functools",
    "attnlib",
)
NOT_IN_LIBRARIES = ("attnlib.checks", "attnlib.plot")
OF_TORCH = (
    *("torch.functional", "torch.nn.functional", "torch.nn.init", "torch.nn.modules", "torch.nn.parameter"),
    *(
        "torch.optim",
        "torch.autograd.grad_mode",
        "torch._C._nn",
        "torch._C._special",
        "torch._C._linalg",
        "torch._C._fft",
    ),
)
KINDS_OF_TORCH = (Tensor, torch.Generator, torch.Size, torch.device, torch.dtype, torch.finfo, torch.iinfo)
LEARNING = (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.Size)
ATTRIBUTES = {
    name
    for kind in (
        *KINDS_OF_TORCH,
        *LEARNING,
        nn.Module,
        nn.ModuleList,
        nn.ModuleDict,
        str,
        list,
        dict,
        tuple,
        set,
        int,
        float,
    )
    for name in dir(kind)
    if not name.startswith("_")
} - {"share_memory", "share_memory_", "storage", "untyped_storage", "data_ptr", "compile", "call_super_init"}
ATTRIBUTES |= {"__init__", "values", "indices", "eps", "weight", "bias", "training"}
ATTRIBUTES |= {"in_features", "out_features", "num_heads", "w_q", "w_k", "w_v", "w_o", "param_groups"}
ATTRIBUTES |= {"embed", "positions", "blocks", "norm1", "attn", "norm2", "mlp", "up", "down", "norm", "head"}


def made_harmless(written: Written) -> Written | None:
    """Return the answer with only the names it uses around it; None if it might do more than compute."""
    reader = _Reader()
    if not reader.reads(written, again=True):
        return None
    known = {name: vars(builtins)[name] for name in (*BUILTINS, *MADE_BY_PYTHON)}
    return replace(written, namespace={"__builtins__": known, "__name__": "__main__", **reader.named})


@dataclass
class _Reader:
    """Reads an answer, and all of the notebook's functions that it leads to."""

    named: dict[str, Any] = field(default_factory=dict)
    """The outside values behind the names that the answer uses."""
    seen: set[int] = field(default_factory=set)
    attributes: set[str] = field(default_factory=lambda: set(ATTRIBUTES))

    def reads(self, written: Written, *, again: bool = False) -> bool:
        """True if it only computes; unless defined `again`, it must also leave nothing behind in the notebook."""
        outside = _outside(written.tree)
        imported = _imported(written.tree)
        names = {name: written.namespace[name] for name in outside if name in written.namespace} | imported
        self.attributes |= _own_attributes(written.tree)
        if again:
            self.named = names
        elif any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(written.tree)):
            return False
        return None not in imported.values() and self._all(written.tree, names, outside | set(imported))

    def _all(self, node: ast.AST, names: dict[str, Any], outside: set[str]) -> bool:
        chain = _chain(node)
        if chain and chain[0] in outside:
            return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and self._stands_for_nothing_bad(chain, names)
        if isinstance(node, ast.Attribute):
            kept = isinstance(node.ctx, ast.Load) or (isinstance(node.value, ast.Name) and node.value.id == "self")
            if not kept or node.attr not in self.attributes:
                return False
        return all(self._all(child, names, outside) for child in ast.iter_child_nodes(node))

    def _stands_for_nothing_bad(self, chain: list[str], names: dict[str, Any]) -> bool:
        """True if the name is harmless, followed through modules (`torch.nn.functional.softmax`), then attributes."""
        first, *rest = chain
        if first not in names:
            return (first in BUILTINS and all(name in self.attributes for name in rest)) or not hasattr(builtins, first)
        value = names[first]
        while isinstance(value, ModuleType):
            if not rest or rest[0] not in vars(value):
                return False
            value, *rest = vars(value)[rest[0]], *rest[1:]
        return self._is_harmless(value) and all(name in self.attributes for name in rest)

    def _is_harmless(self, value: Any) -> bool:
        if isinstance(value, tuple) and type(value) in (tuple, torch.Size):
            return all(map(self._is_harmless, value))
        if type(value) in PLAIN or _is_of_a_library(value):
            return True
        if not isinstance(value, FunctionType | type):
            return False
        if id(value) in self.seen:
            return True
        self.seen.add(id(value))
        written = source_of(value)
        return written is not None and all(map(self._is_harmless, _held(value))) and self.reads(written)


def _held(value: Any) -> Iterator[Any]:
    """Yield what a function or a class of the notebook keeps from one call to the next."""
    if isinstance(value, type):
        methods = (FunctionType, staticmethod, classmethod, property)
        yield from (v for n, v in vars(value).items() if not n.startswith("__") and not isinstance(v, methods))
        yield from (w for v in vars(value).values() if isinstance(v, FunctionType) for w in _held(v))
    else:
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values())


def _is_of_a_library(value: Any) -> bool:
    """True for a function or a class that only computes. A function's own globals tell where it comes from."""
    home = str(value.__globals__.get("__name__") if isinstance(value, FunctionType) else _module_of(value))
    if home == "builtins":
        return getattr(value, "__name__", "") in BUILTINS
    if home == "torch":
        name = getattr(value, "__name__", "")
        computes = getattr(torch._C._VariableFunctions, name, None) is value and name != "from_file"
        return computes or value in (*KINDS_OF_TORCH, torch.is_tensor)
    return _is_in(home, (*LIBRARIES, *OF_TORCH)) and not _is_in(home, NOT_IN_LIBRARIES)


def _module_of(value: Any) -> str:
    """Return the module of a class or compiled function; for an object, its class's, if it is one of annotations."""
    if isinstance(value, type):
        home = str(value.__module__)
        return home if getattr(sys.modules.get(home), value.__name__, None) is value else ""
    if isinstance(value, BuiltinFunctionType):
        return str(value.__module__)
    return str(type(value).__module__) if type(value).__module__ in ("typing", "jaxtyping") else ""


def _is_in(home: str, packages: tuple[str, ...]) -> bool:
    return any(home == package or home.startswith(f"{package}.") for package in packages)


def _chain(node: ast.AST) -> list[str]:
    """The names of `a.b.c`; empty for all else."""
    if isinstance(node, ast.Name):
        return [node.id]
    inner = _chain(node.value) if isinstance(node, ast.Attribute) else []
    return [*inner, node.attr] if inner and isinstance(node, ast.Attribute) else []


def _outside(tree: ast.Module) -> set[str]:
    """The names that the source takes from around it, in any of its functions."""
    whole = symtable.symtable(ast.unparse(tree), "answer", "exec")
    made = {symbol.get_name() for symbol in whole.get_symbols() if symbol.is_assigned()}
    left, found = [whole], set[str]()
    while left:
        table = left.pop()
        left += table.get_children()
        found |= {s.get_name() for s in table.get_symbols() if s.is_global() or (table is whole and s.is_referenced())}
    return found - made


def _imported(tree: ast.Module) -> dict[str, Any]:
    """Return the names bound by imports in functions; None for a module not loaded yet, or of no such library."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or name] = sys.modules.get(name)
        elif isinstance(node, ast.ImportFrom):
            module = sys.modules.get(node.module or "") if node.level == 0 else None
            found |= {alias.asname or alias.name: getattr(module, alias.name, None) for alias in node.names}
    return found


def _own_attributes(tree: ast.Module) -> set[str]:
    """Return the attributes the answer gives its own objects: methods, and what is assigned to `self` or in a class."""
    found = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    for node in (s for c in ast.walk(tree) if isinstance(c, ast.ClassDef) for s in c.body):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id for t in targets if isinstance(t, ast.Name)}
    return found
