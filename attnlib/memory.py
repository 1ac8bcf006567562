"""The memory a call takes, as two sizes that are counted, not measured, so they do not vary from run to run."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode


def largest_tensor(call: Callable[..., object], *inputs: object) -> int:
    """The bytes of the largest tensor that any operation of ``call(*inputs)`` makes.

    >>> import torch
    >>> largest_tensor(lambda x: (x @ x.mT).sum(), torch.zeros(100, 2))
    40000
    """
    watched = _Watched()
    with watched:
        call(*inputs)
    return watched.largest


def bytes_kept(call: Callable[..., object], *inputs: object) -> int:
    """The bytes that autograd keeps for the backward pass of ``call(*inputs)``; what two views share counts once.

    >>> import torch
    >>> bytes_kept(torch.exp, torch.zeros(100, requires_grad=True))
    400
    """
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        result = call(*inputs)
    del result  # until here nothing that was noted is freed, and no address is used twice
    return sum(kept.values())


class _Watched(TorchDispatchMode):
    """A mode that sees every operation, and notes the size of what it makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = made if isinstance(made, (tuple, list)) else [made]
        self.largest = max([self.largest, *(x.nbytes for x in tensors if isinstance(x, Tensor))])
        return made
