import pytest
import torch
import torch.nn.functional as F
from oracles import DTYPES, assert_agrees, assert_same_gradients, devices, randoms, untyped

from attnlib import layer_norm


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_agrees_with_pytorch(dtype, device):
    x, gain, bias = randoms((2, 5, 7), (7,), (7,), dtype=dtype, device=device)
    for eps in (1e-5, 0.3):
        ours = layer_norm(x, gain, bias, eps=eps)
        assert ours.dtype == dtype
        theirs = F.layer_norm(x.double(), (7,), gain.double(), bias.double(), eps)
        assert_agrees(ours, theirs, tolerance=1e-2 if dtype == torch.bfloat16 else None)


def test_gradients():
    x, gain, bias = randoms((2, 5, 7), (7,), (7,))
    assert torch.autograd.gradcheck(layer_norm, (x, gain, bias))
    assert_same_gradients(layer_norm(x, gain, bias), F.layer_norm(x, (7,), gain, bias), [x, gain, bias], 1e-11)


def test_mean_zero_variance_one_and_blind_to_shift_and_scale():
    (x,) = randoms((5, 7))
    one, zero = torch.ones(7).double(), torch.zeros(7).double()
    normal = layer_norm(x, one, zero, eps=0.0)
    assert_agrees(normal.mean(dim=-1), torch.zeros(5))
    assert_agrees(normal.var(dim=-1, correction=0), torch.ones(5))
    assert_agrees(layer_norm(13 * x + 17, one, zero, eps=0.0), normal, tolerance=1e-11)


def test_constant_and_large_rows_give_no_nan():
    one, zero = torch.ones(7), torch.zeros(7)
    assert_agrees(layer_norm(torch.full((3, 7), 5.0), one, zero), torch.zeros(3, 7))
    x = (torch.tensor([[1.0, -1, 1, -1, 1, -1, 0]]) * 6e4).half()
    assert_agrees(layer_norm(x, one.half(), zero.half()), F.layer_norm(x.double(), (7,)))


def test_errors():
    with untyped(), pytest.raises(ValueError, match=r"\(d_model,\) = \(7,\), got \(5,\) and \(7,\)"):
        layer_norm(torch.zeros(2, 7), torch.ones(5), torch.zeros(7))
