"""Find the first difference between two observations, and decide the tolerances."""

import builtins
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from attnlib.checks.asking.failure import RETURNED, Failure
from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.asking.observation import Measured, Observation, both_shapes
from attnlib.checks.asking.observe import input_names
from attnlib.checks.exercise import Case, Exercise

Aspect = Literal["failure", "shape", "dtype", "device", "values", "mutation", "gradient"]
ASPECTS: tuple[Aspect, ...] = ("failure", "shape", "dtype", "device", "values", "mutation", "gradient")
"""The aspects that are compared, in this order."""
How = Literal[
    "",
    "accepted",
    "mixed",
    "made_on_cpu",
    "moved",
    "untouched",
    "counted_otherwise",
    "cut_off",
    "not_cut_off",
    "unreached",
]
"""The way an aspect differs, where it can differ in several."""
SEPARATION = 100.0  # tolerances by which a misconception must differ on some case
MOST_NAMES = 4  # in one sentence
ALIKE = 40.0
"""Tolerances by which two answers with one mistake may differ: in a training that goes astray, rounding errors grow.

Less than half of `SEPARATION`, so that no answer is like two mistakes.
"""
GUARD = 5e-12  # relative: 1e-12 added to a sum of 1 or more, against 0 / 0, is no mistake, and 1e-9 is


@dataclass(frozen=True, eq=False)
class Numbers:
    """Two tensors of one shape that differ by more than rounding can, and for floating ones by how much."""

    want: Tensor
    have: Tensor
    gap: Tensor | None = None
    allowed: float = 0.0
    farthest: float = math.inf
    """The largest gap; NaN where one of the two numbers is, or both are infinite."""

    @cached_property
    def wrong(self) -> Tensor:
        """The entries that differ; infinity and NaN are right where both tensors have them."""
        if self.gap is None:
            return self.want != self.have
        return ~((self.gap <= self.allowed) | (self.want == self.have) | (self.want.isnan() & self.have.isnan()))

    @cached_property
    def size(self) -> float:
        """The largest difference; infinite if one of the numbers is, or if they aren't floating."""
        if math.isfinite(self.farthest):  # then nothing is NaN or infinite, and the largest gap is wrong
            return self.farthest
        largest = math.inf if self.gap is None else float(self.gap[self.wrong].max())
        return largest if math.isfinite(largest) else math.inf

    @property
    def tolerances(self) -> float:
        """The largest difference, in units of the tolerance."""
        return self.size / self.allowed if self.allowed else float("inf")


