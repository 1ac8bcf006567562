"""Plain relations between a wrong result's numbers and the right ones, each with the symptom it shows."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, permutations

import torch
from torch import Tensor

from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.trial.trial import Trial

Relation = Callable[[Tensor, Tensor, Trial], bool | str]
"""A relation of the right numbers to those that came: False, True, or the number by which it holds."""

FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    Tensor.exp,
    Tensor.log,
    Tensor.square,
    Tensor.sqrt,
    Tensor.abs,
    Tensor.relu,
    Tensor.round,
    Tensor.reciprocal,
    Tensor.tanh,
    Tensor.sigmoid,
    Tensor.sin,
    Tensor.cos,
)

HUGE = 1e30
"""A number that replaces -inf, say: beside it, all others would look alike."""


def _alike(want: Tensor, have: Tensor) -> bool:
    if want.shape != have.shape:
        return False
    one, other = want.double(), have.double()
    if not bool(one.isfinite().all()) or not bool(other.isfinite().all()):
        return torch.equal(one, other)
    if one.numel() and float(one.abs().max()) > HUGE:
        return torch.equal(one, other)
    return bool(((one - other).abs() <= 1e-4 * one.abs().max() + 1e-6).all()) if one.numel() else True


def digits(want: Tensor, have: Tensor) -> int:
    """Return to how many digits the numbers agree, relative to the largest: at most 15, and 0 if they don't agree.

    >>> digits(torch.tensor([2.0, 1000.0]), torch.tensor([3.0, 1000.0]))
    3
    """
    if want.shape != have.shape:
        return 0
    one, other = want.double(), have.double()
    if torch.equal(one, other):
        return 15
    gap, largest = float((one - other).abs().max()), float(one.abs().max())
    if not math.isfinite(gap):
        return 0
    return max(4 if gap <= 1e-6 else 0, int(-math.log10(max(gap / largest, 1e-15))) if gap < largest else 0)


def _not_a_number(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return have.is_floating_point() and bool(have.isnan().any()) and not bool(want.isnan().any())


def _negated(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.dtype == torch.bool and want.shape == have.shape and torch.equal(~want, have.bool())


def _axes_in_another_order(want: Tensor, have: Tensor, trial: Trial) -> bool:
    orders = list(permutations(range(want.dim())))[1:] if want.dim() == have.dim() <= 5 else []
    return any(_alike(want.permute(order), have) for order in orders)


def _one_entry_of_an_axis(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return any(_alike(part, have) for part in _parts(want))


def _one_entry_for_all(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.shape == have.shape and any(
        _alike(want.select(axis, place).unsqueeze(axis).expand_as(want), have)
        for axis in range(want.dim())
        for place in (0, -1)
        if want.shape[axis]
    )


def _parts(want: Tensor) -> Iterator[Tensor]:
    for axis in range(want.dim()):
        for place in (0, -1):
            if want.shape[axis]:
                yield want.select(axis, place)
                yield want.select(axis, place).unsqueeze(axis)


def _the_same_along_an_axis(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if all entries along an axis are equal, but the right ones differ."""
    if not _comparable(want, have) or not bool(have.isfinite().all()):
        return False
    axes = [axis for axis in range(want.dim()) if want.shape[axis] > 1]
    return any(_alike(_first(have, axis), have) and not _alike(_first(want, axis), want) for axis in axes)


def _first(tensor: Tensor, axis: int) -> Tensor:
    return tensor.narrow(axis, 0, 1).expand_as(tensor)


