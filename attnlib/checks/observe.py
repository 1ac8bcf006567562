"""What an attempt does on one case: what it returns, its gradients, and what it does to its inputs."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks import limits
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise
from attnlib.checks.modules import ContractBroken, build_module
from attnlib.checks.watch import DeviceWatch, Watch


@dataclass(frozen=True)
class Failure:
    """Why there is no result: `kind` is one of those below, `text` a sentence, `place` the attempt's line."""

    kind: str  # "unwritten", "raised", "time", "type", "parameters", "forbidden"
    text: str
    place: str = ""


@dataclass
class Observation:
    """Everything that a case can tell of an attempt. Two attempts are the same if their observations agree."""

    inputs: tuple[Any, ...] = ()
    outputs: tuple[Tensor, ...] | None = None
    gradients: dict[str, Tensor] | None = None
    connected: bool = True
    mutated: tuple[str, ...] = ()
    devices_mixed: bool = False
    failure: Failure | None = None
    printed: str = ""
    terms: int = 1
    exact: bool = False
    sizes: tuple[Any, ...] = ()


def is_tensor(value: Any) -> bool:
    """A plain tensor or parameter: a subclass could answer the comparison itself."""
    return type(value) in (Tensor, nn.Parameter)


def argument_names(function: Any) -> tuple[str, ...]:
    """The names of the contract's arguments, those of the reference."""
    import inspect

    return tuple(inspect.signature(function).parameters)


def observe(
    exercise: Exercise, attempt: Any, case: Case, *, seed: int, device: str, exact: bool = False, watched: bool = False
) -> Observation:
    """Call the attempt on the case and note all that it does.

    With `exact`, on the same numbers in float64 and on the CPU: that is how the reference is asked. With `watched`,
    calls of what the exercise forbids are noticed.
    """
    key = (exercise.name, case.name, seed)
    seen = Observation(exact=exact)
    with limits.interrupts_told_apart() as interrupted, limits.quiet() as text, limits.global_state_kept():
        try:
            with limits.time_limit():
                _observe(exercise, attempt, case, key, device, exact, watched, seen)
        except limits.TimeLimitExceeded:
            seen.failure = Failure("time", f"did not end within {limits.CPU_SECONDS:.0f} seconds of computing")
        except ContractBroken as error:
            seen.failure = Failure(error.kind, str(error))
        except BaseException as error:
            if interrupted.is_set():
                raise
            seen.failure = _failure_of(error, attempt)
    seen.printed = text.text()
    return seen


def _observe(
    exercise: Exercise,
    attempt: Any,
    case: Case,
    key: tuple,
    device: str,
    exact: bool,
    watched: bool,
    seen: Observation,
) -> None:
    target = "cpu" if exact else ("meta" if case.other_device else device)
    convert = torch.float64 if exact else None

    def prepare(*extra: object) -> tuple[Any, ...]:
        drawn = case.inputs(Draw(*key, *extra, dtype=case.dtype, strided=case.strided))
        return tree_map_only(Tensor, lambda t: _moved(t, target, convert), drawn)

    drawn = prepare()
    seen.terms = max([2, *(size for t in tree_leaves(drawn) if isinstance(t, Tensor) for size in t.shape)])
    weights: dict[str, Tensor] = {}
    call: Callable[..., Any] = attempt
    if exercise.kind == "module":
        seen.sizes, drawn = drawn
        call = build_module(exercise, attempt, seen.sizes, Draw(*key, "weights", dtype=case.dtype), target, convert)
        weights = dict(call.named_parameters())
    if case.twice and not exact:
        first = prepare("first")
        _ask(exercise, case, call, first[1] if exercise.kind == "module" else first)
    seen.inputs = tree_map_only(Tensor, torch.clone, drawn)
    leaves = [t for t in tree_leaves(drawn) if isinstance(t, Tensor) and t.is_floating_point()]
    if case.gradient:
        for leaf in leaves:
            leaf.requires_grad_()
    if case.other_device:
        with DeviceWatch() as devices:
            try:
                outputs = _ask(exercise, case, call, drawn)
            finally:
                seen.devices_mixed = devices.mixed
        seen.outputs = outputs
        return
    with Watch(exercise.forbidden if watched else ()) as watch:
        outputs = _ask(exercise, case, call, drawn)
    if watch.called:
        raise ContractBroken("forbidden", f"calls {watch.called[0]}, which this exercise asks you to do without")
    seen.outputs = tuple(t.detach().clone() for t in outputs)
    if case.mutation:
        _note_mutations(exercise, drawn, seen)
    if case.gradient:
        _note_gradients(exercise, outputs, leaves, weights, key, seen)


def _moved(tensor: Tensor, device: str, dtype: torch.dtype | None) -> Tensor:
    """A copy with the strides of the original, so that an input meant not to be contiguous stays so."""
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if device != "meta":
        copy.copy_(tensor)
    return copy.to(dtype) if dtype is not None and tensor.is_floating_point() else copy


