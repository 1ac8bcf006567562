"""What nearly every exercise shares: the usual cases, and the mistakes that can be made in any code."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from attnlib.checks.exercise import AS_GIVEN, Case, Misconception

Make = Callable[..., tuple[Any, ...]]
Sizes = Mapping[str, Any]


def wrong(id: str, title: str, explanation: str, implementation: Any, same_as: str | None = None) -> Misconception:
    """A misconception, written short."""
    return Misconception(id=id, title=title, explanation=explanation, implementation=implementation, same_as=same_as)


def as_given(implementation: Any) -> Misconception:
    """The code of a "find the bug" exercise before it is mended: what it gets wrong is for the student to find."""
    return Misconception(
        id=AS_GIVEN,
        title="This is still what the given code computes",
        explanation="Take one of the wrong numbers, work out by hand what it should be, and "
        "follow it back through the code: in which line does it first differ from yours?",
        implementation=implementation,
        heading="Find the bug",
    )


def without(misconceptions: Sequence[Misconception], *ids: str) -> tuple[Misconception, ...]:
    """A list that exercises share, but for those that one of them has no room for; a KeyError if it has no such."""
    if unknown := set(ids) - {misconception.id for misconception in misconceptions}:
        raise KeyError(f"no such misconception: {', '.join(sorted(unknown))}")
    return tuple(misconception for misconception in misconceptions if misconception.id not in ids)


def usual_cases(
    make: Make,
    sizes: Sizes,
    *,
    one: Sizes,
    more: Sequence[Sizes] = (),
    word: Sizes | None = None,
    gradient: bool = True,
    magnitude: float = 0.0,
) -> tuple[Case, ...]:
    """Cases for `make(draw, **sizes)`: sizes all different, a batch of one, one word, earlier calls, gradients, memory.

    `sizes` are those of the visible cases, `one` those of the smallest batch, `more` those of the grader's own cases;
    `word` those of sentences of a single word, where they do not follow from the names in `COUNTS`. `magnitude` is the
    size of what is subtracted on the way to a gradient, where few numbers are left of it. No axis has length 0: what is
    right for a batch of nothing is left open.
    """
    inputs = partial(make, **sizes)
    in_float64: dict[str, Any] = {"dtype": torch.float64, "part": "robustness", "mutation": True}
    of_gradients: dict[str, Any] = {
        "dtype": torch.float64,
        "part": "gradient",
        "gradient": True,
        "magnitude": magnitude,
    }
    word = word or {**sizes, **dict.fromkeys((n for n in COUNTS if n in sizes and n != "b"), 1)}
    cases = [
        Case(name="every axis of another length", inputs=inputs),
        Case(name="a batch of one", inputs=partial(make, **one)),
        *(
            (
                Case(name="sentences of one word", inputs=partial(make, **word)),
                # a kept mask of one entry fits any size, and shows in the numbers in place of an error
                Case(name="called before with one word", inputs=inputs, after=(partial(make, **word),)),
            )
            if word != sizes
            else ()
        ),
        Case(name="called a second time, with other numbers", inputs=inputs, after=(inputs,)),
        Case(
            name="called before with other sizes",
            inputs=inputs,
            after=tuple(partial(make, **other) for other in _other_sizes(sizes, [*more[:1], one])),
        ),
        Case(name="float64", inputs=inputs, **in_float64),
        Case(name="memory that is not contiguous", inputs=inputs, strided=True, mutation=True, part="robustness"),
        Case(name="on another device", inputs=inputs, other_device=True, part="robustness"),
    ]
    if "b" in sizes:  # what is wrong with the batch must not be taken for what is wrong with another size
        cases.insert(2, Case(name="one entry of the batch", inputs=partial(make, **{**sizes, "b": 1})))
    if gradient:
        cases.append(Case(name="gradients", inputs=inputs, **of_gradients))
    for number, other in enumerate(more, 1):
        inputs = partial(make, **other)
        name = f"other sizes ({number})"
        cases.append(Case(name=name, inputs=inputs, hidden=True))
        cases.append(Case(name=f"{name}, float64", inputs=inputs, hidden=True, **in_float64))
        if gradient:
            cases.append(Case(name=f"{name}, gradients", inputs=inputs, hidden=True, **of_gradients))
    return tuple(cases)


COUNTS = ("b", "n", "q", "k")
"""How many sentences and words there are: what may differ from one call of a module to the next."""


def _other_sizes(sizes: Sizes, unlike: Sequence[Sizes]) -> list[Sizes]:
    """Sizes of earlier calls: fewer words, then each count larger by itself; `unlike` where nothing is counted.

    What is kept from the first call is too small then, and what is kept from the last is too large.
    """
    counted = [name for name in COUNTS if name in sizes]
    fewer = {name: max(1, sizes[name] - 2) for name in counted if name != "b"}
    return [{**sizes, **fewer}, *({**sizes, name: sizes[name] + 2} for name in counted)] if counted else list(unlike)


def usual_misconceptions(
    reference: Any, *, gradient: bool = True, batch: bool = True, example: Callable[[], tuple[Any, ...]] | None = None
) -> tuple[Misconception, ...]:
    """Mistakes in the handling of tensors, made around the right answer: of a function, or of a module class.

    `batch` says that the first axis of the result is a batch; `example` gives a function's small inputs.
    """
    listed = [
        wrong(
            "mutates_input",
            "The input is changed in place",
            "An operation with a trailing underscore, `+=` or an assignment to a slice wrote into what you were given, "
            "or `pop`, `append`, `reverse` or `remove` changed a list. The caller still needs it, and autograd does, "
            "too. Make a new tensor instead (`x = x * 2`, not `x *= 2`), or a new list.",
            around(reference, _change_input),
        ),
        wrong(
            "float32_only",
            "The result is always float32",
            "A tensor made with torch.zeros, torch.ones, torch.empty or `.float()` is float32 whatever the input is. "
            "Make new tensors from an input (`x.new_zeros(...)`, `torch.zeros_like(x)`) or pass dtype=x.dtype.",
            around(reference, _to_float32),
        ),
        wrong(
            "contiguous_only",
            "It works only if the memory is contiguous",
            "`view` re-reads the same memory in a new shape and fails where a transposed tensor comes in. "
            "`reshape` and einops copy where they must; or call `.contiguous()` first.",
            around(reference, _view_inputs),
        ),
        wrong(
            "cpu_only",
            "A tensor is made on the CPU, whatever the input is on",
            "torch.zeros, torch.ones, torch.arange and their like make CPU tensors; on a GPU the next operation fails. "
            "Pass device=x.device, or make them from an input (`x.new_zeros(...)`, `torch.ones_like(x)`).",
            around(reference, _add_cpu_tensor),
        ),
        wrong(
            "new_tensor_defaults",
            "A new tensor is made without the input's dtype and device",
            "torch.zeros(shape), torch.empty(shape) and their like are float32 and live on the CPU. Filled with "
            "results, they stay so. Write `x.new_zeros(shape)`, or pass dtype=x.dtype, device=x.device.",
            around(reference, _fill_new_tensor),
        ),
    ]
    if _is_module(reference):
        listed += _misconceptions_of_modules(reference)
    else:
        listed.append(
            wrong(
                "keeps_first_answer",
                "The first answer is kept and given again",
                "Something is stored at the first call (a global, a default argument, a cache) and returned at the "
                "next call, although the numbers have changed. Compute everything from the arguments.",
                KeepsFirstAnswer(reference),
            )
        )
    if batch:
        listed.append(
            wrong(
                "batch_of_one_only",
                "It works for a batch of one only",
                "Every entry of the batch gets the result of the first. `x[0]`, `squeeze(0)` or a loop that returns in "
                "its first round does that, and with a single entry nobody notices. Keep the batch axis.",
                around(reference, lambda outputs, inputs: tree_map_only(Tensor, _first_for_all, outputs)),
            )
        )
    if example is not None:
        listed.append(
            wrong(
                "example_hard_coded",
                "The numbers of the example, whatever the input is",
                "The result is that of the small example, always. Compute it from the arguments; the check draws other "
                "numbers, of other sizes.",
                lambda *inputs: reference(*example()),
            )
        )
    if gradient:
        listed.append(
            wrong(
                "detached",
                "The gradient is cut off",
                "`.detach()`, `.data`, `.item()`, `.numpy()`, `torch.no_grad()` or `torch.tensor(...)` around a result "
                "copies the numbers and forgets how they came about, and `from_pretrained` freezes what it is given. "
                "Nothing before that point could learn.",
                around(reference, lambda outputs, inputs: tree_map_only(Tensor, Tensor.detach, outputs)),
            )
        )
    return tuple(listed)


def _is_module(reference: Any) -> bool:
    return isinstance(reference, type) and issubclass(reference, nn.Module)


def _misconceptions_of_modules(reference: type[nn.Module]) -> list[Misconception]:
    class Renamed(reference):  # type: ignore[misc, valid-type]
        def named_parameters(self, *arguments: Any, **options: Any) -> Any:
            for name, parameter in super().named_parameters(*arguments, **options):
                yield f"my_{name}", parameter

    class Frozen(reference):  # type: ignore[misc, valid-type]
        def __init__(self, *sizes: Any, **options: Any) -> None:
            super().__init__(*sizes, **options)
            self.requires_grad_(False)

    class KeepsFirstAnswer(reference):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any) -> Any:
            if not hasattr(self, "first_answer"):
                self.first_answer = super().forward(*inputs)
            return self.first_answer

    class MakesFloat32(reference):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Any) -> Any:
            return super().forward(*(t.float() if t is not None and t.is_floating_point() else t for t in inputs))

    return [
        *(_masks_kept(reference) if _takes_a_mask(reference) else []),
        wrong(
            "layers_renamed",
            "The layers have other names",
            "All layers are there, but not under the names of the contract. The check fills them by their names, and "
            "so does everyone who loads saved weights.",
            Renamed,
        ),
        wrong(
            "parameters_frozen",
            "A parameter is frozen",
            "`requires_grad_(False)`, or requires_grad=False where a parameter is made, keeps the optimiser from ever "
            "changing it. All parameters of this module learn.",
            Frozen,
        ),
        wrong(
            "keeps_first_answer",
            "The first answer is kept and given again",
            "Something is stored in the module at the first call and returned at the next, although the input has "
            "changed. Compute everything from the arguments.",
            KeepsFirstAnswer,
        ),
        wrong(
            "input_made_float32",
            "The input is made float32",
            "`.float()` makes float32 of any input, and the layers may be of another dtype: a product of the two "
            "fails. Leave the dtype alone; who calls you has matched input and layers.",
            MakesFloat32,
        ),
    ]


def _takes_a_mask(reference: type[nn.Module]) -> bool:
    """Whether `forward` has an input that need not be given."""
    return any(p.default is None for p in inspect.signature(reference.forward).parameters.values())


def _masks_kept(reference: type[nn.Module]) -> list[Misconception]:
    class KeepsMask(reference):  # type: ignore[misc, valid-type]
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
            if mask is not None:
                self.kept = mask
            return super().forward(x, getattr(self, "kept", None))

    class KeepsFirstMask(reference):  # type: ignore[misc, valid-type]
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
            if not hasattr(self, "kept"):
                self.kept = mask
            return super().forward(x, self.kept)

    return [
        wrong(
            "mask_lives_on",
            "The mask of one call lives on in the next",
            "A mask that was given once is stored in the module, and a later call that comes without any is masked by "
            "it. Use the argument of this call, and nothing else: None means that nothing is blocked.",
            KeepsMask,
        ),
        wrong(
            "first_key_mask_kept",
            "The mask of the first call is used in all others",
            "Something is stored at the first call, a mask or that there was none, and the masks of later calls are "
            "not looked at. Each call brings its own sentences, with padding of their own.",
            KeepsFirstMask,
        ),
    ]


class KeepsFirstAnswer:
    """Answers a second call of the same shapes and dtypes with the result of the first."""

    def __init__(self, reference: Callable[..., Any]) -> None:
        self.reference = reference
        self.answers: dict[tuple, Any] = {}

    def __call__(self, *inputs: Any) -> Any:
        key = tuple((t.shape, t.dtype, t.device.type) for t in tree_leaves(inputs) if isinstance(t, Tensor))
        if key in self.answers:
            return self.answers[key]
        result = self.reference(*inputs)
        self.answers[key] = tree_map_only(Tensor, lambda t: t.detach().clone(), result)
        return result


def around(reference: Any, change: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """The reference with its result passed through `change(outputs, inputs)`."""
    if _is_module(reference):

        class Changed(reference):  # type: ignore[misc, valid-type]
            def forward(self, *inputs: Any) -> Any:
                return change(super().forward(*inputs), inputs)

        return Changed
    return lambda *inputs: change(reference(*inputs), inputs)


def _change_input(outputs: Any, inputs: tuple[Any, ...]) -> Any:
    first = next(t for t in tree_leaves(inputs) if isinstance(t, Tensor))
    first.add_(1)
    return outputs


def _first_for_all(tensor: Tensor) -> Tensor:
    return tensor[:1].expand_as(tensor)


def _to_float32(outputs: Any, inputs: tuple[Any, ...]) -> Any:
    return tree_map_only(Tensor, Tensor.float, outputs)


def _view_inputs(outputs: Any, inputs: tuple[Any, ...]) -> Any:
    for tensor in tree_leaves(inputs):
        if isinstance(tensor, Tensor):
            tensor.view(-1)
    return outputs


def _fill_new_tensor(outputs: Any, inputs: tuple[Any, ...]) -> Any:
    def filled(tensor: Tensor) -> Tensor:
        new = torch.zeros(tensor.shape)
        new[...] = tensor
        return new

    return tree_map_only(Tensor, filled, outputs)


def _add_cpu_tensor(outputs: Any, inputs: tuple[Any, ...]) -> Any:
    return tree_map_only(Tensor, lambda t: t + torch.zeros(t.shape, dtype=t.dtype), outputs)
