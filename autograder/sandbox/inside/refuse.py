"""Refuse what an exercise forbids where no code of the process can undo it: in torch's dispatcher, and in Python's C.

torch's own operators raise under every name that they have in Python. Compiled code can be loaded only from packages
that the course needs. The rest of other libraries is written in Python, and a student could as well copy it.
"""

import contextlib
import ctypes
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NoReturn

import torch

from .failure import ContractBroken
from .ready_made import EINSUM, ELSEWHERE, FAMILIES, Elsewhere, operator_called, operators

KEYS = (
    "CPU",
    "Meta",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "SparseCPU",
    "SparseCsrCPU",
    "MkldnnCPU",
    "QuantizedCPU",
    "NestedTensorCPU",
)
"""The dispatch keys under which an operator may have a kernel that runs here."""

KEEP_FOR_EVER = ctypes.pythonapi.Py_IncRef
KEEP_FOR_EVER.argtypes, KEEP_FOR_EVER.restype = [ctypes.py_object], None

PAST_THE_DISPATCHER = (
    "_dispatch_get_computed_kernel_for_dispatch_key",  # a kernel that a student holds could not be refused
    *("_te", "_jit_set_texpr_fuser_enabled", "_jit_override_can_fuse_on_cpu", "_jit_set_te_must_use_llvm_cpu"),
    *("StaticModule", "_jit_to_static_module", "_fuse_to_static_module", "_jit_pass_fuse_tensorexprs"),
    "_aoti",  # loads compiled files, as ctypes does
)
"""Names in torch._C that compute operators without the dispatcher, as TorchScript's compilers do, or turn such on."""


def _emptied(thing: Any) -> None:
    """Delete all that a module or a class has: a class without a name can still be found, as a subclass of another."""
    for name, value in list(vars(thing).items()):
        if isinstance(value, type):
            _emptied(value)
        elif not name.startswith("__") or name == "__init__":
            with contextlib.suppress(AttributeError, TypeError):
                delattr(thing, name)


torch._C._jit_set_texpr_fuser_enabled(False)
for name in PAST_THE_DISPATCHER:
    if isinstance(past := getattr(torch._C, name, None), type | ModuleType):
        _emptied(past)
    else:
        vars(torch._C).pop(name, None)

for family in FAMILIES:  # in the template, so that no child has to look for them
    operators(family)


OF_PYTHON = "lib-dynload"  # the folder of Python's own compiled modules


def _needed() -> tuple[str, ...]:
    """Return where compiled modules may be loaded from: Python's own folder, and the packages that the course uses."""
    places: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            package = getattr(sys.modules.get(name.partition(".")[0]), "__path__", None)
            folders = package or [folder for folder in (os.path.dirname(file),) if folder.endswith(OF_PYTHON)]
            places |= {os.path.join(folder, "") for folder in folders} or {file}
    return tuple(sorted(places))


NEEDED = _needed()  # of the template, which has imported what the course uses and nothing else

GUARD = f"""
def guard(event, given):
    if event == "import" and given[1] is not None:
        if "".__class__.__contains__(given[1], "/..") or not "".__class__.startswith(given[1], {NEEDED!r}):
            raise ModuleNotFoundError("a compiled library that this exercise asks you to do without")
    elif event in ("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function"):
        raise OSError("ctypes is not available in this exercise")
    elif event in ("_thread.start_new_thread", "_thread.start_joinable_thread"):
        raise RuntimeError("a thread of its own, which this exercise asks you to do without")
    elif event == "object.__setattr__" and given[1] == "__code__":
        raise TypeError("the code of a function cannot be exchanged in this exercise")
    elif event == "cpython.PyInterpreterState_New":
        raise RuntimeError("there is one interpreter in this exercise")
"""
"""An audit hook, which Python never removes. It compares with constants in its code, which nobody can rebind."""


def _einsum_of_torch(equation: Any, *operands: Any, **_how: Any) -> Any:
    """NumPy's einsum, computed by torch's: an operator can be refused, and a compiled function of NumPy's can't."""
    return torch.einsum(equation, *map(torch.as_tensor, operands)).numpy()


class Refusal:
    """Refuses what one exercise forbids: other libraries from now on, torch's operators once the cells have run.

    A student's cells may compare their answer with torch's own.
    """

    def __init__(self, forbidden: Iterable[str], *, data: bool = False) -> None:
        """Begin with the libraries; those already imported stay only if `data` says they are for their data sets."""
        forbidden = tuple(forbidden)
        self.wanted = {operator for name in forbidden if name in FAMILIES for operator in operators(name)}
        if EINSUM in forbidden:
            for name in [name for name in sys.modules if name.startswith("numpy.")]:
                if "c_einsum" in vars(sys.modules[name]):
                    vars(sys.modules[name])["c_einsum"] = _einsum_of_torch
        if self.wanted:
            if not data and not sys.modules.keys().isdisjoint(ELSEWHERE):  # each name read is a page copied
                for name in [name for name in sys.modules if name.partition(".")[0] in ELSEWHERE]:
                    del sys.modules[name]
            sys.meta_path.insert(0, Elsewhere())
            names: dict[str, Any] = {}
            exec(GUARD, names)
            sys.addaudithook(names.pop("guard"))

    def begin(self) -> None:
        """Replace each operator's kernels by one that raises, for as long as this process lives.

        An operator raises then, whether called as torch.softmax, torch.ops.aten._softmax or TorchScript.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for operator in sorted(self.wanted):
                for key in KEYS:
                    if torch._C._dispatch_has_kernel_for_dispatch_key(operator, key):
                        _refuse(operator, key)


def _refuse(operator: str, key: str) -> None:
    """Register the kernel by a library that is never freed, and that no Python code can find to destroy it."""
    namespace, _, name = operator.partition("::")
    library = torch._C._dispatch_library("IMPL", namespace, key, __file__, 0)
    library.impl(name, key, _refusing(operator_called(operator)))
    KEEP_FOR_EVER(library)


def _refusing(name: str) -> Any:
    def refuse(*arguments: Any, **more: Any) -> NoReturn:
        raise ContractBroken("forbidden", f"calls {name}, which this exercise asks you to do without")

    return refuse
