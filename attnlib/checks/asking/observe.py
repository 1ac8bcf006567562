"""Observe an attempt on one case: its outputs, its gradients, and its changes to the inputs."""

import inspect
import math
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks.asking.attempt import Attempt, Local, Session, Terms
from attnlib.checks.asking.failure import Failed
from attnlib.checks.asking.given import MODEL
from attnlib.checks.asking.inputs import have_same_numbers, tensors_in, values_in
from attnlib.checks.asking.observation import AS_IN_A_NOTEBOOK, Asking, Observation
from attnlib.checks.draw import Draw
from attnlib.checks.exercise import Case, Exercise, Probe


def argument_names(function: Any) -> tuple[str, ...]:
    """The names of the contract's arguments, those of the reference."""
    return tuple(inspect.signature(function).parameters)


def input_names(exercise: Exercise) -> tuple[str, ...]:
    """The names of the judged call's inputs: the function's arguments, or those of the module's `forward`."""
    if exercise.kind == "module":
        return argument_names(exercise.reference.forward)[1:]
    return argument_names(exercise.reference)


def as_attempt(attempt: Any) -> Attempt:
    """Return the attempt, wrapped if it is an object of this process, as the course's own answers are."""
    return attempt if isinstance(attempt, Attempt) else Local(attempt, ours=True)


def observe(
    exercise: Exercise,
    attempt: Any,
    case: Case,
    asking: Asking = AS_IN_A_NOTEBOOK,
    *,
    exact: bool = False,
    watched: bool = False,
) -> Observation:
    """Call the attempt, an `Attempt` or any object of this process, on the case and note all that it does.

    With `exact`, on the same numbers in float64 and on the CPU: that is how the reference is asked. With `watched`,
    calls of what the exercise forbids are noticed. An error is asked for on the CPU, whatever the device: an index out
    of range ends CUDA for the whole process.
    """
    seed, device = asking.seed, asking.device
    if (memory := asking.memory) is not None:
        key = (exercise.name, case.name, case.dtype, seed, device, exact, id(attempt))
        if key not in memory:
            memory[key] = observe(exercise, attempt, case, asking.anew, exact=exact, watched=watched)
        return memory[key]
    attempt = as_attempt(attempt)
    place = "cpu" if exact or case.raises else ("meta" if case.other_device else device)
    forbidden = exercise.forbidden if watched else ()
    asked: dict[str, Any] = {"device": place, "largest": case.largest, "detached": case.detached and not exact}
    asked["again"] = 0 if exact or not case.after else len(case.after) + 1
    session = attempt.open(Terms(outputs=exercise.outputs, forbidden=forbidden, **asked))
    seen, began = Observation(exact=exact), time.thread_time()
    try:
        _observe(exercise, session, case, (exercise.name, case.name, seed), seen, device=place)
    except Failed as error:
        seen.failure = error.failure
        if case.raises and case.mutation:  # an error doesn't excuse changed inputs
            try:
                _note_changes(exercise, case, seen.inputs, session.inputs(), seen)
            except Failed as unseen:
                seen.failure = unseen.failure
    finally:
        session.close()
    seen.cpu = time.thread_time() - began
    seen.printed, seen.devices_mixed = session.printed, session.devices_mixed
    return seen


def _observe(
    exercise: Exercise, session: Session, case: Case, key: tuple[Any, ...], seen: Observation, *, device: str
) -> None:
    dtype = torch.float64 if seen.exact else case.dtype
    times = case.times if exercise.kind == "function" else 1
    drawn = partial(_drawn, dtype=case.dtype, times=times, strided=case.strided, exact=seen.exact)
    inputs = drawn(case.inputs, key)
    asked = AskedSession(session, gradient=case.gradient, probed=case.probe is not None)
    if exercise.kind == "module":
        seen.sizes, inputs = inputs
        scale = exercise.weight_scale * case.times
        weights = _drawn_weights(exercise.reference, scale, key, case.dtype, *seen.sizes)
        asked.shapes = None if weights is None else {name: tuple(w.shape) for name, w in weights.items()}
        session.build(seen.sizes, asked.shapes, dtype)
        if weights is not None:
            asked.load(weights)
        if case.keeps:
            numbers = inspect.signature(exercise.reference).bind(*seen.sizes).arguments
            session.keep({name: numbers[name] for name in case.keeps})
        if case.gradient and "dropout" not in argument_names(exercise.reference):
            session.train(True)  # as for any training, so that unwanted dropout shows
    seen.place = device if case.probe is None else "cpu"
    ask = partial(_ask, case.probe)
    # the last of them twice: the judged call has the second one's objects, and none that may have been kept before
    for number, make in enumerate(() if seen.exact else (*case.after, *case.after[-1:])):
        earlier = drawn(make, (*key, "earlier", number))
        asked(*(earlier[1] if exercise.kind == "module" else earlier))
    seen.inputs = inputs
    outputs = ask(asked, inputs)
    session.finish()
    seen.returned = tuple(tuple(t.shape) for t in asked.outputs)
    seen.outputs = tuple(t.detach() for t in outputs)
    if session.touched:
        _note_changes(exercise, case, asked.inputs, session.inputs(), seen)
    elsewhere = any(t.device.type != torch.device(seen.place).type for t in outputs)  # then nothing else is compared
    if case.gradient and not elsewhere:
        _note_gradients(exercise, outputs, asked, key, seen)


