import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, TOLERANCE, assert_agrees, assert_same_gradients, quick, randoms

from attnlib import causal_mask, masked_softmax, renormalised_causal_weights

length = st.integers(1, 11)


@quick
@given(length, length, st.integers(0, 100))
def test_equals_softmax_triangle_division_and_equals_masking_first(q_len, k_len, seed):
    (scores,) = randoms((2, q_len, k_len), seed=seed)
    triangle = causal_mask(q_len, k_len)
    kept = torch.softmax(scores, dim=-1) * triangle
    literal = kept / kept.sum(dim=-1, keepdim=True).masked_fill(~triangle.any(dim=-1, keepdim=True), 1.0)
    weights = renormalised_causal_weights(scores)
    assert_agrees(weights, literal)
    assert_agrees(weights, masked_softmax(scores, triangle))
    assert_same_gradients(weights, masked_softmax(scores, triangle), [scores])


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_where_the_literal_division_is_zero_by_zero(dtype):
    scores = torch.tensor([[0.0, 30000.0], [1.0, 1.0]], dtype=dtype, requires_grad=True)
    weights = renormalised_causal_weights(scores)
    assert_agrees(weights, torch.tensor([[1.0, 0.0], [0.5, 0.5]]), tolerance=TOLERANCE[dtype])
    assert torch.isfinite(torch.autograd.grad(weights[:, 0].sum(), scores)[0]).all()


def test_gradcheck():
    (scores,) = randoms((3, 5, 7))
    assert torch.autograd.gradcheck(renormalised_causal_weights, scores)
