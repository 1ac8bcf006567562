"""The contract of every attempt, whatever the exercise: callable, with its parameters, returning plain tensors."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from .failure import ContractBroken, Reason

LARGEST_RESULT = 10**7
"""The most numbers an output may hold: each is copied and compared, and no right answer comes near."""


def is_tensor(value: Any) -> bool:
    """True for a plain tensor or parameter with all of its numbers: a subclass could answer the comparison itself."""
    plain = type(value) in (Tensor, nn.Parameter) and value.layout == torch.strided
    return plain and not (value.is_quantized or value.is_nested)


def checked(wanted: tuple[str, ...], result: Any) -> tuple[Tensor, ...]:
    """Return the result as a tuple of as many plain tensors as required; raises `ContractBroken` for anything else."""
    within = f"a {type(result).__name__} that holds " if len(wanted) == 1 and isinstance(result, (tuple, list)) else ""
    if len(wanted) == 1 and not within:
        result = (result,)
    asked = "a tensor" if len(wanted) == 1 else f"a tuple ({', '.join(wanted)}) of {len(wanted)} tensors"
    if not isinstance(result, (tuple, list)):
        raise _returned(asked, result)
    if len(result) != len(wanted):
        found = f"a {type(result).__name__} of {len(result)}"
        raise ContractBroken("type", f"must return {asked}, but returned {found}", reason="something_else")
    for name, value in zip(wanted, result, strict=True):
        if not is_tensor(value):
            raise _returned(asked if len(wanted) == 1 else f"a tensor as {name}", value, within)
        if value.numel() > LARGEST_RESULT and not value.is_meta:
            details = f"of shape {tuple(value.shape)}; no result here has more than {LARGEST_RESULT:,} numbers"
            raise ContractBroken("memory", "returns too large a tensor", details=details)
    return tuple(result)


def require_small(largest: tuple[int, ...] | None, allowed: int) -> None:
    """Raises `ContractBroken` if the largest tensor that was made has more numbers than allowed."""
    if largest is None:
        raise ContractBroken("memory", "cannot be measured while torch's profiler is running")
    if (made := math.prod(largest)) > allowed:
        details = f"one of shape {largest} has {made:,} numbers; the largest that is allowed here has {allowed:,}"
        square = len(largest) > 1 and largest[-1] == largest[-2]
        raise ContractBroken("memory", "makes too large a tensor", reason="square" if square else "", details=details)


def require_detached(outputs: tuple[Tensor, ...]) -> None:
    """Raises `ContractBroken` if an output still refers to what it was computed from."""
    if any(output.requires_grad for output in outputs):
        details = "it requires a gradient, and so holds the whole pass in memory: `.detach()` it, or compute it under "
        raise ContractBroken(
            "type", "returns a result that remembers how it was computed", details=details + "`torch.no_grad()`"
        )


def _returned(asked: str, value: Any, within: str = "") -> ContractBroken:
    if value is None and not within:
        text = f"must return {asked}, but returned None (is the `return` missing?)"
        return ContractBroken("type", text, reason="nothing")
    returned = f"{within}{_kind_of(value)}"
    return ContractBroken("type", f"must return {asked}, but returned {returned}", reason="something_else")


def _kind_of(value: Any) -> str:
    if value is None or value is NotImplemented or value is Ellipsis:
        return str(value)
    if type(value) in (Tensor, nn.Parameter):
        if value.is_quantized:
            return "a quantized tensor"
        if value.is_nested:
            return "a nested tensor"
        return "a sparse tensor" if value.layout != torch.strided else "a single tensor"
    name = type(value).__name__
    return f"{'an' if name.lower().startswith((*'aeiou', 'nd')) else 'a'} {name}"


def unfit_reason(kind: str, attempt: Any) -> str | None:
    """Return the reason why the attempt can't be called at all, as a sentence without its subject; None if it can."""
    is_class = isinstance(attempt, type)
    if kind == "function" and is_class:
        return f"must be a function, but you passed the class {attempt.__name__}"
    if kind == "module" and isinstance(attempt, nn.Module):
        name = type(attempt).__name__
        return f"must be the class, but you passed an object made from it: pass {name}, not {name}(…)"
    if kind == "module" and is_class and not issubclass(attempt, nn.Module):
        name = attempt.__name__
        return f"must be a subclass of nn.Module, but the class {name} is not: write class {name}(nn.Module)"
    if not callable(attempt):
        wanted = "a class" if kind == "module" else "a function"
        hint = ": pass the function itself, without calling it" if isinstance(attempt, (Tensor, tuple)) else ""
        return f"must be {wanted}, but you passed {described(attempt)}{hint}"
    return None