def _ask(probe: Probe | None, asked: "AskedSession", inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return what the probe makes of the outputs, or the outputs themselves if their shapes make the probe fail.

    The probe runs on the CPU, where the inputs are drawn; the outputs of an attempt on a GPU are moved there first.
    """
    if probe is None:
        return asked(*inputs)
    try:
        return probe(asked, inputs)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        if not asked.outputs:
            raise
        return asked.returned


@lru_cache(maxsize=128, typed=True)  # a diagnosis asks hundreds of rivals about the same few cases
def _drawn(
    make: Callable[[Draw], tuple[Any, ...]],
    key: tuple[Any, ...],
    *,
    dtype: torch.dtype,
    times: float,
    strided: bool,
    exact: bool,
) -> tuple[Any, ...]:
    """The inputs of a call. Nobody changes them: an attempt gets copies."""
    inputs = make(Draw(*key, dtype=dtype))
    if times != 1:
        inputs = tree_map_only(Tensor, lambda t: times * t if t.is_floating_point() else t, inputs)
    if strided:
        inputs = tuple(
            value if _is_model(value) else tree_map_only(Tensor, _turned_in_memory, value) for value in inputs
        )
    return tree_map_only(Tensor, _to_float64, inputs) if exact else inputs


def _is_model(value: Any) -> bool:
    return isinstance(value, dict) and MODEL in value


def _turned_in_memory(tensor: Tensor) -> Tensor:
    """The same numbers, in memory whose order of axes is reversed."""
    backwards = list(range(tensor.dim()))[::-1]
    return tensor.permute(backwards).contiguous().permute(backwards)


def _to_float64(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


class AskedSession:
    """The attempt as a probe sees it (see `exercise.Asked`)."""

    def __init__(self, session: Session, *, gradient: bool, probed: bool) -> None:
        self.session, self.gradient, self.probed = session, gradient, probed
        self.shapes: dict[str, tuple[int, ...]] | None = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Tensor, ...] = ()

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        self.inputs, self.outputs = inputs, self.session.call(inputs, self.gradient)
        return self.returned

    @property
    def returned(self) -> tuple[Tensor, ...]:
        return tuple(map(self._brought, self.outputs))

    def _brought(self, tensor: Tensor) -> Tensor:
        return tensor.cpu() if tensor.is_cuda and self.probed else tensor

    def left(self) -> list[Tensor]:
        return [self._brought(tensor) for tensor in self.session.inputs()]

    def load(self, weights: dict[str, Tensor]) -> None:
        self.session.load(weights)

    def train(self, mode: bool) -> None:
        self.session.train(mode)


@lru_cache(maxsize=64, typed=True)
def _drawn_weights(
    reference: Any, scale: float, key: tuple[Any, ...], dtype: torch.dtype, *sizes: Any
) -> dict[str, Tensor] | None:
    """The contract's parameters; None if the reference refuses these sizes: then the attempt is judged as it is.

    They depend on the parameters' names alone, never on the order in which an attempt makes its layers.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            module = reference(*sizes)
    except ValueError:
        return None
    shapes = {name: p.shape for name, p in module.named_parameters()}
    draw = Draw(*key, "weights", dtype=dtype)
    drawn = {name: _drawn_weight(name, shapes[name], scale, draw) for name in sorted(shapes)}
    return {name: drawn[name] for name in shapes}


def _drawn_weight(name: str, shape: tuple[int, ...], scale: float, draw: Draw) -> Tensor:
    if len(shape) > 1:
        return draw.normal(*shape, scale=scale * shape[-1] ** -0.5)
    gain = "norm" in name and name.endswith("weight")
    return draw.normal(*shape, scale=0.3, shift=1.0 if gain else 0.4)


def _note_changes(
    exercise: Exercise, case: Case, inputs: tuple[Any, ...], after: list[Tensor], seen: Observation
) -> None:
    """Note which inputs are no longer what they were. Of models, only where the case asks: some are to be trained."""
    changed, left = [], iter(after)
    for name, value in zip(input_names(exercise), inputs, strict=False):
        is_model = _is_model(value)
        parts = {f"{name} ({part})": held for part, held in value[MODEL].items()} if is_model else {name: value}
        for part, held in parts.items():
            pairs = [(t, next(left)) for t in values_in(held)]
            if all(have_same_numbers(before, now) for before, now in pairs) or (is_model and not case.mutation):
                continue
            changed.append(part)
            leaves = [leaf for leaf in tree_leaves(held) if isinstance(leaf, (Tensor, int, float, str))]
            counts = (now for leaf, (_, now) in zip(leaves, pairs, strict=True) if type(leaf) in (int, float))
            seen.counted[part] = tuple(now.item() if now.numel() == 1 else math.nan for now in counts)
    seen.mutated = tuple(changed)


def _note_gradients(
    exercise: Exercise, outputs: tuple[Tensor, ...], asked: AskedSession, key: tuple[Any, ...], seen: Observation
) -> None:
    """Gradients of a fixed random combination of the outputs, with respect to every input and weight.

    What a probe makes of the outputs is differentiated here, the attempt where it lives.
    """
    kept = [(n, t) for n, t in zip(exercise.outputs, outputs, strict=True) if n not in exercise.detachable]
    seen.connected = bool(kept) and all(t.requires_grad for _, t in kept)
    if not seen.connected:
        return
    draw = Draw(*key, "cotangents", dtype=torch.float64)
    loss = torch.zeros((), dtype=torch.float64, device=outputs[0].device)
    for _, tensor in kept:
        loss = loss + (tensor.double() * draw.normal(*tensor.shape).to(tensor.device)).sum()
    carrying = [t for t in asked.outputs if t.requires_grad]
    found = iter(torch.autograd.grad(loss, carrying, allow_unused=True))
    cotangents = [next(found) if t.requires_grad else None for t in asked.outputs]
    leaves = [t for t in tensors_in(asked.inputs) if t.is_floating_point()]
    names = [*(f"input {i}" for i in range(len(leaves))), *sorted(asked.shapes or {})]
    seen.gradients = dict(zip(names, asked.session.backward(cotangents), strict=True))
