"""What an exercise forbids, refused where no code of the process can undo it: in torch's dispatcher, and in Python's C.

torch's own operators raise beneath every name that they have in Python. Compiled code of other packages than the course
needs cannot be loaded. What is left of libraries is written in Python, and as good as copied from there.
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
from .ready_made import ELSEWHERE, FAMILIES, Elsewhere, operator_called, operators

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
"""Where an operator may have a kernel that runs here."""

KEEP_FOR_EVER = ctypes.pythonapi.Py_IncRef
KEEP_FOR_EVER.argtypes, KEEP_FOR_EVER.restype = [ctypes.py_object], None

PAST_THE_DISPATCHER = (
    "_dispatch_get_computed_kernel_for_dispatch_key",  # a kernel that is held is never refused
    *("_te", "_jit_set_texpr_fuser_enabled", "_jit_override_can_fuse_on_cpu", "_jit_set_te_must_use_llvm_cpu"),
    *("StaticModule", "_jit_to_static_module", "_fuse_to_static_module", "_jit_pass_fuse_tensorexprs"),
    "_aoti",  # loads compiled files, as ctypes does
)
"""What computes an operator without asking the dispatcher, such as TorchScript's compilers, and what turns it on."""


def _emptied(thing: Any) -> None:
    """Take all that a module or a class has: a class itself is found among others, whoever has no name for it."""
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

for family in FAMILIES:  # in the warm process: no child has to look for them
    operators(family)


OF_PYTHON = "lib-dynload"  # the folder of Python's own compiled modules


def _needed() -> tuple[str, ...]:
    """Where the compiled modules lie that may be loaded: Python's own, and those of packages that the course uses."""
    places: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            package = getattr(sys.modules.get(name.partition(".")[0]), "__path__", None)
            folders = package or [folder for folder in (os.path.dirname(file),) if folder.endswith(OF_PYTHON)]
            places |= {os.path.join(folder, "") for folder in folders} or {file}
    return tuple(sorted(places))


NEEDED = _needed()  # of the warm process, which has imported what the course uses and nothing else

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
"""A hook that Python never takes back. What it compares with stands in its code, where nobody can bind it anew."""


class Refusal:
    """What one exercise forbids. Other libraries are refused from now on, torch's operators when the cells have run.

    A student's cells may compare their answer with torch's own.
    """

    def __init__(self, forbidden: Iterable[str], *, data: bool = False) -> None:
        """Begin with the libraries; those that the warm process has imported stay only for their data sets."""
        self.wanted = {operator for name in forbidden if name in FAMILIES for operator in operators(name)}
        if self.wanted:
            for name in [name for name in sys.modules if name.partition(".")[0] in ELSEWHERE and not data]:
                del sys.modules[name]
            sys.meta_path.insert(0, Elsewhere())
            names: dict[str, Any] = {}
            exec(GUARD, names)
            sys.addaudithook(names.pop("guard"))

    def begin(self) -> None:
        """Put a kernel that raises in the place of each operator's own, for as long as this process lives.

        An operator raises then, whether called as torch.softmax, torch.ops.aten._softmax or TorchScript.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for operator in sorted(self.wanted):
                for key in KEYS:
                    if torch._C._dispatch_has_kernel_for_dispatch_key(operator, key):
                        _refuse(operator, key)


def _refuse(operator: str, key: str) -> None:
    """By a library whose handle no object of Python's refers to: what cannot be found cannot be destroyed."""
    namespace, _, name = operator.partition("::")
    library = torch._C._dispatch_library("IMPL", namespace, key, __file__, 0)
    library.impl(name, key, _refusing(operator_called(operator)))
    KEEP_FOR_EVER(library)


def _refusing(name: str) -> Any:
    def refuse(*arguments: Any, **more: Any) -> NoReturn:
        raise ContractBroken("forbidden", f"calls {name}, which this exercise asks you to do without")

    return refuse