def described(value: Any) -> str:
    """Name the kind of thing that was passed."""
    return str(value) if value is None or value is Ellipsis else f"a value of type {type(value).__name__}"


def compare_parameters(wanted: Mapping[str, tuple[int, ...]] | None, module: nn.Module) -> None:
    """Raises `ContractBroken` if the module's parameters are not of these names and shapes, or cannot learn."""
    parameters = parameters_of(module, wanted)
    if lazy := [name for name, p in parameters.items() if isinstance(p, UninitializedParameter)]:
        raise ContractBroken(
            "parameters",
            f"has no sizes for {', '.join(lazy)} until it is called",
            reason="unsized",
            details="make the layers with their sizes, nn.Linear(d_in, d_out), which the constructor knows",
        )
    if wanted is None:
        return
    _require_one_name(wanted, module)
    _compare_shapes(wanted, {name: tuple(p.shape) for name, p in parameters.items()}, module)
    if frozen := [name for name, p in parameters.items() if not p.requires_grad]:
        details = f"{', '.join(frozen)} cannot learn, because requires_grad is False"
        raise ContractBroken("parameters", "has frozen parameters", reason="frozen", details=details)


def _require_one_name(wanted: Mapping[str, tuple[int, ...]], module: nn.Module) -> None:
    """Raises `ContractBroken` if a layer has a second name that the contract does not have.

    Where both are asked for, two layers have been made one, which is another mistake: a parameter is missing then.
    """
    names: dict[nn.Module, list[str]] = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        names.setdefault(layer, []).append(name)
    asked = tuple(wanted)
    for layer, called in names.items():
        if len(called) == 1:
            continue
        unasked = [name for name in called if not any(known.startswith(f"{name}.") for known in asked)]
        if unasked and next(layer.parameters(), None) is not None:
            kept = next((name for name in called if name not in unasked), called[0])
            details = f"{kept!r} and {next(name for name in called if name != kept)!r} are one and the same layer"
            raise ContractBroken("parameters", "has a layer under two names", reason="two_names", details=details)


def parameters_of(module: nn.Module, wanted: Mapping[str, tuple[int, ...]] | None) -> dict[str, nn.Parameter]:
    """Return each parameter once; one with several names, such as a tied head's, under the contract's name."""
    named = dict(module.named_parameters(remove_duplicate=False))
    names = {id(named[name]): name for name in reversed([*(wanted or ()), *named]) if name in named}
    return {name: parameter for name, parameter in named.items() if names[id(parameter)] == name}


def _compare_shapes(
    wanted: Mapping[str, tuple[int, ...]], found: Mapping[str, tuple[int, ...]], module: nn.Module
) -> None:
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    if missing and (other := _shared_with(module, missing[0], found)):
        text, details = f"has no parameter {missing[0]!r} of its own", f"it is the same object as {other}"
        raise ContractBroken("parameters", text, reason="shared", details=details)
    if missing and sorted(found.values()) == sorted(map(tuple, wanted.values())):
        numbered = any(part.isdigit() for name in extra for part in name.split("."))
        text = f"has parameters under {'numbers' if numbered else 'other names'}"
        details = f"it has {', '.join(extra)} in place of {', '.join(missing)}"
        raise ContractBroken("parameters", text, reason="renamed", details=details)
    if missing:
        details = f"it has {', '.join(found)}" if found else "it has no parameters at all"
        reason = _in_its_place(module, missing[0])
        raise ContractBroken("parameters", f"has no parameter {missing[0]!r}", reason=reason, details=details)
    if extra:
        hint = " (its layer needs bias=False here)" if extra[0].endswith(".bias") else ""
        text = f"has a parameter {extra[0]!r} that the contract does not ask for{hint}"
        raise ContractBroken("parameters", text, reason="unasked")
    for name, shape in wanted.items():
        if found[name] != tuple(shape):
            text = f"parameter {name!r} must have shape {tuple(shape)}, got {found[name]}"
            raise ContractBroken("parameters", text, reason="another_shape")


def _shared_with(module: nn.Module, name: str, found: Iterable[str]) -> str:
    """Return the one of these names that belongs to the same parameter as another name; empty if there is none."""
    named = dict(module.named_parameters(remove_duplicate=False))
    return next((other for other in found if named[other] is named.get(name)), "")


def _in_its_place(module: nn.Module, name: str) -> Reason:
    """Return the reason why a parameter is missing, such as that the object has it in a form no module recognizes."""
    at: Any = module
    for part in name.split("."):
        at = getattr(at, part, None)
        if isinstance(at, list | tuple) and any(isinstance(one, nn.Module | nn.Parameter) for one in at):
            return "in_a_list"
    return "not_a_parameter" if isinstance(at, Tensor) and not isinstance(at, nn.Parameter) else "missing"
