"""More mistakes that can be made in any code, for the exercises of the first lessons."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from attnlib.checks.course.usual import around, usual_misconceptions, wrong
from attnlib.checks.exercise import Exercise, Misconception


def slips(reference: Any, *, outputs: int = 1, batch: bool = True) -> tuple[Misconception, ...]:
    """Slips around the right answer, a function or a module; `batch` says that its outputs are (b, n, ...)."""
    listed = [
        wrong(
            "nothing_returned",
            "The result is not returned",
            "A function without `return` gives back None, however right what it computes is. End with `return` and "
            "the result.",
            around(reference, lambda outputs, inputs: None),
        ),
        wrong(
            "always_float64",
            "The result is always float64",
            "`.double()`, dtype=torch.float64 or a number of NumPy's stands somewhere on the way, and float32 comes "
            "back as float64. Give back the dtype that you were given.",
            around(reference, _each(Tensor.double)),
        ),
    ]
    if batch:
        listed += [
            wrong(
                "first_entry_alone",
                "Only the first entry of the batch comes back",
                "The batch axis is gone: the result is that of entry 0. `x[0]`, or a `return` inside the loop, does "
                "that. Every entry has to come back: (b, ...).",
                around(reference, _each(lambda t: t[0])),
            ),
            *slips_of_batches(reference),
            wrong(
                "two_entries_only",
                "It works for a batch of two only",
                "Entries 0 and 1 are taken one by one, however many there are: a batch of one has no entry 1, and of a "
                "larger one the rest is left out. Compute all at once, or loop over range(len(x)).",
                around(reference, _each(lambda t: torch.stack([t[0], t[1]]))),
            ),
            wrong(
                "squeezed",
                "Axes of length 1 are squeezed away",
                "`squeeze()` removes every axis of length 1, and with a batch of one that is the batch. Leave the axes "
                "where they are.",
                around(reference, _each(torch.squeeze)),
            ),
            wrong(
                "batch_second",
                "The batch is not the first axis any more",
                "The first two axes have changed places. The result begins as the input does: the batch comes first.",
                around(reference, _each(lambda t: t.transpose(0, 1))),
            ),
        ]
        if outputs == 1:
            listed.append(
                wrong(
                    "list_of_entries",
                    "A list comes back where a tensor is asked for",
                    "The entries of the batch are right, but stand in a list. Make one tensor of them: "
                    "torch.stack(results).",
                    around(reference, lambda outputs, inputs: list(outputs)),
                )
            )
    if outputs > 1:
        listed += [
            wrong(
                "one_tensor",
                f"One tensor comes back where {outputs} are asked for",
                f"{outputs} results are asked for, each a tensor of its own. Return them one behind the other, with "
                "commas; do not stack or concatenate them, and do not leave any out.",
                around(reference, lambda outputs, inputs: outputs[0]),
            ),
            wrong(
                "dictionary",
                "A dictionary comes back",
                "The results are asked for in a fixed order, without names: return them with commas between.",
                around(reference, lambda outputs, inputs: dict(enumerate(outputs))),
            ),
        ]
    return tuple(listed)


def slips_of_batches(reference: Any) -> tuple[Misconception, ...]:
    """A batch taken for a single entry, of which only the axis of length 1 is put back."""
    return (
        wrong(
            "first_entry_kept",
            "Only the first entry of the batch comes back",
            "The result is that of entry 0, in a batch of one: `x[0]` at the beginning, and an axis of length 1 put "
            "before the result in the end. Compute all entries; most operations take the batch along.",
            around(reference, _each(lambda t: t[:1])),
        ),
        wrong(
            "axis_put_before",
            "It works for a batch of one only",
            "`squeeze(0)` removes the first axis only where it has length 1, and `unsqueeze(0)` or `[None]` puts one "
            "before it in any case: with more entries there is an axis too many. Leave the batch where it is.",
            around(reference, _each(lambda t: t if t.shape[:1] == (1,) else t.unsqueeze(0))),
        ),
    )


def slips_with_floats(reference: Callable[..., Any]) -> tuple[Misconception, ...]:
    """Slips that need a first input of floating numbers, and others behind it."""
    return (
        wrong(
            "overwrites_input",
            "The input is changed in place",
            "An operation with a trailing underscore, under torch.no_grad() or on `.data`, wrote into the tensor you "
            "were given. The caller still needs it. Make a new tensor instead (`x = x * 2`, not `x.mul_(2)`).",
            lambda x, *others: reference(_overwritten(x), *others),
        ),
        wrong(
            "first_detached",
            "No gradient reaches the first input",
            "`.detach()` or `.data` on the first input makes a copy that autograd does not follow back. Use it as it "
            "was given.",
            lambda x, *others: reference(x.detach(), *others),
        ),
        wrong(
            "others_detached",
            "The gradient reaches the first input only",
            "`.detach()`, `.data` or `nn.Parameter(...)` around one of the other inputs makes a copy that autograd "
            "does not follow back. Use every input as it was given.",
            lambda x, *others: reference(x, *(t.detach() if isinstance(t, Tensor) else t for t in others)),
        ),
    )


def slips_of_views(reference: Callable[..., Any]) -> tuple[Misconception, ...]:
    """A slip that shows by itself only where no number is computed: the result is then a view, and not detached."""
    return (
        wrong(
            "without_grad",
            "The gradient is cut off",
            "torch.no_grad() computes the numbers and does not note how they came about. Nothing before that point "
            "could learn.",
            torch.no_grad()(reference),
        ),
    )


def dropout_left_on(dropped: Callable[[float], Mapping[str, Any]]) -> tuple[Misconception, ...]:
    """Dropout in evaluation, with the usual shares; `dropped(p)` gives the wrong answers by what they are called."""
    return tuple(
        wrong(
            f"dropout_of_{percent}_percent_{where}",
            "Dropout is always active",
            "F.dropout drops weights at random unless it is told that no training is going on: every call gives "
            "another result. No dropout is asked for here.",
            implementation,
        )
        for percent in (10, 20, 50)
        for where, implementation in dropped(percent / 100).items()
    )


def fixed_scales(with_factor: Callable[[float], Any]) -> tuple[Misconception, ...]:
    """The scale as a number; `with_factor` makes the attention whose scores are multiplied by it."""
    return tuple(
        wrong(
            f"fixed_scale_{width}",
            "The scale is a fixed number",
            f"The scores are divided by √{width}, however wide the vectors are. That is right for d = {width} alone: "
            "take the width from the tensor, q.shape[-1].",
            with_factor(width**-0.5),
        )
        for width in (4, 8, 64, 512)
    )


def _each(change: Callable[[Tensor], Tensor]) -> Callable[[Any, tuple[Any, ...]], Any]:
    return lambda outputs, inputs: tree_map_only(Tensor, change, outputs)


def _overwritten(x: Tensor) -> Tensor:
    """What x was. Its gradient is right: a wrong one would be taken for this mistake where no input is changed."""
    kept = x.clone()
    with torch.no_grad():
        x.mul_(2)
    return kept


def handling(right: Any, exercise: Exercise) -> tuple[Misconception, ...]:
    """What goes wrong with tensors in any exercise, made around its right answer; it follows from the declaration."""
    cases, is_function = exercise.cases, exercise.kind == "function"
    shows = {
        "mutates_input": any(case.mutation for case in cases),
        "overwrites_input": any(case.mutation for case in cases),
        "keeps_first_answer": any(case.twice for case in cases),
        **dict.fromkeys(("float32_only", "new_tensor_defaults"), "robustness" in exercise.parts),
        "contiguous_only": any(case.strided for case in cases),
        "cpu_only": any(case.other_device for case in cases),
    }
    listed = (
        *slips(right, outputs=len(exercise.outputs)),
        *(slips_with_floats(right) if is_function else ()),
        *usual_misconceptions(
            right,
            gradient=any(case.gradient for case in cases),
            example=exercise.example if is_function else None,
        ),
    )
    return tuple(misconception for misconception in listed if shows.get(misconception.id, True))
