"""Where two observations first differ, and the policy of tolerances."""

import builtins
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.asking.attempt import Failure
from attnlib.checks.asking.observe import Observation, input_names
from attnlib.checks.exercise import Case, Exercise

ASPECTS = ("failure", "shape", "dtype", "device", "values", "mutation", "gradient")
SEPARATION = 100.0  # a misconception must differ from the reference by so many tolerances on some case
GUARD = 5e-12  # relative: 1e-12 added to a denominator against 0 / 0 is no mistake, and 1e-9 is


@dataclass(frozen=True)
class Difference:
    """The first aspect in which an attempt is not as expected, in one sentence, and by how many tolerances."""

    aspect: str
    text: str
    tolerances: float = float("inf")
    output: int = 0


def tolerance(expected: Tensor, dtype: torch.dtype, *, terms: int, magnitude: float = 0.0) -> float:
    """The error that rounding alone may cause in `dtype`: 32 ε √terms · max|expected| + 4 ε · magnitude.

    In float64 at least GUARD · max|expected|.

    `terms` is the length of the longest sum: rounding errors add up like a random walk, with its square root. 32 leaves
    room for the three or four sums in a row of an attention layer and their gradients. `magnitude` is the size of the
    numbers that are subtracted from one another on the way, where it is far above that of the result. See Higham,
    Accuracy and Stability of Numerical Algorithms (2002), section 2.6 (rule of thumb: the square root of the bound).
    """
    finite = expected[expected.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    eps = torch.finfo(dtype).eps
    return max(32 * eps * terms**0.5, GUARD) * max(largest, 1e-3) + 4 * eps * magnitude


def first_difference(
    exercise: Exercise, case: Case, expected: Observation, got: Observation, *, device: str, up_to: str = "gradient"
) -> Difference | None:
    """Compare aspect by aspect, in the order of `ASPECTS`, no further than `up_to`; None if nothing differs."""
    if case.other_device:
        theirs, ours = _device_difference(got), None if expected.exact else _device_difference(expected)
        if ours and not theirs:
            return Difference("device", "follows its inputs to another device")
        return None if ours else theirs
    if expected.failure or got.failure:
        return _failure_difference(expected, got)
    assert expected.outputs is not None
    assert got.outputs is not None
    limit = ASPECTS.index(up_to)
    for index, name in enumerate(exercise.outputs):
        label = "" if len(exercise.outputs) == 1 else f"{name}: "
        want, have = expected.outputs[index], got.outputs[index]
        if have.shape != want.shape:
            return Difference(
                "shape", f"{label}expected shape {tuple(want.shape)}, got {tuple(have.shape)}", output=index
            )
    for index, name in enumerate(exercise.outputs):
        label = "" if len(exercise.outputs) == 1 else f"{name}: "
        want, have = expected.outputs[index], got.outputs[index]
        wanted = case.dtype if expected.exact and want.is_floating_point() else want.dtype
        if have.dtype != wanted and not case.gradient:
            return Difference(
                "dtype", f"{label}expected dtype {_short(wanted)}, got {_short(have.dtype)}", output=index
            )
        place = torch.device(device) if expected.exact else want.device
        if have.device.type != place.type:
            return Difference("device", f"{label}expected a tensor on {place}, got one on {have.device}", output=index)
    if limit >= ASPECTS.index("values"):
        for index, name in enumerate(exercise.outputs):
            label = "" if len(exercise.outputs) == 1 else f"{name}: "
            found = _value_difference(case, expected.outputs[index], got.outputs[index], got.terms, label)
            if found:
                return Difference("values", found[0], found[1], index)
    if limit >= ASPECTS.index("mutation") and bool(got.mutated) != bool(expected.mutated):
        named = ", ".join(got.mutated)
        return Difference("mutation", f"changes its input {named} in place" if named else "leaves its input as it is")
    if limit >= ASPECTS.index("gradient") and case.gradient:
        return _gradient_difference(exercise, case, expected, got)
    return None


def agreeing_outputs(exercise: Exercise, case: Case, expected: Observation, got: Observation) -> set[str]:
    """The names of the outputs that are right, whatever the others are."""
    pairs = zip(exercise.outputs, expected.outputs or (), got.outputs or (), strict=False)
    return {
        name
        for name, want, have in pairs
        if want.shape == have.shape and _value_difference(case, want, have, got.terms) is None
    }


def _failure_difference(expected: Observation, got: Observation) -> Difference | None:
    if expected.failure and got.failure and _alike(expected.failure, got.failure):
        return None
    if expected.exact and expected.failure and got.failure and counts_as(_raised(expected.failure), got.failure):
        return None
    if got.failure:
        return Difference("failure", got.failure.text)
    assert expected.failure is not None
    error = expected.failure.text.removeprefix("raised ")
    return Difference("failure", f"takes these inputs, and must refuse them with an error such as {error}")


def _alike(one: Failure, other: Failure) -> bool:
    """Failures of one kind; of two exceptions, those of one type."""
    return one.kind == other.kind and one.text.split(":")[0] == other.text.split(":")[0]


def counts_as(asked: str, failure: Failure) -> bool:
    """Whether one of Python's own exceptions was raised, that of the name `asked` or a special case of it."""
    one, other = vars(builtins).get(asked), vars(builtins).get(_raised(failure))
    return isinstance(one, type) and isinstance(other, type) and issubclass(other, one)


def _raised(failure: Failure) -> str:
    return failure.text.removeprefix("raised ").split(":")[0] if failure.kind == "raised" else ""


def _device_difference(got: Observation) -> Difference | None:
    """On the meta device only one thing is judged: tensors that the attempt makes elsewhere."""
    hint = "make new tensors with device=x.device, or from an input (x.new_zeros, torch.zeros_like)"
    if got.devices_mixed:
        return Difference("device", f"mixes tensors of two devices: {hint}")
    if got.outputs is not None and any(t.device.type != "meta" for t in got.outputs):
        return Difference("device", f"returns a tensor on the CPU whatever device the input is on: {hint}")
    return None


def coarser(asked: torch.dtype, *through: torch.dtype) -> torch.dtype:
    """The floating dtype with the fewest digits: no result is more exact than what it passed through.

    Half precision that nobody asked for is no excuse: its tolerance would let a cut-off gradient pass.
    """
    half = (torch.float16, torch.bfloat16)
    excused = [d for d in through if d.is_floating_point and d not in half]
    return max([asked, *excused], key=lambda d: torch.finfo(d).eps)


def _value_difference(
    case: Case,
    want: Tensor,
    have: Tensor,
    terms: int,
    label: str = "",
    *,
    through: tuple[torch.dtype, ...] = (),
    scale: Tensor | None = None,
) -> tuple[str, float] | None:
    """The first place where two tensors differ, and by how many tolerances; `scale` sets the size instead of `want`."""
    want, have = want.detach().cpu(), have.detach().cpu()
    if not want.is_floating_point():
        wrong = want != have
        size = float("inf")
        allowed = 0.0
    else:
        dtype, size_of = coarser(case.dtype, have.dtype, *through), want if scale is None else scale
        allowed = tolerance(size_of, dtype, terms=terms, magnitude=case.magnitude)
        gap = (have.double() - want.double()).abs()
        wrong = ~(gap <= allowed)
        if not bool(wrong.any()):
            return None
        wrong &= ~((have.double() == want.double()) | (have.isnan() & want.isnan()))
        size = float(gap[wrong].max()) if bool(wrong.any()) and bool(gap[wrong].isfinite().all()) else float("inf")
    if not bool(wrong.any()):
        return None
    place = tuple(int(i) for i in wrong.nonzero()[0])
    bad = have[~have.isfinite()] if have.is_floating_point() and bool(want.isfinite().all()) else have[:0]
    what = f"{int(wrong.sum())} of {wrong.numel()} numbers differ"
    if bad.numel():
        what = f"{bad.numel()} of {have.numel()} numbers are {'NaN' if bool(bad.isnan().any()) else 'infinite'}"
    elif size < float("inf"):
        what += f", by up to {size:.3g} (allowed for rounding: {allowed:.1e})"
    index = f"[{', '.join(map(str, place))}]" if place else "the only number"
    expected, found = _numbers(want[place], have[place])
    text = f"{label}first difference at {index}: expected {expected}, got {found}; {what}"
    return text, size / allowed if allowed else float("inf")


def _gradient_difference(exercise: Exercise, case: Case, want: Observation, have: Observation) -> Difference | None:
    if want.connected != have.connected:
        if want.connected:
            return Difference("gradient", "no gradient flows back: the output is cut off from the inputs")
        return Difference("gradient", "a gradient flows where none should")
    if not want.connected:
        return None
    assert want.gradients is not None
    assert have.gradients is not None
    names = _leaf_names(exercise, want)
    through = tuple(t.dtype for t in have.outputs or ())
    # One scale for all: the gradient of a key's bias is exactly zero, and what is left of it is others' rounding.
    scale = torch.stack([g.detach().abs().max().cpu().double() for g in want.gradients.values() if g.numel()])
    for key, expected in want.gradients.items():
        found = _value_difference(case, expected, have.gradients[key], 4 * have.terms, through=through, scale=scale)
        if found:
            name = names.get(key, key)
            still = not bool(have.gradients[key].any())
            text = (
                f"no gradient reaches {name}" if still else f"the gradient with respect to {name} is wrong; {found[0]}"
            )
            return Difference("gradient", text, found[1])
    return None


def _leaf_names(exercise: Exercise, seen: Observation) -> dict[str, str]:
    names: list[str] = []
    for name, value in zip(input_names(exercise), seen.inputs, strict=False):
        leaves = [t for t in tree_leaves(value) if isinstance(t, Tensor) and t.is_floating_point()]
        names += [name] if len(leaves) == 1 else [f"{name}[{i}]" for i in range(len(leaves))]
    return {f"input {i}": name for i, name in enumerate(names)}


def _numbers(want: Tensor, have: Tensor) -> tuple[str, str]:
    """Both with four digits, or with as many as it takes to see a difference."""
    if not want.is_floating_point():
        return str(want.item()), str(have.item())
    shown = [(f"{want.item():.{digits}g}", f"{have.item():.{digits}g}") for digits in (4, 8, 12, 17)]
    return next((pair for pair in shown if pair[0] != pair[1]), shown[-1])


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
