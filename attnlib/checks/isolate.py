"""Which property is off, where no misconception fits: what the wrong cases have in common, and the right ones not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnlib.checks.compare import agreeing_outputs
from attnlib.checks.diagnose import Trial
from attnlib.checks.exercise import Exercise


@dataclass(frozen=True)
class Trait:
    """Something that a case may have, and what is said if all goes well without it and nothing with it."""

    has: Callable[[Trial], bool]
    said: str


def _tensors(trial: Trial) -> list[Tensor]:
    return [t for t in tree_leaves(trial.expected.inputs) if isinstance(t, Tensor)]


def _has_mask(trial: Trial) -> bool:
    return any(t.dtype == torch.bool for t in _tensors(trial))


def _is_batch_of_one(trial: Trial) -> bool:
    tensors = _tensors(trial)
    return bool(tensors) and tensors[0].dim() > 1 and tensors[0].shape[0] == 1


def _axes(trial: Trial) -> int:
    tensors = _tensors(trial)
    return tensors[0].dim() if tensors else 0


def _fails_as(trial: Trial, *aspects: str) -> bool:
    return trial.difference is None or trial.difference.aspect in aspects


TRAITS = (
    Trait(lambda t: t.case.other_device, "Right on the CPU; wrong as soon as the input is on another device."),
    Trait(
        lambda t: t.case.mutation and _fails_as(t, "mutation"),
        "What is returned is right; but an input is changed on the way.",
    ),
    Trait(lambda t: t.case.gradient and _fails_as(t, "gradient"), "The values are right; the gradient is not."),
    Trait(_has_mask, "Right without a mask; wrong as soon as one is given."),
    Trait(lambda t: t.case.strided, "Right as long as the memory is contiguous; wrong for a transposed input."),
    Trait(lambda t: t.case.twice, "Right at the first call; wrong at the second."),
    Trait(lambda t: t.case.dtype == torch.float64, "Right in float32; wrong in float64."),
    *(
        Trait(lambda t, n=n: _axes(t) != n, f"Right for {n} axes; wrong for fewer or more.")  # type: ignore[misc]
        for n in (2, 3, 4, 5)
    ),
    Trait(_is_batch_of_one, "Right for larger batches; wrong for a batch of one."),
    Trait(lambda t: not _is_batch_of_one(t), "Right for a batch of one; wrong for a larger batch."),
)
AT_MOST = 2  # sentences: three things that are off are not isolated


def isolate(exercise: Exercise, trials: Sequence[Trial]) -> list[str]:
    """One or two sentences, each about one property that is off; none if the wrong cases have nothing in common."""
    judged = [t for t in trials if not t.case.raises]
    wrong = [t for t in judged if t.difference is not None]
    if not wrong:
        return []
    found = _common_traits([t for t in judged if t.difference is None], wrong)
    if not found and len({t.case.part for t in wrong}) == 1 and wrong[0].case.part != next(iter(exercise.parts)):
        found = [f"All else is right; wrong is only what counts as “{wrong[0].case.part}”."]
    return found or _by_output(exercise, wrong)


def _common_traits(right: Sequence[Trial], wrong: Sequence[Trial]) -> list[str]:
    """The fewest traits that no right case has, and that each wrong case has one of."""
    with_values = [t for t in right if not t.case.other_device]  # on torch's meta device only the device is judged
    if not with_values:
        return []
    telling = [trait for trait in TRAITS if not any(trait.has(t) for t in with_values)]
    for trait in telling:
        if all(trait.has(t) for t in wrong):
            return [trait.said]
    found, left = [], list(wrong)
    for trait in telling:
        if any(trait.has(t) for t in left):
            found.append(trait.said)
            left = [t for t in left if not trait.has(t)]
    return found if not left and len(found) <= AT_MOST else []


def _by_output(exercise: Exercise, wrong: Sequence[Trial]) -> list[str]:
    """Of several outputs, those that are right wherever another one is not."""
    compared = [t for t in wrong if t.difference is not None and t.difference.aspect in ("shape", "values")]
    if len(exercise.outputs) == 1 or not compared:
        return []
    right = set.intersection(*(agreeing_outputs(exercise, t.case, t.expected, t.got) for t in compared))
    others = [name for name in exercise.outputs if name not in right]
    if not right or not others:
        return []
    return [f"Right: {', '.join(n for n in exercise.outputs if n in right)}. Wrong: {', '.join(others)}."]
