"""What a wrong result shows by itself, where no misconception fits: a name that is true of it however it came about.

A misconception computes what the attempt computes; a symptom is a plain relation between what came and what is right,
which has to hold in every visible case that is wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.asking.failure import Reason
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.isolate import isolate
from attnlib.checks.naming.symptom_names import SYMPTOMS
from attnlib.checks.trial.trial import Trial, visibly_wrong

Found = tuple[str, tuple[str, ...]]
"""A symptom's id, and what its title is filled with."""
Relation = Callable[[Tensor, Tensor, Trial], bool | str]
"""Of what is right and what came: whether it holds, or by which number."""

PARAMETERS: dict[Reason, str] = {
    "missing": "parameter_missing",
    "unasked": "one_parameter_more",
    "frozen": "parameter_frozen",
    "another_shape": "parameter_of_another_shape",
}
"""What is called what; parameters under other names have said enough themselves."""

CUT_OFF = ("cut_off", "unreached")  # of a gradient: see `Difference.how`
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
FEWEST = 6  # numbers: fewer may stand in a relation by chance


def broken_contract(trials: Sequence[Trial]) -> Misconception | None:
    """What the attempt is or returns, which inputs it refuses, and whether gradients come through."""
    wrong = visibly_wrong(trials)
    return _named(_of_kind(wrong) or _of_errors(wrong) or _of_gradients(wrong, all_of_them=True)) if wrong else None


def gradient_cut_off(trials: Sequence[Trial]) -> Misconception | None:
    """A gradient that does not come through, whatever else is wrong."""
    return _named(_of_gradients(visibly_wrong(trials)))


def one_property(exercise: Exercise, trials: Sequence[Trial]) -> Misconception | None:
    """Name the property that all wrong cases have, and no right one (see `isolate`)."""
    found = isolate(exercise, trials)
    if len(found.traits) != 1 or found.traits[0].id == "not_refused":
        return None  # inputs that have to be refused have a name of their own
    return _named((found.traits[0].id, found.traits[0].axes))


def relation_of_numbers(trials: Sequence[Trial]) -> Misconception | None:
    """What the numbers that came are to the right ones."""
    wrong = visibly_wrong(trials)
    # what a probe makes of the numbers, or rounding, may hide the relation
    plain = [t for t in wrong if t.case.probe is None and not t.case.magnitude]
    if 2 * sum(t.got.failure is not None for t in wrong) > len(wrong):
        return None  # the exception says more than the few numbers that came
    pairs = [pair for t in plain or wrong if (pair := _compared(t)) is not None]
    if not pairs or max(want.numel() for want, _, _ in pairs) < FEWEST:
        return None
    alike = [_alike(want, have) for want, have, _ in pairs]
    if any(alike):  # any other relation would hold there, too
        dtype = any(t.difference and t.difference.aspect == "dtype" for _, _, t in pairs)
        return _named(("another_dtype" if dtype else "less_exact", ())) if all(alike) else None
    # a row of a single number is a multiple of any other, and no evidence of what a row is to another
    pairs = [pair for pair in pairs if pair[0].dim() == 0 or pair[0].shape[-1] > 1] or pairs
    for name, relation in RELATIONS.items():
        if all(found := [relation(*pair) for pair in pairs]):
            return _named((name, (str(found[0]),)))
    return None


def _named(found: Found | None) -> Misconception | None:
    if found is None:
        return None
    name, filled = found
    return replace(SYMPTOMS[name], title=SYMPTOMS[name].title.format(*filled))


def _of_kind(wrong: Sequence[Trial]) -> Found | None:
    """The wrong parameters, or the wrong kind of result."""
    failures = [t.got.failure for t in wrong if t.got.failure is not None]
    if not failures or len({f.kind for f in failures}) > 1:
        return None
    reason = failures[0].reason
    if reason in PARAMETERS:
        return PARAMETERS[reason], ()
    if reason == "nothing":
        return ("printed_instead" if any(t.got.printed for t in wrong) else "nothing_returned"), ()
    return ("returns_something_else", ()) if reason == "something_else" else None


def _of_errors(wrong: Sequence[Trial]) -> Found | None:
    """Inputs that have to be refused."""
    if not all(t.case.raises or t.case.part == "error" for t in wrong):
        return None
    return ("not_refused" if all(t.got.failure is None for t in wrong) else "refused_otherwise", ())


def _of_gradients(wrong: Sequence[Trial], all_of_them: bool = False) -> Found | None:
    """A gradient of zero where there should be one, behind values that are right."""
    found = [t.difference for t in wrong if t.difference is not None and t.difference.aspect == "gradient"]
    if not found or (all_of_them and len(found) < len(wrong)):
        return None
    return ("gradient_cut_off", found[0].names or ("the inputs",)) if all(d.how in CUT_OFF for d in found) else None


def _compared(trial: Trial) -> tuple[Tensor, Tensor, Trial] | None:
    """The first output that is wrong: what is right, and what came."""
    difference = trial.difference
    if difference is None or difference.aspect not in ("shape", "dtype", "values"):
        return None
    if trial.expected.outputs is None or trial.got.outputs is None:
        return None
    want, have = trial.expected.outputs[difference.output], trial.got.outputs[difference.output]
    return _in_double(want), _in_double(have), trial


def _in_double(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


def _alike(want: Tensor, have: Tensor) -> bool:
    if want.shape != have.shape:
        return False
    one, other = want.double(), have.double()
    if not bool(one.isfinite().all()) or not bool(other.isfinite().all()):
        return torch.equal(one, other)
    return bool(((one - other).abs() <= 1e-4 * one.abs().max() + 1e-6).all()) if one.numel() else True


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
    """Whether the two have numbers, not truth values, entry by entry."""
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


def _rows_with_a_factor(want: Tensor, have: Tensor, trial: Trial) -> bool:
    """Every row is the right one times a number of its own."""
    if not _comparable(want, have) or want.dim() < 2 or want.shape[-1] < 2:
        return False
    factor = (want * have).sum(-1, keepdim=True) / (want * want).sum(-1, keepdim=True).clamp_min(1e-30)
    return bool(have.isfinite().all()) and bool((factor.abs() > 1e-3).any()) and _alike(want * factor, have)


def _rows_with_a_term(want: Tensor, have: Tensor, trial: Trial) -> bool:
    if not _comparable(want, have) or want.dim() < 2 or want.shape[-1] < 2:
        return False
    return bool(have.isfinite().all()) and _alike(want + (have - want).mean(-1, keepdim=True), have)


def _inputs(want: Tensor, trial: Trial) -> list[Tensor]:
    tensors = [t for t in tree_leaves(trial.expected.inputs) if isinstance(t, Tensor) and t.is_floating_point()]
    return [t.double() for t in tensors if t.shape == want.shape]


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
    "summed_away": _summed,
    "one_factor_more": _with_a_factor,
    "one_term_more": _with_a_term,
    "rows_with_a_factor": _rows_with_a_factor,
    "rows_with_a_term": _rows_with_a_term,
    "input_added": _plus_an_input,
    "input_comes_back": _an_input,
    "one_function_more": _after_a_function,
    "in_other_places": _in_other_places,
}
"""The symptoms that are relations of numbers, in the order in which they are looked for."""
