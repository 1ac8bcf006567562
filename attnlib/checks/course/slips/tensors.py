"""What goes wrong with tensors in any exercise, and does not show: which of these slips it has follows from its cases.

A wrong dtype, a gradient that is cut off, a batch of one and their like do show, and `naming.symptoms` names them.
`answer` is the right answer, a function or a module's `forward`, and `kept` lasts from one call to the next.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks.course.marks import Step, only_with
from attnlib.checks.course.promises import LARGE
from attnlib.checks.exercise import Exercise

Answer = Callable[..., Any]
Inputs = tuple[Any, ...]
Kept = dict[Any, Any]


def facts(exercise: Exercise) -> frozenset[str]:
    """What the declaration says of an exercise, for `only_with`."""
    cases, function = exercise.cases, exercise.kind == "function"
    called = exercise.reference if function else exercise.reference.forward
    said = {
        "a second call": any(case.twice for case in cases),
        "large scores": any(case.magnitude >= LARGE for case in cases),
        "a module": not function,
        "a mask that may be left out": not function
        and any(p.default is None for p in inspect.signature(called).parameters.values()),
        "an example": function and exercise.example is not None,
    }
    return frozenset(fact for fact, holds in said.items() if holds)


def _tensors(inputs: Inputs) -> list[Tensor]:
    return [t for t in tree_leaves(inputs) if isinstance(t, Tensor)]


class Handle(Step):
    """Tensors are taken as they come, and given back without a trace in them."""

    def right(self, answer: Answer, inputs: Inputs) -> Any:
        return answer(*inputs)

    @only_with("a second call")
    def keeps_first_answer(self, answer: Answer, inputs: Inputs, kept: Kept, module: nn.Module | None = None) -> Any:
        """The first answer is kept and returned again.

        Something is stored at the first call (in a global, a default argument, an attribute or a cache) and returned at
        the next call, although the numbers have changed. Compute everything from the arguments.
        """
        key = tuple((t.shape, t.dtype, t.device.type) for t in _tensors(inputs)) if module is None else ()
        if key not in kept:
            result = answer(*inputs)
            kept[key] = result if module is not None else tree_map_only(Tensor, lambda t: t.detach().clone(), result)
            return result
        return kept[key]

    @only_with("a mask that may be left out", "a second call")
    def mask_lives_on(self, answer: Answer, inputs: Inputs, kept: Kept) -> Any:
        """The mask of one call lives on in the next.

        A mask that was passed once is stored in the module, and a later call without a mask still uses it. Use the
        argument of this call and nothing else: None means that nothing is blocked.
        """
        x, mask = (*inputs, None)[:2]
        if mask is not None:
            kept["mask"] = mask
        return answer(x, kept.get("mask"))

    @only_with("a mask that may be left out", "a second call")
    def first_key_mask_kept(self, answer: Answer, inputs: Inputs, kept: Kept) -> Any:
        """The mask of the first call is used in all others.

        The first call stores its mask (or the fact that there was none), and later calls use that. Each call brings its
        own sentences, with their own padding.
        """
        x, mask = (*inputs, None)[:2]
        return answer(x, kept.setdefault("mask", mask))

    @only_with("an example")
    def example_hard_coded(self, answer: Answer, example: Callable[[], Inputs]) -> Any:
        """The example's result is returned, whatever the input is.

        You always return the result of the small example. Compute it from the arguments; the check draws other numbers,
        of other sizes.
        """
        return answer(*example())


class Learn(Step):
    """A module's parameters have their names, and learn."""

    in_constructor = True

    def right(self) -> None:
        """Leave them alone."""

    @only_with("a module")
    def layers_renamed(self, module: nn.Module) -> None:
        """The layers have different names.

        All the layers are there, but not under the contract's names. The check fills them by name, and so does everyone
        who loads saved weights.
        """
        named = module.named_parameters

        def renamed(*arguments: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
            return ((f"my_{name}", parameter) for name, parameter in named(*arguments, **options))

        module.named_parameters = renamed  # type: ignore[method-assign]
