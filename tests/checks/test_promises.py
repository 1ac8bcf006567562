"""What lesson 00 promises holds for every exercise: an answer that breaks it is rejected, in each of them."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from right_but import CODE, INPUTS, MEMORY, Outputs, is_rejected, is_right, right_but, tensors
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from attnlib.checks.asking.observation import Asking
from attnlib.checks.asking.observe import input_names, observe
from attnlib.checks.course.promises import LARGE, PROMISES, promised

pytestmark = pytest.mark.slow


def is_made_there(value: Any) -> bool:
    """Whether the attempt gets something else in its place, such as a model (see `asking.given`)."""
    return isinstance(value, dict) and any(" " in str(key) for key in value)


def plain(name: str) -> list[Tensor]:
    """The tensors that the attempt gets as such."""
    return tensors([value for value in INPUTS[name] if not is_made_there(value)])


def floating(value: Any) -> bool:
    return any(t.is_floating_point() for t in tensors(value))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.name)
@pytest.mark.parametrize("name", CODE)
def test_a_promise_is_tried_or_there_is_a_reason_why_not(name: str, promise: Any) -> None:
    exercise = CODE[name]
    is_tried = any(promise.is_tried(case) for case in exercise.cases if not case.hidden)
    if promise.name in exercise.excused:
        assert not is_tried
        assert len(exercise.excused[promise.name]) > 20
    else:
        assert is_tried or not any(promise.can_try(exercise, case) for case in exercise.cases if not case.raises)


def test_whoever_is_excused_is_excused_from_a_promise_that_exists() -> None:
    assert {name for exercise in CODE.values() for name in exercise.excused} <= {promise.name for promise in PROMISES}


def test_what_is_tried_already_is_not_tried_again() -> None:
    assert [case for exercise in CODE.values() for case in promised(exercise)] == []


class Operators(TorchDispatchMode):
    """Notes the names of all operators."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CODE)
def test_whatever_takes_an_exp_is_asked_for_large_scores_or_says_why_not(name: str) -> None:
    exercise, operators = CODE[name], Operators()

    def watched(answer: Any) -> Any:
        def call(*inputs: Any) -> Any:
            with operators:
                return answer(*inputs)

        return call

    if exercise.kind == "function":
        attempt: Any = watched(exercise.reference)
    else:
        attempt = type("Watched", (exercise.reference,), {"forward": watched(exercise.reference.forward)})
    observe(exercise, attempt, exercise.cases[0])
    takes_exp = any(used in ("exp", "exp_") or "softmax" in used or "attention" in used for used in operators.names)
    if takes_exp and not any(case.magnitude >= LARGE for case in exercise.cases):
        assert "large scores" in exercise.excused
    if exercise.attends:
        assert takes_exp


def changed(value: Any) -> None:
    """Change the first thing in it that can be changed."""
    if isinstance(value, list):
        value.append(value[0])
    elif isinstance(value, dict):
        value["another"] = 1
    elif isinstance(value, Tensor):
        with torch.no_grad():
            value.view(value.shape)[...] = ~value if value.dtype == torch.bool else value + 1


CHANGEABLE = [
    pytest.param(name, at, id=f"{name}-{argument}")
    for name, exercise in CODE.items()
    for at, (argument, value) in enumerate(zip(input_names(exercise), INPUTS[name], strict=False))
    if isinstance(value, Tensor | list) or (isinstance(value, dict) and not is_made_there(value))
]


