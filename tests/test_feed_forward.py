import math

import pytest
import torch
from oracles import assert_agrees, randoms, untyped

from attnlib import FeedForward


def test_exact_gelu_between_two_layers():
    module = FeedForward(7, 29).double()
    (x,) = randoms((2, 11, 7))
    hidden = x @ module.up.weight.T + module.up.bias
    hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    assert_agrees(module(x), hidden @ module.down.weight.T + module.down.bias)
    assert torch.autograd.gradcheck(module, x[0, :1])


def test_the_gelu_by_tanh_is_another_one():
    module = FeedForward(7, 29, activation="gelu_tanh").double()
    (x,) = randoms((2, 11, 7))
    hidden = x @ module.up.weight.T + module.up.bias
    hidden = hidden * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
    assert_agrees(module(x), hidden @ module.down.weight.T + module.down.bias)


def test_relu_and_no_bias():
    module = FeedForward(7, 29, activation="relu", bias=False).double()
    (x,) = randoms((2, 11, 7))
    assert_agrees(module(x), (x @ module.up.weight.T).clamp_min(0) @ module.down.weight.T)
    assert {name for name, _ in module.named_parameters()} == {"up.weight", "down.weight"}


def test_dropout_in_both_places_and_in_training_only():
    module = FeedForward(7, 29, dropout=0.5)
    with torch.no_grad():
        module.down.bias.fill_(100.0)
    x = torch.randn(101, 7)
    torch.manual_seed(0)
    output = module(x)
    assert 0.4 < (output == 0).double().mean() < 0.6  # the second one drops whole outputs
    kept = output[output != 0]
    assert kept.std() > 0.05
    module.eval()
    assert torch.equal(module(x), module(x))
    still = module(x)
    dropped = (output != 0) & ((output / 2 - still).abs() > 1e-4)
    assert dropped.any()  # where the second one kept an output, the first one still changed it


def test_errors():
    with pytest.raises(ValueError, match=r"one of \['gelu', 'gelu_tanh', 'relu', 'silu'\], got 'tanh'"):
        FeedForward(7, 29, activation="tanh")
    with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 5\)"):
        FeedForward(7, 29)(torch.zeros(2, 5))
