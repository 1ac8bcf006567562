import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, TOLERANCE, assert_agrees, devices, quick, random_mask, randoms, slow_attention, untyped

from attnlib import SelfAttention, causal_mask, project_qkv


@pytest.mark.parametrize("bias", [False, True])
def test_project_then_attend(bias):
    module = SelfAttention(7, 3, 5, bias=bias).double()
    (x,) = randoms((2, 11, 7))
    mask = random_mask(2, 11, 11)
    q, k, v = (layer(x) for layer in (module.w_q, module.w_k, module.w_v))
    for options, opened in (({}, None), ({"mask": mask}, mask), ({"is_causal": True}, causal_mask(11, 11))):
        expected, expected_weights = slow_attention(q, k, v, opened)
        output, weights = module(x, return_weights=True, **options)
        assert_agrees(output, expected)
        assert_agrees(weights, expected_weights)
        assert_agrees(module(x, **options), expected)
    assert (module.w_q.bias is not None) == bias


def test_layers_have_the_contract_names_and_a_bias_only_if_asked():
    assert {n: tuple(p.shape) for n, p in SelfAttention(7, 3, 5).named_parameters()} == {
        "w_q.weight": (3, 7),
        "w_k.weight": (3, 7),
        "w_v.weight": (5, 7),
    }


@quick
@given(st.integers(1, 11), st.integers(0, 100))
def test_permutation_equivariance(n, seed):
    torch.manual_seed(seed)
    module = SelfAttention(7, 3, 5).double()
    (x,) = randoms((2, n, 7), seed=seed)
    order = torch.randperm(n)
    assert_agrees(module(x[:, order]), module(x)[:, order])


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, device):
    module = SelfAttention(7, 3, 5).to(device, dtype)
    (x,) = randoms((2, 11, 7), dtype=dtype, device=device)
    q, k, v = project_qkv(x, module.w_q.weight.T, module.w_k.weight.T, module.w_v.weight.T)
    output = module(x, is_causal=True)
    assert output.dtype == dtype
    expected = slow_attention(q.cpu(), k.cpu(), v.cpu(), causal_mask(11, 11))[0]
    assert_agrees(output, expected, tolerance=4 * TOLERANCE[dtype])


def test_another_width_is_an_error():
    with untyped(), pytest.raises(ValueError, match=r"x must have d_model = 7 features .* got \(2, 11, 5\)"):
        SelfAttention(7, 3, 5)(torch.zeros(2, 11, 5))
