"""A second device on a machine that has none: it shows what an attempt makes on the CPU for inputs elsewhere."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Storages = dict[int, torch.UntypedStorage]


class OtherDevice(TorchDispatchMode):
    """Play a GPU, and notice every operation that one would refuse because a tensor on the CPU takes part in it.

    torch's `meta` device plays the part. Tensors there have no numbers of their own, so each storage is given some on
    the CPU, and every operator runs on those: an attempt may look at a number, and torch never loads its own
    implementation of `meta`, whose import takes longer than all the rest of a check.

    Operators are watched, not functions: `cpu.expand_as(x)` takes nothing but sizes from x. Allowed is what a GPU
    allows, too: all that copies (`to`, `type_as`, `copy_`), a CPU number without axes, and a CPU tensor as an index.

    >>> x = on_other_device(torch.ones(2, 3))
    >>> with OtherDevice() as gpu:
    ...     _ = x + torch.ones(2, 3)
    >>> gpu.mixed
    True
    """

    COPIES = frozenset((torch.ops.aten._to_copy, torch.ops.aten.copy_, torch.ops.aten.copy, torch.ops.aten.resize_as_))
    INDEXED = frozenset((torch.ops.aten.index, torch.ops.aten.index_put, torch.ops.aten.index_put_))

    def __init__(self) -> None:
        super().__init__()
        self.mixed = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping `__torch_dispatch__` in what imports its compiler at the first call."""
        return False

    def __enter__(self) -> "OtherDevice":
        if "torch._dynamo" in sys.modules:
            _leave_out_of_compilation()
        super().__enter__()
        return self

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            with self:  # what is made in `inference_mode` gets here before it is taken apart
                return function.decompose(*args, **(kwargs or {}))
        call = _Call()
        on_cpu = [_each_tensor(call.numbers_of, argument) for argument in args]
        named = {name: _each_tensor(call.numbers_of, argument) for name, argument in (kwargs or {}).items()}
        wanted = named.get("device")
        if wanted is None and not any(t.is_meta for t in call.met):
            return function(*args, **(kwargs or {}))
        if function.overloadpacket not in self.COPIES:
            free = args[1] if function.overloadpacket in self.INDEXED and args[0].is_meta else ()
            met = [t for t in call.met if not any(t is index for index in free)]
            self.mixed = self.mixed or (any(t.is_meta for t in met) and not all(t.is_meta or t.dim() == 0 for t in met))
        call.answered_there = wanted is None or torch.device(wanted).type == "meta"
        if wanted is not None and call.answered_there:
            named["device"] = torch.device("cpu")
        return _each_tensor(call.answer, function(*on_cpu, **named))


class _Call:
    """The call of one operator on numbers, in place of the tensors on `meta` that have them."""

    def __init__(self) -> None:
        self.met: list[Tensor] = []
        self.holders: dict[int, tuple[Tensor, Tensor]] = {}
        """The tensor with numbers, and the one it stands for, by the `id` of the former."""
        self.storages: Storages = {}
        self.answered_there = True

    def numbers_of(self, tensor: Tensor) -> Tensor:
        """Return the tensor with numbers that stands in for an argument."""
        self.met.append(tensor)
        if not tensor.is_meta:
            return tensor
        numbers = _numbers_of(tensor)
        self.holders[id(numbers)] = (numbers, tensor)
        self.storages[numbers.untyped_storage()._cdata] = tensor.untyped_storage()
        return numbers

    def answer(self, result: Tensor) -> Tensor:
        """Return the tensor that stands in for a result; for an argument changed in place, that same argument."""
        if (found := self.holders.get(id(result))) is not None:
            return _as_it_is_now(found[1], result)
        if not self.answered_there or any(result is tensor for tensor in self.met):
            return result
        return _on_other(result, self.storages)


def _each_tensor(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Apply the change to each tensor in an operator's argument or result."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)([_each_tensor(change, item) for item in value])
    return value


@functools.cache
def _leave_out_of_compilation() -> None:
    """Keep `torch.compile` from compiling these operators too, as it would for an attempt it has made."""
    import torch._dynamo

    OtherDevice.__torch_dispatch__ = torch._dynamo.disable(OtherDevice.__torch_dispatch__)  # type: ignore[method-assign]


def on_other_device(tensor: Tensor) -> Tensor:
    """Return a tensor on the other device with the numbers of this one; made before `OtherDevice` is entered."""
    return _on_other(tensor, {})


def _numbers_of(handle: Tensor) -> Tensor:
    """Return the numbers of a tensor on `meta`; zeros if it was made where no operator could be seen."""
    storage: Any = handle.untyped_storage()
    if not hasattr(storage, "numbers"):
        storage.numbers = torch.zeros(storage.nbytes(), dtype=torch.uint8).untyped_storage()
    new = torch.empty(0, dtype=handle.dtype)
    return new.set_(storage.numbers, handle.storage_offset(), handle.shape, handle.stride())


def _on_other(numbers: Tensor, storages: Storages) -> Tensor:
    """Return the tensor on `meta` for these numbers; views of the same numbers share a storage there as well."""
    kept = numbers.untyped_storage()
    if kept._cdata not in storages:
        storage: Any = torch.UntypedStorage(kept.nbytes(), device="meta")
        storage.numbers = kept
        storages[kept._cdata] = storage
    with torch.inference_mode(False):  # a view of what was made outside counts its versions
        new = torch.empty(0, dtype=numbers.dtype, device="meta")
        return new.set_(storages[kept._cdata], numbers.storage_offset(), numbers.shape, numbers.stride())


def _as_it_is_now(handle: Tensor, numbers: Tensor) -> Tensor:
    """Return a tensor after a change in place, which may have changed its shape as well (`unsqueeze_`, `resize_`)."""
    if handle.shape != numbers.shape or handle.stride() != numbers.stride():
        handle.set_(handle.untyped_storage(), numbers.storage_offset(), numbers.shape, numbers.stride())
    return handle
