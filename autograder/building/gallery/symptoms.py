"""The symptoms that somebody with the bug sees, computed from the engine's observations of the wrong program."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from attnlib.checks import Exercise
from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.naming.error_readers import MEANING
from attnlib.checks.naming.errors import exception
from attnlib.checks.naming.symptoms import broken_contract, gradient_cut_off, one_property, relation_of_numbers
from attnlib.checks.trial.compare import Aspect, How
from attnlib.checks.trial.trial import Trial

Trials = Sequence[Trial]
CLOSE = 1e-4
"""Attention weights that differ by less count as the same."""


def symptoms(exercise: Exercise, trials: Trials, *, leaks: bool) -> list[str]:
    """The ids of all symptoms that the wrong cases show, the most telling first; see `symptom_texts`."""
    wrong = [t for t in trials if t.difference is not None]
    right = [t for t in trials if t.difference is None]
    found = [id for id, shows in ONCE.items() if any(shows(trial) for trial in wrong)]
    if leaks or any(_future_opened(trial) for trial in wrong):
        found.append("leaks_the_future")
    if exercise.name.startswith("train_"):
        found += [id for id, shows in OF_TRAINING.items() if any(shows(trial) for trial in wrong)]
    found += [id for id, shows in ALWAYS.items() if all(shows(trial) for trial in wrong)]
    found += [id for id, has in ONLY.items() if all(has(t) for t in wrong) and any(not has(t) for t in right)]
    if any(not trial.case.after for trial in right) and next(t for t in trials if t.difference is not None).case.after:
        found.append("second_call")  # a kept value may spoil any later case
    named = (
        broken_contract(trials),
        one_property(exercise, trials),
        relation_of_numbers(exercise, trials),
        exception(exercise, trials),
        gradient_cut_off(trials),
    )
    found += [one.id for one in named if one is not None]
    if trials[0].difference is None:
        found.append("passes_a_first_test")
    meanings = {one.id: "raises" for one in named if one is not None and one.heading == MEANING}
    return [*dict.fromkeys(SAME.get(id, meanings.get(id, id)) for id in found)] or ["wrong_numbers"]


def _pairs(trial: Trial) -> Iterator[tuple[Tensor, Tensor]]:
    """The outputs of equal shape, as pairs of the right one and the received one."""
    if not trial.case.other_device:
        for want, have in zip(trial.expected.outputs or (), trial.got.outputs or (), strict=False):
            if want.shape == have.shape and have.device.type == "cpu":
                yield want.cpu(), have.to(want.dtype)


def _some(shows: Callable[[Tensor, Tensor], bool]) -> Callable[[Trial], bool]:
    return lambda trial: any(shows(want, have) for want, have in _pairs(trial))


def _floating(shows: Callable[[Tensor, Tensor], bool]) -> Callable[[Trial], bool]:
    """Restrict a test to outputs that are finite in the right answer."""
    return _some(lambda want, have: _is_finite(want) and want.numel() > 0 and shows(want, have))


def _is_finite(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isfinite().all())


def _shares(shows: Callable[[Tensor, Tensor], bool]) -> Callable[[Trial], bool]:
    """Restrict a test to attention weights, whose rows add up to 1, or to 0 where everything is closed."""

    def shows_of_shares(want: Tensor, have: Tensor) -> bool:
        if want.dim() < 2 or want.shape[-1] < 2 or bool((want < 0).any()) or not _is_finite(have):
            return False
        return bool((want.sum(dim=-1) > 0.5).any()) and _add_up(want, -1) and shows(want, have)

    return _floating(shows_of_shares)


def _add_up(weights: Tensor, dim: int) -> bool:
    """True if they add up to 1, or to 0 where all are zero."""
    sums, empty = weights.sum(dim=dim), (weights == 0).all(dim=dim)
    return bool(((sums - 1).abs() < CLOSE).logical_or(empty).all())


def _masks(shows: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Trial], bool]:
    return _some(lambda want, have: want.dtype == torch.bool and bool(shows(want, have).any()))


def _future_opened(trial: Trial) -> bool:
    """True if a mask is wrongly True for a key after its query; the last query is at the last key."""

    def opened(want: Tensor, have: Tensor) -> bool:
        if want.dtype != torch.bool or want.dim() < 2:
            return False
        behind = want.shape[-1] - want.shape[-2]
        return bool((have & ~want).triu(behind + 1).any())

    return _some(opened)(trial)


def _is_masked(trial: Trial) -> bool:
    """True if there is a mask among the inputs, or the answer makes a causal mask of its own."""
    masked = any(t.dtype == torch.bool for t in tensors_in(trial.expected.inputs))
    return trial.case.probe is None and (masked or _is_triangle(trial))


def _is_triangle(trial: Trial) -> bool:
    return any(
        bool((want.triu(1) == 0).all())
        for want, _ in _pairs(trial)
        if want.dim() > 1 and want.shape[-1] == want.shape[-2] > 2
    )


_closed_seen = _shares(lambda want, have: bool(((want == 0) & (have.abs() > CLOSE)).any()))


def _peak(weights: Tensor) -> float:
    return float(weights.amax(dim=-1).mean())


def _losses(shows: Callable[[Tensor, Tensor], bool]) -> Callable[[Trial], bool]:
    """Restrict a test to the losses of a training: one number a step, falling in the right answer."""

    def shows_of_losses(want: Tensor, have: Tensor) -> bool:
        return want.dim() == 1 and want.numel() > 2 and bool(want[-1] < want[0]) and shows(want, have)

    return _floating(shows_of_losses)


def _is(aspect: Aspect, *hows: How) -> Callable[[Trial], bool]:
    return lambda t: (
        t.difference is not None and t.difference.aspect == aspect and (not hows or t.difference.how in hows)
    )


def _fails(kind: str) -> Callable[[Trial], bool]:
    return lambda trial: trial.got.failure is not None and trial.got.failure.kind == kind


def _size(trial: Trial, below: float, above: float) -> bool:
    """True if every output's norm lies between `below` and `above` times the right one's."""
    sizes = [(float(w.norm()), float(h.norm())) for w, h in _pairs(trial) if _is_finite(w) and _is_finite(h)]
    return bool(sizes) and all(below * right < size < above * right for right, size in sizes)


ONCE: dict[str, Callable[[Trial], bool]] = {
    "not_a_number": _floating(lambda want, have: bool(have.isnan().any())),
    "infinite": _floating(lambda want, have: bool(have.isinf().any())),
    "weight_where_closed": lambda t: _is_masked(t) and _closed_seen(t),
    "mask_too_open": _masks(lambda want, have: have & ~want),
    "mask_too_closed": _masks(lambda want, have: want & ~have),
    "columns_add_up": _shares(lambda want, have: _add_up(have, -2) and not _add_up(have, -1)),
    "rows_do_not_add_up": _shares(lambda want, have: not _add_up(have, -1)),
    "negative_weights": _shares(lambda want, have: bool((have < -CLOSE).any())),
    "too_sharp": _shares(lambda want, have: _add_up(have, -1) and _peak(have) > 1.2 * _peak(want)),
    "too_flat": _shares(lambda want, have: _add_up(have, -1) and 1.2 * _peak(have) < _peak(want)),
    "all_zero": _floating(lambda want, have: not bool(have.any()) and bool(want.any())),
    "other_tokens": _some(lambda want, have: want.dtype == torch.int64 and not torch.equal(want, have)),
    "raises": _fails("raised"),
    "parameters": _fails("parameters"),
    "too_much_memory": _fails("memory"),
    "too_slow": _fails("time"),
    "wrong_shape": _is("shape"),
    "refusals": _is("failure", "accepted"),
}
"""Symptoms that a single wrong case establishes."""

OF_TRAINING: dict[str, Callable[[Trial], bool]] = {
    "loss_does_not_fall": _losses(lambda want, have: not bool(have[-1] < have[0])),
    "loss_wrong_later": _losses(lambda want, have: bool((have[0] - want[0]).abs() < CLOSE * (1 + want[0].abs()))),
}
"""Symptoms like these, where the result is the losses of a training."""

ALWAYS: dict[str, Callable[[Trial], bool]] = {
    "wrong_dtype": _is("dtype"),
    "changes_its_input": _is("mutation", ""),
    "input_not_changed": _is("mutation", "untouched", "counted_otherwise"),
    "no_gradient": _is("gradient", "cut_off", "unreached"),
    "wrong_gradient": _is("gradient"),
    "too_large": lambda t: _size(t, 1.3, float("inf")),
    "too_small": lambda t: _size(t, 1e-9, 0.75),
}
"""Symptoms that every wrong case has to show."""

ONLY: dict[str, Callable[[Trial], bool]] = {
    "other_device": lambda t: t.case.other_device,
    "float64": lambda t: t.case.dtype == torch.float64,
    "not_contiguous": lambda t: t.case.strided,
    "large_scores": lambda t: t.case.times > 1 or t.case.part == "large scores",
    "masked": lambda t: any(tensor.dtype == torch.bool for tensor in tensors_in(t.expected.inputs)),
    "refusals": lambda t: t.case.raises or t.case.part == "error",
}
"""Properties that all wrong cases have, and not all right ones."""

SAME = {
    "at_the_first_call_only": "second_call",
    "kept_for_the_same_sizes": "second_call",
    "kept_whatever_the_sizes": "second_call",
    "kept_from_a_masked_call": "second_call",
    "on_the_cpu_only": "other_device",
    "in_float32_only": "float64",
    "in_contiguous_memory_only": "not_contiguous",
    "for_small_scores_only": "large_scores",
    "with_a_mask": "masked",
    "refused_otherwise": "refusals",
    "not_refused": "refusals",
    "another_dtype": "wrong_dtype",
    "input_changed": "changes_its_input",
    "changed_on_the_way": "changes_its_input",
    "changed_in_place": "changes_its_input",
    "gradient_cut_off": "no_gradient",
    "gradient_of_something_else": "wrong_gradient",
    "one_factor_more": "one_factor",
    "never_ends": "too_slow",
    "for_one_number_of_axes": "number_of_axes",
    "not_for_one_number_of_axes": "number_of_axes",
    "shapes_in_another_order": "outputs_in_another_order",
    **dict.fromkeys(
        (
            "parameter_missing",
            "layers_in_a_list",
            "parameter_shared",
            "tensor_for_parameter",
            "one_parameter_more",
            "layer_under_two_names",
            "parameter_frozen",
            "parameter_of_another_shape",
        ),
        "parameters",
    ),
    **dict.fromkeys(
        (
            "no_such_attribute",
            "arguments_do_not_fit",
            "dtypes_do_not_fit",
            "pattern_does_not_fit",
            "axes_do_not_fit",
            "unpacked_otherwise",
            "pieces_do_not_fit",
            "memory_lies_otherwise",
            "index_out_of_range",
            "classes_on_the_last_axis",
            "returns_something_else",
            "nothing_returned",
            "printed_instead",
            "name_not_defined",
        ),
        "raises",
    ),
}
"""The gallery's one name for symptoms that the engine calls by several."""
