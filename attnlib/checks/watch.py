"""Which forbidden functions an attempt calls while it runs."""

import importlib
import sys
import threading
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

SOFTMAX = (
    "torch.softmax",
    "torch.log_softmax",
    "torch.Tensor.softmax",
    "torch.Tensor.log_softmax",
    "torch.special.softmax",
    "torch.special.log_softmax",
    "torch._softmax",
    "torch._log_softmax",
    "torch._safe_softmax",
    "torch.sparse.softmax",
    "torch.sparse.log_softmax",
    "torch.nn.functional.softmax",
    "torch.nn.functional.log_softmax",
    "torch.nn.functional.softmin",
    "torch.nn.functional.gumbel_softmax",
)
ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch._native_multi_head_attention",
    "torch._scaled_dot_product_attention_math",
    "torch.nn.MultiheadAttention.forward",
    "attnlib.scaled_dot_product_attention",
    "attnlib.tiled_attention",
    "attnlib.cross_attention",
    "attnlib.SelfAttention.forward",
    "attnlib.CrossAttention.forward",
    "attnlib.MultiHeadAttention.forward",
)


def _resolve(name: str) -> Any:
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


class Watch(TorchFunctionMode):
    """Record the forbidden calls made in the body: torch's by its function mode, Python's by the profiler hook.

    >>> with Watch(("torch.softmax", "torch.Tensor.softmax")) as watch:
    ...     _ = torch.zeros(2, 3).softmax(dim=-1)
    >>> watch.called
    ['torch.Tensor.softmax']
    """

    def __init__(self, forbidden: tuple[str, ...]) -> None:
        super().__init__()
        targets = {name: target for name in forbidden if (target := _resolve(name)) is not None}
        self.functions = {target: name for name, target in targets.items()}
        self.code = {target.__code__: name for name, target in targets.items() if hasattr(target, "__code__")}
        self.called: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in self.functions:
            self._note(self.functions[function])
        return function(*args, **(kwargs or {}))

    def __enter__(self) -> "Watch":
        super().__enter__()
        if self.code:
            self._previous = sys.getprofile(), threading.getprofile()
            sys.setprofile(self._on_call)
            threading.setprofile(self._on_call)  # in the threads that it starts, too
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.code:
            sys.setprofile(self._previous[0])
            threading.setprofile(self._previous[1])
        super().__exit__(*exception)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in self.code:
            self._note(self.code[frame.f_code])

    def _note(self, name: str) -> None:
        if name not in self.called:
            self.called.append(name)


class DeviceWatch(TorchFunctionMode):
    """Notice where a tensor on the `meta` device meets one on the CPU: on a GPU, the same line would raise an error.

    Allowed are what a GPU allows, too: numbers without axes, index tensors, and assignments that copy.

    >>> import contextlib
    >>> with contextlib.suppress(RuntimeError), DeviceWatch() as watch:
    ...     _ = torch.ones(2, 3, device="meta") + torch.ones(2, 3)
    >>> watch.mixed
    True
    """

    ALLOWED = frozenset((torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_, torch.Tensor.to))

    def __init__(self) -> None:
        super().__init__()
        self.mixed = False
        self.numbers = False
        """Whether a number without axes on `meta` took part: what it makes of others is no evidence."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.__setitem__ and args[0].device.type != "meta":
            if any(isinstance(t, torch.Tensor) and t.device.type == "meta" for t in tree_leaves(args[2])):
                return None  # a GPU would copy the numbers over; there are none here
        elif function not in self.ALLOWED:
            met = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            self.numbers = self.numbers or any(t.is_meta and t.dim() == 0 for t in met)
            self.mixed = self.mixed or len({t.device.type for t in met if t.dim() > 0}) > 1
        return function(*args, **(kwargs or {}))
