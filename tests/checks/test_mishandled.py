"""What goes wrong with tensors in any exercise is on no list of misconceptions: what the result shows tells it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks import Case, Exercise
from attnlib.checks.course.tensors import handled
from attnlib.checks.course.wronglines import made
from attnlib.checks.draw import Draw
from attnlib.checks.naming.errors import exception
from attnlib.checks.naming.symptoms import (
    broken_contract,
    changed_on_the_way,
    gradient_cut_off,
    one_property,
    relation_of_numbers,
)
from autograder.proof.observed import Observed

pytestmark = pytest.mark.slow

Answer = Callable[..., Any]
Inputs = tuple[Any, ...]


def tensors(inputs: Inputs) -> list[Tensor]:
    return [t for t in tree_leaves(inputs) if isinstance(t, Tensor)]


def each(change: Callable[[Tensor], Tensor], result: Any) -> Any:
    return tree_map_only(Tensor, change, result)


class Mishandle:
    """The right answer, handled as no tensor should be."""

    def nothing_returned(self, answer: Answer, inputs: Inputs) -> None:
        answer(*inputs)

    def input_changed(self, answer: Answer, inputs: Inputs) -> Any:
        copies = each(Tensor.clone, inputs)
        with torch.no_grad():
            tensors(inputs)[0].zero_()
        return answer(*copies)

    def always_float32(self, answer: Answer, inputs: Inputs) -> Any:
        return each(Tensor.float, answer(*inputs))

    def always_float64(self, answer: Answer, inputs: Inputs) -> Any:
        return each(Tensor.double, answer(*inputs))

    def new_tensor_filled_in(self, answer: Answer, inputs: Inputs) -> Any:
        def filled(result: Tensor) -> Tensor:
            new = torch.zeros(result.shape)
            new[...] = result
            return new

        return each(filled, answer(*inputs))

    def on_the_cpu_only(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t + torch.zeros(t.shape, dtype=t.dtype), answer(*inputs))

    def contiguous_memory_only(self, answer: Answer, inputs: Inputs) -> Any:
        for tensor in tensors(inputs):
            tensor.view(-1)
        return answer(*inputs)

    def detached(self, answer: Answer, inputs: Inputs) -> Any:
        return each(Tensor.detach, answer(*inputs))

    def without_gradients(self, answer: Answer, inputs: Inputs) -> Any:
        with torch.no_grad():
            return answer(*inputs)

    def first_detached(self, answer: Answer, inputs: Inputs) -> Any:
        return answer(each(Tensor.detach, inputs[0]), *inputs[1:])

    def others_detached(self, answer: Answer, inputs: Inputs) -> Any:
        return answer(inputs[0], *each(Tensor.detach, inputs[1:]))

    def input_made_float32(self, answer: Answer, inputs: Inputs) -> Any:
        return answer(*(t.float() if t is not None and t.is_floating_point() else t for t in inputs))

    def a_batch_of_one_only(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t[:1].expand_as(t), answer(*inputs))

    def first_entry_alone(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t[0], answer(*inputs))

    def first_entry_kept(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t[:1], answer(*inputs))

    def axis_put_before(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t if t.shape[:1] == (1,) else t.unsqueeze(0), answer(*inputs))

    def squeezed(self, answer: Answer, inputs: Inputs) -> Any:
        return each(torch.squeeze, answer(*inputs))

    def batch_second(self, answer: Answer, inputs: Inputs) -> Any:
        return each(lambda t: t.transpose(0, 1), answer(*inputs))

    def entries_in_a_list(self, answer: Answer, inputs: Inputs) -> Any:
        return list(answer(*inputs))

    def results_in_a_dictionary(self, answer: Answer, inputs: Inputs) -> Any:
        return dict(enumerate(answer(*inputs)))


TOLD = {
    "nothing_returned": "nothing_returned",
    "input_changed": "input_changed",
    "always_float32": "another_dtype in_float32_only",
    "always_float64": "another_dtype",
    "new_tensor_filled_in": "another_dtype in_float32_only on_the_cpu_only",
    "on_the_cpu_only": "on_the_cpu_only",
    "contiguous_memory_only": "in_contiguous_memory_only memory_lies_otherwise",
    "detached": "gradient_cut_off",
    "without_gradients": "gradient_cut_off",
    "first_detached": "gradient_cut_off",
    "others_detached": "gradient_cut_off",
    "input_made_float32": "in_float32_only another_dtype dtypes_do_not_fit",
    "a_batch_of_one_only": "for_a_batch_of_one_only one_entry_for_all",
    "first_entry_alone": "one_entry_only",
    "first_entry_kept": "one_entry_only for_a_batch_of_one_only for_one_number_of_axes",
    "axis_put_before": "for_a_batch_of_one_only in_another_shape for_one_number_of_axes",
    "squeezed": "in_another_shape not_for_a_batch_of_one",
    "batch_second": "axes_in_another_order axes_do_not_fit",
    "entries_in_a_list": "returns_something_else",
    "results_in_a_dictionary": "returns_something_else",
}
"""The symptoms that are true of each."""

CASE: dict[str, dict[str, Any]] = {
    "input_changed": {"mutation": True},
    "always_float32": {"dtype": torch.float64, "part": "robustness"},
    "new_tensor_filled_in": {"other_device": True},
    "on_the_cpu_only": {"other_device": True},
    "contiguous_memory_only": {"strided": True},
    "detached": {"gradient": True},
    "without_gradients": {"gradient": True},
    "first_detached": {"gradient": True},
    "others_detached": {"gradient": True},
    "input_made_float32": {"dtype": torch.float64},
}
"""The case that shows it, where it takes a special one."""

NO_BATCH = (
    *("write_matrices", "search", "company", "causal_mask", "invent_control", "packed_causal", "train_head"),
    *("alibi_bias", "sinusoidal_positions", "block_cost"),
    *(
        "two_heads_by_hand",
        "mlp_by_hand",
        "ov_circuit",
        "induction_by_hand",
        "train_and_film",
        "find_heads",
        "break_repeats",
        "find_head",
    ),
)
OF_A_BATCH = (
    "a_batch_of_one_only",
    "first_entry_alone",
    "first_entry_kept",
    "axis_put_before",
    "squeezed",
    "batch_second",
)
A_NUMBER = ("next_token_loss",)
OF_SEVERAL = (*OF_A_BATCH, "always_float32", "always_float64", "new_tensor_filled_in", "entries_in_a_list")
"""A result without axes has no entries, and one number stands in no relation: it is rejected, and no more is said."""
NOTHING_TO_SEE = {
    "company": "squeezed",
    "fill_in": "squeezed",
    "atom_map": "squeezed",
    "search": "squeezed input_changed",  # its inputs are lists of texts
    "write_matrices": "always_float64",  # what is compared is made of its weights, and any dtype is right
    "two_heads_by_hand": "always_float64",
    "mlp_by_hand": "always_float64",
    "invent_control": "always_float64",  # as for break_repeats
    "train_reader": "squeezed",
    "rotate": "others_detached",  # positions need none
    "from_packed": "squeezed",
    "fold_query_key": "squeezed",
    "next_token_loss": "on_the_cpu_only",  # one number may come from the CPU
    "ov_circuit": "input_changed contiguous_memory_only",  # its tensors are a model's
    "LanguageModel": "first_detached input_made_float32",
    "sample_next": "squeezed",
    "train_language_model": "squeezed",
    "reach": "squeezed contiguous_memory_only",  # its ids have a single axis
    "train_with_adam": "squeezed",
    "write_greedily": "squeezed",
    "train_writer": "squeezed",
    "train_with_warmup": "squeezed",
    "read_in_windows": "squeezed",
    "induction_by_hand": "always_float64",  # matrices of any dtype predict
    "break_repeats": "always_float64",  # ids that are no whole numbers are rejected, and no symptom is told
    # dtype and device at once, and hardly a case in float64: it is rejected, and no symptom is told
    "losses_by_place": "squeezed new_tensor_filled_in",
    "mend_encoder_block": "new_tensor_filled_in",
    "witten_bell": "squeezed",
    "little_einsum": "entries_in_a_list",  # a result that is a single number has no entries
    "accept": "squeezed",
    "online_softmax": "input_changed contiguous_memory_only squeezed",  # its tensors come out of an iterator
    "mend_online": "squeezed",
    "block_cost": "always_float64",  # too few numbers for a relation
    # among four results the first two are rejected by their numbers, and no symptom is told; no gradient is asked for
    "train_head": "always_float64 new_tensor_filled_in detached without_gradients first_detached others_detached",
    "mend_padded_causal_weights": "others_detached squeezed",
    # each text has a length of its own, and what is compared is cut out of the result: a batch entry is none of it
    "mend_decoder_attention": "squeezed a_batch_of_one_only axis_put_before batch_second "
    "first_entry_alone first_entry_kept new_tensor_filled_in",
}
"""Inputs that have no gradient, and exercises without an axis of length 1."""


OTHERWISE_TOLD = {(name, "input_changed"): "changed_on_the_way" for name in ("cached_attention", "load_encoder")}
"""There a probe shows other numbers for it."""


def applies(exercise: Exercise, what: str) -> bool:
    """Whether an answer of this exercise can be wrong in this way, and a visible case would show it."""
    shown = [
        c for c in exercise.cases if not c.hidden and all(getattr(c, k) == v for k, v in CASE.get(what, {}).items())
    ]
    if not shown or what in NOTHING_TO_SEE.get(exercise.name, "").split():
        return False
    if exercise.name in A_NUMBER and what in OF_SEVERAL:
        return False
    return {
        "others_detached": exercise.kind == "function" and any(_has_gradients_elsewhere(case) for case in shown),
        "input_made_float32": exercise.kind == "module",
        "entries_in_a_list": len(exercise.outputs) == 1,
        "results_in_a_dictionary": len(exercise.outputs) > 1,
    }.get(what, what not in OF_A_BATCH or exercise.name not in NO_BATCH)


def _has_gradients_elsewhere(case: Case) -> bool:
    """True if not only the first input can have a gradient."""
    return any(tensor.is_floating_point() for tensor in tensors(case.inputs(Draw(case.name))[1:]))


def said(table: Observed, attempt: Any) -> str | None:
    """The first symptom of a wrong answer; None if there is none, "right" if it is right."""
    trials = table.trials(attempt, hidden=False)
    if all(trial.difference is None for trial in trials):
        return "right"
    ways = broken_contract(trials), one_property(table.exercise, trials), relation_of_numbers(table.exercise, trials)
    more = changed_on_the_way(trials), exception(table.exercise, trials), gradient_cut_off(trials)
    return next((found.id for found in (*ways, *more) if found is not None), None)


def mishandled(exercise: Any, how: Callable[[Answer, Inputs], Any]) -> Any:
    return handled(exercise, made(exercise.right, exercise.name), lambda call: how(call.answer, call.inputs))


def test_what_is_wrong_with_a_tensor_is_rejected_and_told(table: Observed) -> None:
    exercise: Any = table.exercise
    wrong = {w: mishandled(exercise, getattr(Mishandle(), w)) for w in TOLD if applies(exercise, w)}
    told = {what: said(table, answer) for what, answer in wrong.items()}
    may_be_told = {what: OTHERWISE_TOLD.get((exercise.name, what), TOLD[what]).split() for what in told}
    assert {what: symptom for what, symptom in told.items() if symptom not in may_be_told[what]} == {}
    assert len(told) >= 2
