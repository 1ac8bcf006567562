"""The inputs of a call: the attempt's own copies, and the changes made to them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from .other_device import on_other_device


def tensors_in(arguments: Any) -> list[Tensor]:
    """The tensors among the inputs."""
    return [t for t in tree_leaves(arguments) if isinstance(t, Tensor)]


def values_in(arguments: Any) -> list[Tensor]:
    """Tensors among the inputs, and numbers and texts as tensors: a cache is two buffers and a number of positions."""
    leaves = (leaf for leaf in tree_leaves(arguments) if isinstance(leaf, (Tensor, int, float, str)))
    return [_as_tensor(leaf) for leaf in leaves]


def _as_tensor(leaf: Any) -> Tensor:
    if isinstance(leaf, str):
        return torch.tensor([*leaf.encode(errors="replace")], dtype=torch.uint8)
    return leaf if isinstance(leaf, Tensor) else torch.tensor(leaf)


def form_of(arguments: Any) -> object:
    """The tuples, lists and dictionaries among the inputs, with their lengths and keys."""
    return tree_flatten(arguments)[1]


def copied(inputs: tuple[Any, ...], device: str, earlier: Sequence[Tensor]) -> tuple[tuple[Any, ...], list[Tensor]]:
    """Copy the inputs into tensors of the attempt's own, reusing an earlier call's where shape, dtype and strides fit.

    Return the copies, and the tensors among them.

    So calls repeat with the same objects, which hold other numbers by then: an answer remembered for the object, as by
    `functools.cache`, is caught with its old value. All other calls get new objects; otherwise an input that an
    attempt keeps would receive the new numbers.
    """
    free = list(earlier) if device != "meta" else []
    leaves, form = tree_flatten(inputs)
    copies = [_copy(leaf, device, free) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    return tree_unflatten(copies, form), [copy for copy in copies if isinstance(copy, Tensor)]


def _copy(tensor: Tensor, device: str, free: list[Tensor]) -> Tensor:
    wanted = tensor.shape, tensor.dtype, tensor.stride()
    at = next((i for i, t in enumerate(free) if (t.shape, t.dtype, t.stride()) == wanted), None)
    if at is None:
        return laid_out_like(tensor, device)
    with torch.no_grad():
        return free.pop(at).detach_().copy_(tensor)


def laid_out_like(tensor: Tensor, device: str) -> Tensor:
    """Copy with the strides of the original, so that an input meant not to be contiguous stays so."""
    is_elsewhere = device == "meta"
    place = "cpu" if is_elsewhere else device
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=place).copy_(tensor)
    return on_other_device(copy) if is_elsewhere else copy


def are_alike(before: Any, after: Any) -> bool:
    """True if nothing has changed: the same lists and dictionaries, holding the same numbers and texts."""
    (leaves, form), (left, form_left) = tree_flatten(before), tree_flatten(after)
    return form == form_left and all(map(_is_same, leaves, left))


def _is_same(one: Any, other: Any) -> bool:
    if not isinstance(one, Tensor):
        return type(one) is type(other) and bool(one == other)
    return isinstance(other, Tensor) and have_same_numbers(one, other)


def have_same_numbers(one: Tensor, other: Tensor) -> bool:
    """True if two tensors have the same shape, dtype and numbers; NaN counts as equal to NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    other = other.detach().to(one.device)
    return torch.equal(one, other) or (one.is_floating_point() and bool(((one == other) | (one != one)).all()))


def values_left(given: Sequence[Any], now: Sequence[Any]) -> list[Tensor]:
    """The inputs as they are now; empty tensors for one whose form has changed."""
    found: list[Tensor] = []
    for before, after in zip(given, now, strict=True):
        left = values_in(after) if form_of(after) == form_of(before) else []
        wanted = len(values_in(before))
        found += [t.detach().clone() for t in left] if len(left) == wanted else [torch.empty(0)] * wanted
    return found
