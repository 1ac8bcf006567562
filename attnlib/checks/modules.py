"""Building a module attempt, and giving it its weights by name."""

from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Exercise


class ContractBroken(Exception):
    """The attempt broke the exercise's contract; `kind` is that of `observe.Failure`, the message a sentence."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def build_module(
    exercise: Exercise, attempt: Any, sizes: tuple[Any, ...], draw: Draw, device: str, dtype: torch.dtype | None
) -> nn.Module:
    """Construct the module with positional arguments and load drawn weights into its parameters, in evaluation mode.

    The weights depend on the parameter's name alone, never on the order in which an attempt creates its layers.
    """
    module = attempt(*sizes)
    if not isinstance(module, nn.Module):
        raise ContractBroken("type", f"must be an nn.Module, but calling it gave a {type(module).__name__}")
    try:
        wanted = exercise.reference(*sizes)
    except ValueError:  # the reference refuses these sizes; the attempt should have, and is judged as it is
        return module.to(device=device, dtype=dtype or draw.dtype).eval()
    shapes = {name: tuple(p.shape) for name, p in wanted.named_parameters()}
    _compare_parameters(shapes, {name: tuple(p.shape) for name, p in module.named_parameters()})
    weights = {name: _drawn_weight(exercise, name, shape, draw) for name, shape in sorted(shapes.items())}
    module = module.to(dtype=dtype or draw.dtype)
    if device == "meta":
        return module.to("meta").eval()
    module = module.to(device)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(weights[name])
            parameter.requires_grad_()
    return module.eval()


def _drawn_weight(exercise: Exercise, name: str, shape: tuple[int, ...], draw: Draw) -> Tensor:
    if len(shape) > 1:
        return draw.normal(*shape, scale=exercise.weight_scale * shape[-1] ** -0.5)
    gain = "norm" in name and name.endswith("weight")
    return draw.normal(*shape, scale=0.3, shift=1.0 if gain else 0.4)


def _compare_parameters(wanted: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if missing:
        has = f"it has {', '.join(found)}" if found else "it has no parameters at all"
        raise ContractBroken("parameters", f"has no parameter {missing[0]!r}; {has}")
    if extra:
        hint = " (make the layer with bias=False)" if extra[0].endswith(".bias") else ""
        raise ContractBroken("parameters", f"has a parameter {extra[0]!r} that the contract does not ask for{hint}")
    for name, shape in wanted.items():
        if found[name] != shape:
            raise ContractBroken("parameters", f"parameter {name!r} must have shape {shape}, got {found[name]}")