def _on_a_diagonal(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if each entry of an axis was combined with all entries, and the right results are on the diagonal."""
    if not want.is_floating_point() or have.dim() <= want.dim() or have.dim() > 6:
        return False
    for one, other in combinations(range(have.dim()), 2):
        if have.shape[one] == have.shape[other]:
            own = have.diagonal(0, one, other)
            moved = (own.movedim(-1, axis) for axis in range(own.dim()))
            if any(_alike(want, found) or _on_a_diagonal(want, found, trial) for found in moved):
                return True
    return False


def _longer(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if the result begins with the right one and goes on along an axis."""
    return _begins_with(want, have)


def _shorter(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if the result ends too early along an axis."""
    return _begins_with(have, want)


def _begins_with(some: Tensor, more: Tensor) -> bool:
    if some.dim() != more.dim() or not some.numel():
        return False
    axes = [axis for axis, (n, longer) in enumerate(zip(some.shape, more.shape, strict=True)) if n != longer]
    if len(axes) != 1 or some.shape[axes[0]] > more.shape[axes[0]]:
        return False
    return _alike(some, more.narrow(axes[0], 0, some.shape[axes[0]]))


def _summed(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not want.is_floating_point():
        return False
    return any(
        _alike(total, have)
        for axis in range(want.dim())
        for keep in (False, True)
        for total in (want.sum(axis, keepdim=keep), want.mean(axis, keepdim=keep))
    )


def _in_another_shape(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.shape != have.shape and want.numel() == have.numel() and _alike(want.flatten(), have.flatten())


def _in_other_places(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not (want.is_floating_point() and have.is_floating_point()) or want.numel() != have.numel():
        return False
    return _alike(want.double().flatten().sort().values, have.double().flatten().sort().values)


def _comparable(want: Tensor, have: Tensor) -> bool:
    """True if both have the same shape and hold numbers rather than truth values."""
    return want.shape == have.shape and want.is_floating_point() and have.is_floating_point()


def _with_a_factor(want: Tensor, have: Tensor, trial: Trial) -> str:
    if not _comparable(want, have):
        return ""
    factor = float((want * have).sum() / (want * want).sum().clamp_min(1e-30))
    return f"{factor:.4g}" if 1e-3 < abs(factor) < float("inf") and _alike(want * factor, have) else ""


def _with_a_term(want: Tensor, have: Tensor, trial: Trial) -> str:
    if not _comparable(want, have):
        return ""
    shift = float((have - want).mean())
    return f"{shift:.4g}" if _alike(want + shift, have) else ""


def _rows_left_at_zero(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if some rows are zero that shouldn't be, and all others are right."""
    if not _comparable(want, have) or want.dim() < 2:
        return False
    empty = (have == 0).all(dim=-1) & (want != 0).any(dim=-1)
    some_right = bool((have != 0).any())
    return some_right and bool(empty.any()) and _alike(want.masked_fill(empty[..., None], 0.0), have)


def _rows_with_a_factor(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """True if every row is the right one times a number of its own."""
    if not _comparable(want, have) or want.dim() < 2 or want.shape[-1] < 2:
        return False
    factor = (want * have).sum(-1, keepdim=True) / (want * want).sum(-1, keepdim=True).clamp_min(1e-30)
    return bool(have.isfinite().all()) and bool((factor.abs() > 1e-3).any()) and _alike(want * factor, have)


def _rows_with_a_term(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not _comparable(want, have) or want.dim() < 2 or want.shape[-1] < 2:
        return False
    return bool(have.isfinite().all()) and _alike(want + (have - want).mean(-1, keepdim=True), have)


def _inputs(want: Tensor, trial: Trial) -> list[Tensor]:
    tensors = tensors_in(trial.expected.inputs)
    return [t.double() for t in tensors if t.is_floating_point() and t.shape == want.shape]


def _plus_an_input(want: Tensor, have: Tensor, trial: Trial) -> bool:
    found = want.is_floating_point() and want.shape == have.shape
    return found and any(_alike(want + sign * t, have) for t in _inputs(want, trial) for sign in (1, -1))


def _an_input(want: Tensor, have: Tensor, trial: Trial) -> bool:
    return want.is_floating_point() and any(_alike(t, have) for t in _inputs(have, trial))


def _after_a_function(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not _comparable(want, have):
        return False
    right = want.double()
    softmaxes = (right.softmax(axis) for axis in range(right.dim()))
    return any(_alike(after, have) for after in (*(function(right) for function in FUNCTIONS), *softmaxes))


def are_shapes_of_others(trial: Trial) -> bool:
    """True if the outputs' shapes are the right ones, but none is in its own place."""
    right, came = ([tuple(t.shape) for t in seen.outputs or ()] for seen in (trial.expected, trial.got))
    return sorted(right) == sorted(came) and all(one != other for one, other in zip(right, came, strict=True))


def _of_another_output(want: Tensor, have: Tensor, trial: Trial) -> bool:
    others = [
        t for i, t in enumerate(trial.expected.outputs or ()) if trial.difference and i != trial.difference.output
    ]
    return any(_alike(other, have) for other in others)


RELATIONS: dict[str, Relation] = {
    "not_a_number": _not_a_number,
    "upside_down": _negated,
    "outputs_in_another_order": _of_another_output,
    "axes_in_another_order": _axes_in_another_order,
    "in_another_shape": _in_another_shape,
    "one_entry_only": _one_entry_of_an_axis,
    "one_entry_for_all": _one_entry_for_all,
    "entries_crossed": _on_a_diagonal,
    "goes_on": _longer,
    "ends_early": _shorter,
    "summed_away": _summed,
    "one_factor_more": _with_a_factor,
    "one_term_more": _with_a_term,
    "rows_left_at_zero": _rows_left_at_zero,
    "rows_with_a_factor": _rows_with_a_factor,
    "rows_with_a_term": _rows_with_a_term,
    "input_added": _plus_an_input,
    "input_comes_back": _an_input,
    "one_function_more": _after_a_function,
    "in_other_places": _in_other_places,
    "the_same_along_an_axis": _the_same_along_an_axis,
}
"""The symptoms that are relations of numbers, in the order in which they are looked for."""
