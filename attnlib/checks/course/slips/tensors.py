"""What goes wrong with tensors in any exercise: which of these slips it has follows from its declaration.

`answer` is the right answer, a function or a module's `forward`, and `kept` lasts from one call to the next.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks.course.marks import Step, only_with, spells
from attnlib.checks.course.usual import LARGE
from attnlib.checks.exercise import Exercise

Answer = Callable[..., Any]
Inputs = tuple[Any, ...]
Kept = dict[Any, Any]


OF_A_BATCH = (
    "first_entry_alone",
    "first_entry_kept",
    "axis_put_before",
    "two_entries_only",
    "batch_second",
    "list_of_entries",
    "batch_of_one_only",
)
"""What goes wrong with a batch: a causal mask and a table of positions have none."""


def facts(exercise: Exercise) -> frozenset[str]:
    """What the declaration says of an exercise, for `only_with`."""
    cases, function = exercise.cases, exercise.kind == "function"
    called = exercise.reference if function else exercise.reference.forward
    parameters = [p for p in inspect.signature(called).parameters.values() if p.name != "self"]
    said = {
        "an input that may change": any(case.mutation for case in cases),
        "a second call": any(case.twice for case in cases),
        "robustness": "robustness" in exercise.parts,
        "memory that is not contiguous": any(case.strided for case in cases),
        "another device": any(case.other_device for case in cases),
        "gradients": any(case.gradient for case in cases),
        "large scores": any(case.magnitude >= LARGE for case in cases),
        "one result": len(exercise.outputs) == 1,
        "several results": len(exercise.outputs) > 1,
        "a function": function,
        "several tensors": function and sum(p.annotation not in (int, float, bool) for p in parameters) > 1,
        "a module": not function,
        "a mask that may be left out": not function and any(p.default is None for p in parameters),
        "an example": function and exercise.example is not None,
    }
    return frozenset(fact for fact, holds in said.items() if holds)


def _each(change: Callable[[Tensor], Tensor], result: Any) -> Any:
    return tree_map_only(Tensor, change, result)


def _tensors(inputs: Inputs) -> list[Tensor]:
    return [t for t in tree_leaves(inputs) if isinstance(t, Tensor)]


class Handle(Step):
    """Tensors are taken as they come, and given back without a trace in them."""

    def right(self, answer: Answer, inputs: Inputs) -> Any:
        return answer(*inputs)

    def nothing_returned(self, answer: Answer, inputs: Inputs) -> None:
        """The result is not returned.

        A function without `return` gives back None, however right what it computes is. End with `return` and the
        result.
        """
        answer(*inputs)

    @only_with("an input that may change")
    def mutates_input(self, answer: Answer, inputs: Inputs) -> Any:
        """The input is changed in place.

        An operation with a trailing underscore, `+=` or an assignment to a slice wrote into what you were given, or
        `pop`, `append`, `reverse` or `remove` changed a list. The caller still needs it, and autograd does, too. Make a
        new tensor instead (`x = x * 2`, not `x *= 2`), or a new list.
        """
        result = answer(*inputs)
        _tensors(inputs)[0].add_(1)
        return result

    @spells(mutates_input)
    @only_with("an input that may change", "a function")
    def overwrites_input(self, answer: Answer, inputs: Inputs) -> Any:
        copies = _each(Tensor.clone, inputs)  # right gradients: wrong ones would name this where no input changes
        with torch.no_grad():
            _tensors(inputs)[0].zero_()
        return answer(*copies)

    @only_with("robustness")
    def float32_only(self, answer: Answer, inputs: Inputs) -> Any:
        """The result is always float32.

        A tensor made with torch.zeros, torch.ones, torch.empty or `.float()` is float32 whatever the input is. Make new
        tensors from an input (`x.new_zeros(...)`, `torch.zeros_like(x)`) or pass dtype=x.dtype.
        """
        return _each(Tensor.float, answer(*inputs))

    def always_float64(self, answer: Answer, inputs: Inputs) -> Any:
        """The result is always float64.

        Somewhere on the way there is a `.double()`, a dtype=torch.float64 or a NumPy number, and float32 comes back as
        float64. Give back the dtype that you were given.
        """
        return _each(Tensor.double, answer(*inputs))

    @only_with("robustness")
    def new_tensor_defaults(self, answer: Answer, inputs: Inputs) -> Any:
        """A new tensor is made without the input's dtype and device.

        torch.zeros(shape), torch.empty(shape) and their like are float32 and live on the CPU. Filled with results, they
        stay so. Write `x.new_zeros(shape)`, or pass dtype=x.dtype, device=x.device.
        """

        def filled(result: Tensor) -> Tensor:
            new = torch.zeros(result.shape)
            new[...] = result
            return new

        return _each(filled, answer(*inputs))

    @only_with("another device")
    def cpu_only(self, answer: Answer, inputs: Inputs) -> Any:
        """A tensor is made on the CPU, whatever the input is on.

        torch.zeros, torch.ones, torch.arange and their like make CPU tensors; on a GPU the next operation fails. Pass
        device=x.device, or make them from an input (`x.new_zeros(...)`, `torch.ones_like(x)`).
        """
        return _each(lambda t: t + torch.zeros(t.shape, dtype=t.dtype), answer(*inputs))

    @only_with("memory that is not contiguous")
    def contiguous_only(self, answer: Answer, inputs: Inputs) -> Any:
        """It works only if the memory is contiguous.

        `view` re-reads the same memory in a new shape and fails where a transposed tensor comes in. `reshape` and
        einops copy where they must; or call `.contiguous()` first.
        """
        for tensor in _tensors(inputs):
            tensor.view(-1)
        return answer(*inputs)

    @only_with("gradients")
    def detached(self, answer: Answer, inputs: Inputs) -> Any:
        """The gradient is cut off.

        `.detach()`, `.data`, `.item()`, `.numpy()`, `torch.no_grad()` or `torch.tensor(...)` around a result copies the
        numbers and forgets how they came about, and `from_pretrained` freezes what it is given. Nothing before that
        point could learn.
        """
        return _each(Tensor.detach, answer(*inputs))

    @spells(detached)
    @only_with("gradients", "a function")
    def without_grad(self, answer: Answer, inputs: Inputs) -> Any:
        with torch.no_grad():
            return answer(*inputs)

    @only_with("gradients", "several tensors")
    def first_detached(self, answer: Answer, inputs: Inputs) -> Any:
        """No gradient reaches the first input.

        `.detach()` or `.data` on the first input makes a copy that autograd does not follow back. Use it as it was
        given.
        """
        return answer(_each(Tensor.detach, inputs[0]), *inputs[1:])

    @only_with("gradients", "several tensors")
    def others_detached(self, answer: Answer, inputs: Inputs) -> Any:
        """The gradient reaches the first input only.

        `.detach()`, `.data` or `nn.Parameter(...)` around one of the other inputs makes a copy that autograd does not
        follow back. Use every input as it was given.
        """
        return answer(inputs[0], *_each(Tensor.detach, inputs[1:]))

    @only_with("a second call")
    def keeps_first_answer(self, answer: Answer, inputs: Inputs, kept: Kept, module: nn.Module | None = None) -> Any:
        """The first answer is kept and given again.

        Something is stored at the first call (a global, a default argument, an attribute, a cache) and returned at the
        next call, although the numbers have changed. Compute everything from the arguments.
        """
        key = tuple((t.shape, t.dtype, t.device.type) for t in _tensors(inputs)) if module is None else ()
        if key not in kept:
            result = answer(*inputs)
            kept[key] = result if module is not None else _each(lambda t: t.detach().clone(), result)
            return result
        return kept[key]

    @only_with("a mask that may be left out", "a second call")
    def mask_lives_on(self, answer: Answer, inputs: Inputs, kept: Kept) -> Any:
        """The mask of one call lives on in the next.

        A mask that was given once is stored in the module, and a later call that comes without any is masked by it. Use
        the argument of this call, and nothing else: None means that nothing is blocked.
        """
        x, mask = (*inputs, None)[:2]
        if mask is not None:
            kept["mask"] = mask
        return answer(x, kept.get("mask"))

    @only_with("a mask that may be left out", "a second call")
    def first_key_mask_kept(self, answer: Answer, inputs: Inputs, kept: Kept) -> Any:
        """The mask of the first call is used in all others.

        Something is stored at the first call, a mask or that there was none, and the masks of later calls are not
        looked at. Each call brings its own sentences, with padding of their own.
        """
        x, mask = (*inputs, None)[:2]
        return answer(x, kept.setdefault("mask", mask))

    @only_with("a module")
    def input_made_float32(self, answer: Answer, inputs: Inputs) -> Any:
        """The input is made float32.

        `.float()` makes float32 of any input, and the layers may be of another dtype: a product of the two fails. Leave
        the dtype alone; who calls you has matched input and layers.
        """
        return answer(*(t.float() if t is not None and t.is_floating_point() else t for t in inputs))

    @only_with("an example")
    def example_hard_coded(self, answer: Answer, example: Callable[[], Inputs]) -> Any:
        """The numbers of the example, whatever the input is.

        The result is that of the small example, always. Compute it from the arguments; the check draws other numbers,
        of other sizes.
        """
        return answer(*example())

    def batch_of_one_only(self, answer: Answer, inputs: Inputs) -> Any:
        """It works for a batch of one only.

        Every entry of the batch gets the result of the first. `x[0]`, `squeeze(0)` or a loop that returns in its first
        round does that, and with a single entry nobody notices. Keep the batch axis.
        """
        return _each(lambda t: t[:1].expand_as(t), answer(*inputs))

    def first_entry_alone(self, answer: Answer, inputs: Inputs) -> Any:
        """Only the first entry of the batch comes back.

        The result is that of entry 0, without the batch axis, or in a batch of one: `x[0]` or a `return` inside the
        loop does that. Compute all entries, (b, ...); most operations take the batch along.
        """
        return _each(lambda t: t[0], answer(*inputs))

    @spells(first_entry_alone)
    def first_entry_kept(self, answer: Answer, inputs: Inputs) -> Any:
        return _each(lambda t: t[:1], answer(*inputs))

    def axis_put_before(self, answer: Answer, inputs: Inputs) -> Any:
        """It puts a batch axis in front, whether there is one or not.

        `squeeze(0)` removes the first axis only where it has length 1, and `unsqueeze(0)` or `[None]` puts one before
        it in any case: with more entries there is an axis too many. Leave the batch where it is.
        """
        return _each(lambda t: t if t.shape[:1] == (1,) else t.unsqueeze(0), answer(*inputs))

    def two_entries_only(self, answer: Answer, inputs: Inputs) -> Any:
        """It works for a batch of two only.

        Entries 0 and 1 are taken one by one, however many there are: a batch of one has no entry 1, and of a larger one
        the rest is left out. Compute all at once, or loop over range(len(x)).
        """
        return _each(lambda t: torch.stack([t[0], t[1]]), answer(*inputs))

    def squeezed(self, answer: Answer, inputs: Inputs) -> Any:
        """Axes of length 1 are squeezed away.

        `squeeze()` removes every axis of length 1, and with a batch of one that is the batch. Leave the axes where they
        are.
        """
        return _each(torch.squeeze, answer(*inputs))

    def batch_second(self, answer: Answer, inputs: Inputs) -> Any:
        """The batch is not the first axis any more.

        The first two axes have changed places. The result begins as the input does: the batch comes first.
        """
        return _each(lambda t: t.transpose(0, 1), answer(*inputs))

    @only_with("one result")
    def list_of_entries(self, answer: Answer, inputs: Inputs) -> Any:
        """A list comes back where a tensor is asked for.

        The entries of the batch are right, but they are in a list. Make one tensor of them: torch.stack(results).
        """
        return list(answer(*inputs))

    @only_with("several results")
    def one_tensor(self, answer: Answer, inputs: Inputs) -> Any:
        """One tensor comes back where several are asked for.

        Each result is a tensor of its own. Return them one after another, with commas between; do not stack or
        concatenate them, and do not leave any out.
        """
        return answer(*inputs)[0]

    @only_with("several results")
    def dictionary(self, answer: Answer, inputs: Inputs) -> Any:
        """A dictionary comes back.

        The results are asked for in a fixed order, without names: return them with commas between.
        """
        return dict(enumerate(answer(*inputs)))


class Learn(Step):
    """A module's parameters have their names, and learn."""

    in_constructor = True

    def right(self) -> None:
        """Leave them alone."""

    @only_with("a module")
    def layers_renamed(self, module: nn.Module) -> None:
        """The layers have other names.

        All layers are there, but not under the names of the contract. The check fills them by their names, and so does
        everyone who loads saved weights.
        """
        named = module.named_parameters

        def renamed(*arguments: Any, **options: Any) -> Iterator[tuple[str, nn.Parameter]]:
            return ((f"my_{name}", parameter) for name, parameter in named(*arguments, **options))

        module.named_parameters = renamed  # type: ignore[method-assign, assignment]

    @only_with("a module")
    def parameters_frozen(self, module: nn.Module) -> None:
        """A parameter is frozen.

        `requires_grad_(False)`, or requires_grad=False where a parameter is made, keeps the optimiser from ever
        changing it. All parameters of this module learn.
        """
        module.requires_grad_(False)