@pytest.mark.parametrize(("name", "at"), CHANGEABLE)
def test_an_answer_that_changes_an_input_is_rejected(name: str, at: int) -> None:
    exercise = CODE[name]

    def after(inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
        kept = tree_map_only(Tensor, lambda t: t.clone(), outputs)
        if at < len(inputs) and not any((t.requires_grad and t.is_leaf) or t.is_meta for t in tensors(inputs[at])):
            changed(inputs[at])
        return kept

    assert is_rejected(exercise, right_but(exercise, after))


@pytest.mark.parametrize("name", [n for n, e in CODE.items() if e.kind == "module" or floating(INPUTS[n])])
@pytest.mark.parametrize("where", ["always", "with gradients"])
def test_an_answer_that_returns_another_dtype_is_rejected(name: str, where: str) -> None:
    exercise = CODE[name]
    if where == "with gradients" and not any(case.gradient for case in exercise.cases):
        pytest.skip("no gradient is asked for")
    if "the dtype that was given" in exercise.excused:
        pytest.skip(exercise.excused["the dtype that was given"])

    def after(inputs: tuple[Any, ...], outputs: Outputs, module: nn.Module | None) -> Outputs:
        carries = any(t.requires_grad for t in tensors(inputs)) or (module is not None and module.training)
        if where == "with gradients" and not carries:
            return outputs
        others = {torch.float64: torch.float32} | ({torch.float32: torch.float64} if where == "with gradients" else {})
        return tree_map_only(Tensor, lambda t: t.to(others.get(t.dtype, t.dtype)), outputs)

    case = exercise.cases[0]
    expected = observe(exercise, exercise.reference, case, Asking(memory=MEMORY), exact=True)
    assert expected.outputs is not None
    if not any(t.is_floating_point() for t in expected.outputs):
        pytest.skip("the result is no floating number")
    assert is_rejected(exercise, right_but(exercise, after))


@pytest.mark.parametrize("name", [name for name, exercise in CODE.items() if tensors(INPUTS[name])])
def test_an_answer_that_makes_a_tensor_on_the_cpu_is_rejected(name: str) -> None:
    exercise = CODE[name]
    if "the device that was given" in exercise.excused:
        pytest.skip(exercise.excused["the device that was given"])

    def mixed(output: Tensor) -> Tensor:
        ours = torch.ones(1, dtype=output.dtype)
        rows = output[..., None]  # a number without axes is welcome on any device
        return (rows & ours if output.dtype == torch.bool else rows * ours)[..., 0]

    def after(_inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
        return tree_map_only(Tensor, mixed, outputs)

    assert is_rejected(exercise, right_but(exercise, after))


@pytest.mark.parametrize("name", [name for name in CODE if plain(name)])
def test_an_answer_that_is_remembered_for_the_object_is_rejected(name: str) -> None:
    """As `functools.cache` remembers it, whatever the numbers in the tensor are by then."""
    kept: dict[int, tuple[Any, Any]] = {}
    if "a second call with the same objects" in CODE[name].excused:
        pytest.skip(CODE[name].excused["a second call with the same objects"])

    def after(inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
        [first, *_] = tensors(inputs) or [None]
        if first is None or first.is_meta:
            return outputs
        return kept.setdefault(id(first), (first, tree_map_only(Tensor, lambda t: t.clone(), outputs)))[1]

    assert is_rejected(CODE[name], right_but(CODE[name], after))


def viewed(value: Any) -> None:
    for tensor in tensors(value):
        tensor.view(-1)


@pytest.mark.parametrize("name", [name for name in CODE if any(t.dim() > 1 for t in plain(name))])
def test_an_answer_that_asks_for_contiguous_memory_is_rejected(name: str) -> None:
    def after(inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
        viewed([value for value in inputs if not isinstance(value, nn.Module)])
        return outputs

    exercise = CODE[name]
    if "memory that is not contiguous" in exercise.excused:
        pytest.skip(exercise.excused["memory that is not contiguous"])
    assert is_rejected(exercise, right_but(exercise, after))


class NaiveSoftmax(TorchFunctionMode):
    """Every softmax as its formula says, without subtracting the largest score."""

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in (torch.softmax, Tensor.softmax, F.softmax):
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            powers = args[0].exp()
            weights = powers / powers.sum(dim=dim, keepdim=True)
            return weights if kwargs.get("out") is None else kwargs["out"].copy_(weights)
        if function in (torch.amax, Tensor.amax):  # what a softmax written out subtracts
            return torch.zeros_like(function(*args, **kwargs))
        if function is F.scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        return function(*args, **kwargs)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, is_causal: bool = False, **_: Any) -> Any:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if is_causal else attn_mask
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        powers = scores.exp()
        return powers / powers.sum(dim=-1, keepdim=True) @ v


@pytest.mark.parametrize("name", [name for name, exercise in CODE.items() if exercise.attends])
def test_an_answer_whose_exp_overflows_is_rejected(name: str) -> None:
    exercise = CODE[name]

    def naive(answer: Any) -> Any:
        def call(*inputs: Any) -> Any:
            with NaiveSoftmax():
                return answer(*inputs)

        return call

    if exercise.kind == "function":
        attempt: Any = naive(exercise.reference)
    else:
        attempt = type("Naive", (exercise.reference,), {"forward": naive(exercise.reference.forward)})
    [large] = [case for case in exercise.cases if case.name == "scores that are far too large for exp"]
    assert not is_right(exercise, attempt, large)
    assert is_right(exercise, attempt, exercise.cases[0])
