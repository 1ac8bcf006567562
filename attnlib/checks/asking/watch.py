"""Which forbidden functions an attempt calls while it runs."""

import functools
import importlib
import inspect
import re
import sys
import threading
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch._C import _autograd, _profiler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from .clock import Clock
from .ready_made import BACKWARD, operator_called, pattern_of, plain

ATTENTION_OF_ATTNLIB = (
    "attnlib.scaled_dot_product_attention",
    "attnlib.tiled_attention",
    "attnlib.cross_attention",
    "attnlib.SelfAttention.forward",
    "attnlib.CrossAttention.forward",
    "attnlib.MultiHeadAttention.forward",
)
INSTALLED = ("site-packages", "dist-packages")


def resolve(name: str) -> Any:
    """The object behind a qualified name, beneath the wrappers that jaxtyping puts around it in the tests."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            target: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            target = getattr(target, part, None)
        return getattr(target, "__wrapped__", target)
    return None


class Watch:
    """Record the forbidden calls made in the body: Python's functions by the profiler hook, operators by torch's.

    torch's profiler sees every operator, whatever called it: those inside of other operators, private ones, those of
    TorchScript. The hook sees functions that are not operators, such as torch's own copies in Python, and SciPy's.

    >>> from attnlib.checks.asking.ready_made import SOFTMAX
    >>> with Watch((SOFTMAX,)) as watch:
    ...     _ = torch.special.softmax(torch.zeros(2, 3), dim=-1)
    >>> watch.called[0]
    'torch.special.softmax'
    """

    def __init__(self, forbidden: tuple[str, ...]) -> None:
        self.pattern = pattern_of(forbidden)
        targets = {name: target for name in forbidden if (target := resolve(name)) is not None}
        code = {target.__code__: name for name, target in targets.items() if hasattr(target, "__code__")}
        self.known: dict[int, tuple[CodeType, str]] = {id(c): (c, name) for c, name in code.items()}
        self.called: list[str] = []
        self.observing = False
        self.most_recorded = 0
        """The most events that were held at one time."""
        self.thread = threading.get_ident()

    def __enter__(self) -> "Watch":
        self._previous = sys.getprofile(), threading.getprofile()
        sys.setprofile(self._on_call)
        threading.setprofile(self._on_call)  # in the threads that it starts, too
        self._observe()
        return self

    def __exit__(self, *exception: Any) -> None:
        sys.setprofile(self._previous[0])  # before the last note: an alarm after it would record for good
        threading.setprofile(self._previous[1])
        self._note_operators()

    def _observe(self) -> None:
        """Have torch record its operators, unless somebody profiles the check itself."""
        if self.pattern is not None and not _autograd._profiler_enabled():
            _autograd._enable_profiler_legacy(_settings())
            self.observing = True

    def _note_operators(self) -> None:
        if not self.observing or not _autograd._profiler_enabled():
            return
        self.observing = False
        recorded = _autograd._disable_profiler_legacy()
        self.most_recorded = max(self.most_recorded, sum(map(len, recorded)))
        for name in dict.fromkeys(event.name() for events in recorded for event in events):
            if (called := _called_by_operator(name, self.pattern)) is not None:
                self._note(called)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if (known := self.known.get(id(code))) is None:
            known = self.known[id(code)] = (code, _called_in_python(code, frame.f_globals, self.pattern))
        if known[1]:
            self._note(known[1])
        elif code is ALARM and self.thread == threading.get_ident():  # ten times a second: else a loop fills the memory
            self._note_operators()
            self._observe()

    def _note(self, name: str) -> None:
        if name not in self.called:
            self.called.append(name)


ALARM = Clock.look.__code__


@functools.cache
def _settings() -> Any:
    without = dict.fromkeys(("shapes", "memory", "stack", "flops", "modules"), False)
    config: Any = torch.autograd.ProfilerConfig
    return config(torch.autograd.ProfilerState.CPU, *without.values(), _profiler._ExperimentalConfig())


@functools.cache
def _called_by_operator(name: str, pattern: re.Pattern[str]) -> str | None:
    found = "::" in name and BACKWARD not in name.lower() and pattern.search(plain(name))
    return operator_called(name) if found else None


def _called_in_python(code: CodeType, names: dict[str, Any], pattern: re.Pattern[str] | None) -> str:
    """The name of a forbidden function of an installed library, as students know it; empty for any other."""
    if pattern is None or not any(part in code.co_filename for part in INSTALLED) or "/attnlib/" in code.co_filename:
        return ""
    if not code.co_flags & inspect.CO_OPTIMIZED:  # the body of a module or of a class, which is being imported
        return ""
    name = f"{names.get('__name__')}.{code.co_qualname}"
    if not pattern.search(plain(name)):
        return ""
    return re.sub(r"^torch\.nn\.modules\.\w+\.([A-Z]\w+)\..*", r"torch.nn.\1", name)


class DeviceWatch(TorchDispatchMode):
    """Notice every operation that a GPU would refuse because a tensor on the CPU takes part in it.

    There need not be a GPU: its part is played by `gpu`, the type of another device, and tensors on it need no numbers.
    Operators are watched, not functions: `cpu.expand_as(x)` takes nothing but sizes from x. Allowed is what a GPU
    allows, too: all that copies (`to`, `type_as`, `copy_`), a CPU number without axes, and a CPU tensor as an index.

    >>> import contextlib
    >>> with contextlib.suppress(RuntimeError), DeviceWatch() as watch:
    ...     _ = torch.ones(2, 3, device="meta") + torch.ones(2, 3)
    >>> watch.mixed
    True
    """

    COPIES = frozenset((torch.ops.aten._to_copy, torch.ops.aten.copy_, torch.ops.aten.copy, torch.ops.aten.resize_as_))
    INDEXED = frozenset((torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_))

    def __init__(self, gpu: str = "meta") -> None:
        super().__init__()
        self.gpu = gpu
        self.mixed = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operator = function.overloadpacket
        if operator in self.COPIES:
            return self._copied(function, args, kwargs)
        met = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if operator in self.INDEXED and self._is_on_gpu(args[0]):
            met = [t for t in met if not any(t is index for index in args[1])]
        if any(self._is_on_gpu(t) for t in met):
            self.mixed = self.mixed or not all(self._is_on_gpu(t) or t.dim() == 0 for t in met)
            args, kwargs = tree_map_only(Tensor, self._as_number_on_gpu, (args, kwargs))
        return function(*args, **kwargs)

    def _is_on_gpu(self, tensor: Tensor) -> bool:
        return tensor.device.type == self.gpu

    def _as_number_on_gpu(self, tensor: Tensor) -> Tensor:
        """A number from `meta`, which has none, would make its partner's result one without numbers."""
        return (
            torch.ones((), dtype=tensor.dtype) if tensor.is_meta and self.gpu != "meta" and not tensor.dim() else tensor
        )

    def _copied(self, function: Any, args: Any, kwargs: Any) -> Any:
        """From `meta` there are no numbers to copy: what is on another device afterwards is zeros, or as it was."""
        source = args[0] if function.overloadpacket is torch.ops.aten._to_copy else args[1]
        target = torch.device(kwargs.get("device") or args[0].device)
        if not source.is_meta or target.type == "meta":
            return function(*args, **kwargs)
        if source is args[0]:
            return torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype, device=target)
        return args[0]