@dataclass(frozen=True)
class Difference:
    """The first aspect in which an attempt differs, as data; `verdict.words` makes a sentence of it."""

    aspect: Aspect
    how: How = ""
    output: int = 0
    names: tuple[str, ...] = ()
    """The output, where there are several; the inputs that are changed; the inputs or weights of a gradient."""
    expected: object = None
    got: object = None
    numbers: Numbers | None = None

    @property
    def named(self) -> str:
        """The first of the names, and how many more there are."""
        more = len(self.names) - MOST_NAMES
        return ", ".join(self.names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

    @property
    def tolerances(self) -> float:
        """The number of tolerances by which the numbers differ; infinite if something other than numbers differs."""
        return float("inf") if self.numbers is None else self.numbers.tolerances


def tolerance(largest: float, dtype: torch.dtype, *, terms: int, magnitude: float = 0.0) -> float:
    """The error that rounding alone may cause in `dtype`: 32 ε √terms · max|expected| + 4 ε · magnitude.

    In float64 at least GUARD · max|expected|.

    `largest` is that maximum, and `terms` the length of the longest sum: rounding errors add up like a random walk,
    with its square root. 32 leaves room for the three or four sums in a row of an attention layer and their gradients.
    `magnitude` is the size of the numbers that are subtracted from one another on the way, where it is far above that
    of the result. See Higham, Accuracy and Stability of Numerical Algorithms (2002), section 2.6 (rule of thumb: the
    square root of the bound).
    """
    eps = torch.finfo(dtype).eps
    return max(32 * eps * math.sqrt(terms), GUARD) * max(largest, 1e-3) + 4 * eps * magnitude


def first_difference(
    exercise: Exercise,
    case: Case,
    expected: Observation,
    got: Observation,
    *,
    up_to: Aspect = "gradient",
    slack: float = 1.0,
) -> Difference | None:
    """Compare aspect by aspect in the order of `ASPECTS`, no further than `up_to`; None if nothing differs.

    Outputs may differ by `slack` tolerances.
    """
    if case.other_device:
        theirs, ours = _device_difference(got), None if expected.exact else _device_difference(expected)
        return (Difference("device", "moved") if not theirs else None) if ours else theirs
    limit = ASPECTS.index(up_to)
    changes = _mutation_difference(expected, got) if limit >= ASPECTS.index("mutation") else None
    if expected.failure or got.failure:
        return _failure_difference(expected, got) or changes
    found = _difference_of_kind(exercise, case, expected, got)
    if found is None and limit >= ASPECTS.index("values"):
        for index, (want, have) in enumerate(zip(expected.measured, got.measured, strict=True)):
            if numbers := _numbers(case, want, have, got.terms, slack=slack):
                found = Difference("values", "", index, _name(exercise, case, index), numbers=numbers)
                break
    if found is None and limit >= ASPECTS.index("gradient") and case.gradient:
        found = _gradient_difference(exercise, case, expected, got)
    if found is None and case.gradient:  # after the gradient, which counts for another part
        found = _dtype_difference(exercise, case, expected, got)
    return found or changes


def _mutation_difference(expected: Observation, got: Observation) -> Difference | None:
    """Find inputs that only one of the two changes."""
    more = tuple(name for name in got.mutated if name not in expected.mutated)
    if more:
        return Difference("mutation", names=more)
    fewer = tuple(name for name in expected.mutated if name not in got.mutated)
    if fewer:
        return Difference("mutation", "untouched", names=fewer)
    for name, numbers in expected.counted.items():
        for want, have in zip(numbers, got.counted[name], strict=True):
            if want != have:
                return Difference("mutation", "counted_otherwise", 0, (name,), want, have)
    return None


def _name(exercise: Exercise, case: Case, index: int) -> tuple[str, ...]:
    """Name the quantity that the case measures, or the output where there are several."""
    return (case.measures,) if case.measures else (exercise.outputs[index],) if len(exercise.outputs) > 1 else ()


def _difference_of_kind(exercise: Exercise, case: Case, expected: Observation, got: Observation) -> Difference | None:
    """The first output of another shape; if there is none, of another dtype; if there is none, on another device."""
    outputs = list(zip(expected.measured, got.measured, strict=True))
    for index, (want, have) in enumerate(outputs):
        if have.shape != want.shape:
            return Difference("shape", "", index, _name(exercise, case, index), *both_shapes(expected, got, index))
    if not case.gradient and (found := _dtype_difference(exercise, case, expected, got)):
        return found
    for index, (want, have) in enumerate(outputs):
        place = torch.device(got.place) if expected.exact else want.device
        if have.device.type != place.type:
            return Difference("device", "", index, _name(exercise, case, index), place, have.device)
    return None


def _dtype_difference(exercise: Exercise, case: Case, expected: Observation, got: Observation) -> Difference | None:
    """The first output of another dtype than the inputs, or than the contract's own."""
    follows = expected.exact and (exercise.kind == "module" or _are_floating(expected.inputs))
    for index, (want, have) in enumerate(zip(expected.measured, got.measured, strict=True)):
        dtype = case.dtype if follows and want.dtype.is_floating_point else want.dtype
        if have.dtype != dtype:
            return Difference("dtype", "", index, _name(exercise, case, index), dtype, have.dtype)
    return None


def _are_floating(inputs: object) -> bool:
    """True if any input is floating: a table made from sizes alone has a dtype of its own."""
    return any(t.is_floating_point() for t in tensors_in(inputs))


def agreeing_outputs(exercise: Exercise, case: Case, expected: Observation, got: Observation) -> set[str]:
    """Return the names of the right outputs, regardless of the others."""
    pairs = zip(exercise.outputs, expected.measured, got.measured, strict=False)
    return {
        name for name, want, have in pairs if want.shape == have.shape and _numbers(case, want, have, got.terms) is None
    }


def _failure_difference(expected: Observation, got: Observation) -> Difference | None:
    if expected.failure and got.failure:
        alike = expected.failure.key == got.failure.key
        if alike or (expected.exact and counts_as(expected.failure.exception, got.failure)):
            return None
    if got.failure and not (expected.failure and expected.exact and got.failure.reason in RETURNED):
        return Difference("failure", got=got.failure)
    return Difference("failure", "accepted", expected=expected.failure)


def counts_as(asked: str, failure: Failure) -> bool:
    """True if one of Python's own exceptions was raised, with the name `asked` or a subclass of that one."""
    one, other = vars(builtins).get(asked), vars(builtins).get(failure.exception)
    return isinstance(one, type) and isinstance(other, type) and issubclass(other, one)


def _device_difference(got: Observation) -> Difference | None:
    """On another device only one thing is judged: tensors that the attempt makes on the CPU."""
    if got.devices_mixed:
        return Difference("device", "mixed")
    if got.outputs is not None and any(t.device.type != "meta" for t in got.outputs):
        return Difference("device", "made_on_cpu")
    return None


def coarser(asked: torch.dtype, *through: torch.dtype) -> torch.dtype:
    """The floating dtype with the fewest digits: no result is more exact than what it passed through.

    Half precision that nobody asked for is no excuse: its tolerance would let a cut-off gradient pass.
    """
    half = (torch.float16, torch.bfloat16)
    excused = [d for d in through if d.is_floating_point and d not in half]
    return max([asked, *excused], key=lambda d: torch.finfo(d).eps)


def _numbers(
    case: Case,
    want: Measured,
    have: Measured,
    terms: int,
    *,
    through: tuple[torch.dtype, ...] = (),
    largest: float | None = None,
    slack: float = 1.0,
) -> Numbers | None:
    """Return the difference of two tensors; `largest` sets the size of what is allowed instead of `want`."""
    if not want.dtype.is_floating_point:
        return None if torch.equal(want.on_cpu, have.on_cpu) else Numbers(want.on_cpu, have.on_cpu)
    dtype = coarser(case.dtype, have.dtype, *through)
    size = want.largest if largest is None else largest
    allowed = slack * tolerance(size, dtype, terms=terms, magnitude=case.magnitude)
    gap = (have.doubled - want.doubled).abs()
    farthest = float(gap.max()) if gap.numel() else 0.0
    if farthest <= allowed:
        return None
    found = Numbers(want.on_cpu, have.on_cpu, gap, allowed, farthest)
    return found if math.isfinite(farthest) or bool(found.wrong.any()) else None


def _gradient_difference(exercise: Exercise, case: Case, want: Observation, have: Observation) -> Difference | None:
    if want.connected != have.connected:
        return Difference("gradient", "cut_off" if want.connected else "not_cut_off")
    if not want.connected:
        return None
    expected, got = want.measured_gradients, have.measured_gradients
    how: dict[str, Any] = {
        "through": tuple(t.dtype for t in have.outputs or ()),
        # one scale for all: a key bias's gradient is exactly zero; anything else is rounding in other terms
        "largest": max(gradient.largest for gradient in expected.values()),
    }
    wrong = {
        key: numbers
        for key, gradient in expected.items()
        if (numbers := _numbers(case, gradient, got[key], 4 * have.terms, **how))
    }
    if not wrong:
        return None
    first, names = next(iter(wrong)), _leaf_names(exercise, want)
    unreached = [key for key in wrong if not bool(got[key].tensor.any())]
    if first in unreached:
        return Difference(
            "gradient", "unreached", names=tuple(names.get(key, key) for key in unreached), numbers=wrong[first]
        )
    return Difference("gradient", names=(names.get(first, first),), numbers=wrong[first])


def _leaf_names(exercise: Exercise, seen: Observation) -> dict[str, str]:
    names: list[str] = []
    for name, value in zip(input_names(exercise), seen.inputs, strict=False):
        leaves = [t for t in tensors_in(value) if t.is_floating_point()]
        names += [name] if len(leaves) == 1 else [f"{name}[{i}]" for i in range(len(leaves))]
    return {f"input {i}": name for i, name in enumerate(names)}
