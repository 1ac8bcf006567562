"""The right answer to each exercise, with something done after each call, and whether it is still taken for right."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from attnlib.checks import Case, Exercise, exercises
from attnlib.checks.asking.observation import Asking, Memory
from attnlib.checks.asking.observe import observe
from attnlib.checks.draw import Draw
from attnlib.checks.verdict.judge import cases_of, try_case


def first_inputs(exercise: Exercise) -> tuple[Any, ...]:
    """Those of the first case; of a module, those of `forward`."""
    case = exercise.cases[0]
    inputs = case.inputs(Draw(exercise.name, dtype=case.dtype))
    judged: tuple[Any, ...] = inputs[1] if exercise.kind == "module" else inputs
    return judged


CODE = {name: exercise for name, exercise in exercises().items() if exercise.kind != "choice"}
INPUTS = {name: first_inputs(exercise) for name, exercise in CODE.items()}
MEMORY: Memory = {}

Outputs = Any
After = Callable[[tuple[Any, ...], Outputs, nn.Module | None], Outputs]


def right_but(exercise: Exercise, after: After) -> Any:
    """The reference, with something done afterwards to inputs and outputs."""
    if exercise.kind == "function":
        return lambda *inputs: after(inputs, exercise.reference(*inputs), None)

    class RightBut(exercise.reference):  # type: ignore[misc, name-defined]
        def forward(self, *inputs: Any) -> Any:
            return after(inputs, super().forward(*inputs), self)

    return RightBut


def is_right(exercise: Exercise, attempt: Any, case: Case) -> bool:
    """Whether the attempt is; it may call what learners may not, as references do."""
    got = observe(exercise, attempt, case)
    return try_case(exercise, attempt, case, Asking(memory=MEMORY), got=got).difference is None


def is_rejected(exercise: Exercise, attempt: Any) -> bool:
    """Whether any visible case is wrong."""
    return not all(is_right(exercise, attempt, case) for case in cases_of(exercise, hidden=False))


def tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
