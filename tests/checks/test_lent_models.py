"""A model that is lent comes back as it was, or trained: any answer that leaves it otherwise is rejected."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from right_but import CODE, INPUTS, Outputs, is_rejected, right_but
from torch import nn

from attnlib.checks.asking.given import MODEL
from attnlib.checks.course.promises import leaves_models

pytestmark = pytest.mark.slow

LENT = [(n, mode) for n, e in CODE.items() for mode in (False, True) if any(leaves_models(c, mode) for c in e.cases)]


@pytest.mark.parametrize(("name", "training"), LENT)
def test_an_answer_that_leaves_a_model_in_another_mode_is_rejected(name: str, training: bool) -> None:
    def after(inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
        next(given for given in inputs if isinstance(given, nn.Module)).train(not training)
        return outputs

    assert is_rejected(CODE[name], right_but(CODE[name], after))


LEFT: dict[str, Callable[[nn.Module], Any]] = {
    "frozen": lambda model: model.requires_grad_(False),
    "with a hook": lambda model: model.register_forward_hook(lambda *_: None),
    "with other weights": lambda model: [weight.detach().add_(1) for weight in model.parameters()],
    "with gradients": lambda model: sum(weight.sum() for weight in model.parameters()).backward(),
    "in another dtype": lambda model: (
        model.double() if next(model.parameters()).dtype == torch.float32 else model.float()
    ),
}


def learns(name: str) -> bool:
    return not any("gradients" in value[MODEL] for value in INPUTS[name] if isinstance(value, dict) and MODEL in value)


@pytest.mark.parametrize("name", [name for name, e in CODE.items() if any(leaves_models(c) for c in e.cases)])
def test_an_answer_that_leaves_a_model_otherwise_is_rejected(name: str) -> None:
    """A model that has learned may have gradients; it is the caller's own that has to learn, and not a copy."""

    def rejected(leave: Callable[[nn.Module], Any]) -> bool:
        def after(inputs: tuple[Any, ...], outputs: Outputs, _module: nn.Module | None) -> Outputs:
            leave(next(given for given in inputs if isinstance(given, nn.Module)))
            return outputs

        return is_rejected(CODE[name], right_but(CODE[name], after))

    def on_a_copy(*inputs: Any) -> Outputs:
        return CODE[name].reference(*(copy.deepcopy(v) if isinstance(v, nn.Module) else v for v in inputs))

    left = {how: leave for how, leave in LEFT.items() if how != "with gradients" or not learns(name)}
    assert [how for how, leave in left.items() if not rejected(leave)] == []
    assert not learns(name) or is_rejected(CODE[name], on_a_copy)