def _ask(exercise: Exercise, case: Case, call: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    checked = CheckedCall(exercise, call)
    return case.probe(checked, inputs) if case.probe is not None else checked(*inputs)


class CheckedCall:
    """The attempt, whose results are known to be of the contract's type (see `exercise.Asked`)."""

    def __init__(self, exercise: Exercise, target: Callable[..., Any]) -> None:
        self.exercise = exercise
        self.target = target

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        return _checked(self.exercise, self.target(*inputs))


def _checked(exercise: Exercise, result: Any) -> tuple[Tensor, ...]:
    wanted = exercise.outputs
    if len(wanted) == 1 and not isinstance(result, (tuple, list)):
        result = (result,)
    asked = "a tensor" if len(wanted) == 1 else f"a tuple ({', '.join(wanted)}) of {len(wanted)} tensors"
    if not isinstance(result, (tuple, list)):
        hint = " (is the `return` missing?)" if result is None else ""
        raise ContractBroken("type", f"must return {asked}, but returned {_kind_of(result)}{hint}")
    if len(result) != len(wanted):
        raise ContractBroken("type", f"must return {asked}, but returned a tuple of {len(result)}")
    for name, value in zip(wanted, result, strict=True):
        if not is_tensor(value):
            hint = " (is the `return` missing?)" if value is None else ""
            what = asked if len(wanted) == 1 else f"a tensor as {name}"
            raise ContractBroken("type", f"must return {what}, but returned {_kind_of(value)}{hint}")
    return tuple(result)


def _kind_of(value: Any) -> str:
    if value is None or value is NotImplemented or value is Ellipsis:
        return str(value)
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _note_mutations(exercise: Exercise, drawn: tuple[Any, ...], seen: Observation) -> None:
    changed = []
    for index, (before, after) in enumerate(zip(seen.inputs, drawn, strict=True)):
        pairs = zip(tree_leaves(before), tree_leaves(after), strict=False)
        if any(isinstance(b, Tensor) and not _same(b, a) for b, a in pairs):
            changed.append(input_names(exercise)[index])
    seen.mutated = tuple(changed)


def _same(before: Tensor, after: Tensor) -> bool:
    return before.shape == after.shape and before.dtype == after.dtype and torch.equal(before, after.detach())


def input_names(exercise: Exercise) -> tuple[str, ...]:
    """The names of what the judged call gets: the function's arguments, or those of the module's `forward`."""
    if exercise.kind == "module":
        return argument_names(exercise.reference.forward)[1:]
    return argument_names(exercise.reference)


def _note_gradients(
    exercise: Exercise,
    outputs: tuple[Tensor, ...],
    leaves: list[Tensor],
    weights: dict[str, Tensor],
    key: tuple,
    seen: Observation,
) -> None:
    """Gradients of a fixed random combination of the outputs, with respect to every input and weight."""
    kept = [(n, t) for n, t in zip(exercise.outputs, outputs, strict=True) if n not in exercise.detachable]
    seen.connected = all(t.requires_grad for _, t in kept)
    if not seen.connected:
        return
    draw = Draw(*key, "cotangents", dtype=torch.float64)
    loss = torch.zeros((), dtype=torch.float64, device=outputs[0].device)
    for _, tensor in kept:
        loss = loss + (tensor.double() * draw.normal(*tensor.shape).to(tensor.device)).sum()
    names = [*(f"input {i}" for i in range(len(leaves))), *weights]
    targets = [*leaves, *weights.values()]
    found = torch.autograd.grad(loss, targets, allow_unused=True)
    filled = [torch.zeros_like(t) if g is None else g for t, g in zip(targets, found, strict=True)]
    seen.gradients = {n: g.detach().clone() for n, g in zip(names, filled, strict=True)}


def _failure_of(error: BaseException, attempt: Any) -> Failure:
    place = _place_in_attempt(error.__traceback__)
    if isinstance(error, NotImplementedError) and (place or not error.args):
        return Failure("unwritten", "is not written yet: put your code in place of `raise NotImplementedError`", place)
    try:
        said = str(error)
    except BaseException:
        said = "(a message that cannot be printed)"
    first_lines = " ".join(said.strip().split("\n")[:3])
    return Failure("raised", f"raised {type(error).__name__}: {first_lines[:400]}".rstrip(": "), place)


def _place_in_attempt(trace: TracebackType | None) -> str:
    """The last line of the learner's own code in a traceback: of a notebook cell, or of a file outside libraries."""
    place = ""
    for frame in traceback.extract_tb(trace):
        library = any(part in frame.filename for part in ("site-packages", "dist-packages", "/attnlib/", "<frozen"))
        if not library and frame.line:
            place = f"line {frame.lineno}: `{frame.line.strip()}`"
    return place
