"""Silent mistakes with tensors, possible in any exercise; an exercise's cases decide which ones it can have.

A wrong dtype, a gradient that is cut off, a batch of one and so on do show, and `naming.symptoms` names them.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.exercise import Exercise, Misconception


@dataclass(frozen=True)
class Call:
    """One call of a right answer, a function or a module's `forward`; `kept` lasts from one call to the next."""

    answer: Callable[..., Any]
    inputs: tuple[Any, ...]
    kept: dict[Any, Any]
    exercise: Exercise


Handle = Callable[[Call], Any]


def keeps_first_answer(call: Call) -> Any:
    """The first answer is kept and returned again.

    Something is stored at the first call (in a global, a default argument, an attribute or a cache) and returned at the
    next call, although the numbers have changed. Compute everything from the arguments.
    """
    of_a_module = call.exercise.kind == "module"
    key = () if of_a_module else tuple((t.shape, t.dtype, t.device.type) for t in tensors_in(call.inputs))
    if key not in call.kept:
        result = call.answer(*call.inputs)
        call.kept[key] = result if of_a_module else tree_map_only(Tensor, lambda t: t.detach().clone(), result)
        return result
    return call.kept[key]


def mask_lives_on(call: Call) -> Any:
    """The mask of one call lives on in the next.

    A mask that was passed once is stored in the module, and a later call without a mask still uses it. Use the argument
    of this call and nothing else: None means that nothing is blocked.
    """
    x, mask = (*call.inputs, None)[:2]
    if mask is not None:
        call.kept["mask"] = mask
    return call.answer(x, call.kept.get("mask"))


def first_key_mask_kept(call: Call) -> Any:
    """The mask of the first call is used in all others.

    The first call stores its mask (or the fact that there was none), and later calls use that. Each call brings its own
    sentences, with their own padding.
    """
    x, mask = (*call.inputs, None)[:2]
    return call.answer(x, call.kept.setdefault("mask", mask))


def example_hard_coded(call: Call) -> Any:
    """The example's result is returned, whatever the input is.

    You always return the result of the small example. Compute it from the arguments; the check draws other numbers, of
    other sizes.
    """
    assert call.exercise.example is not None
    return call.answer(*call.exercise.example())


def layers_renamed(module: nn.Module) -> None:
    """The layers have different names.

    All the layers are there, but not under the contract's names. The check fills them by name, and so does everyone who
    loads saved weights.
    """
    named = module.named_parameters

    def renamed(*arguments: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
        return ((f"my_{name}", parameter) for name, parameter in named(*arguments, **options))

    module.named_parameters = renamed  # type: ignore[method-assign]


def mishandled(exercise: Exercise, right: Any) -> Iterator[Misconception]:
    """The mistakes that this exercise can have, each with the right answer handled so."""
    is_module = exercise.kind == "module"
    called = exercise.reference.forward if is_module else exercise.reference
    twice = any(case.after for case in exercise.cases)
    masked = is_module and any(p.default is None for p in inspect.signature(called).parameters.values())
    possible = {
        keeps_first_answer: twice,
        mask_lives_on: twice and masked,
        first_key_mask_kept: twice and masked,
        example_hard_coded: not is_module and exercise.example is not None,
    }
    for handle in (handle for handle, is_possible in possible.items() if is_possible):
        yield _told(handle, handled(exercise, right, handle))
    if is_module:
        yield _told(layers_renamed, _built(right, layers_renamed))


def _told(mistake: Callable[..., Any], answer: Any) -> Misconception:
    title, _, explanation = (inspect.getdoc(mistake) or "").partition("\n")
    return Misconception(
        id=mistake.__name__,
        title=title.removesuffix("."),
        explanation=" ".join(explanation.split()),
        implementation=answer,
    )


def handled(exercise: Exercise, right: Any, handle: Handle) -> Any:
    """The right answer, a function or a module's class, each of whose calls is handled in this way."""
    if exercise.kind != "module":
        kept: dict[Any, Any] = {}
        return lambda *inputs: handle(Call(right, inputs, kept, exercise))

    class Handled(right):  # type: ignore[misc]
        def __init__(self, *sizes: Any) -> None:
            super().__init__(*sizes)
            self.kept: dict[Any, Any] = {}

        def forward(self, *inputs: Any) -> Any:
            return handle(Call(super().forward, inputs, self.kept, exercise))

    return Handled


def _built(right: type[nn.Module], change: Callable[[nn.Module], None]) -> type[nn.Module]:
    class Built(right):  # type: ignore[misc, valid-type]
        def __init__(self, *sizes: Any) -> None:
            super().__init__(*sizes)
            change(self)

    return Built
