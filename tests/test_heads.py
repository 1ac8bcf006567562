import pytest
import torch
from einops import rearrange
from hypothesis import given
from hypothesis import strategies as st
from oracles import assert_agrees, quick, randoms, untyped

from attnlib import merge_heads, split_heads, stack_head_weights

size = st.integers(1, 7)


@quick
@given(size, size, size, size)
def test_split_is_the_einops_pattern_and_merge_its_inverse(b, n, h, d):
    (x,) = randoms((b, n, h * d))
    heads = split_heads(x, h)
    assert torch.equal(heads, rearrange(x, "b n (h d) -> b h n d", h=h))
    assert torch.equal(merge_heads(heads), x)


def test_any_leading_axes_and_no_copy():
    (x,) = randoms((5, 14))
    assert split_heads(x, 2).shape == (2, 5, 7)
    assert split_heads(x[None, None], 2).shape == (1, 1, 2, 5, 7)
    assert split_heads(x, 2).data_ptr() == x.data_ptr()
    assert torch.autograd.gradcheck(lambda y: merge_heads(split_heads(y, 2) ** 2), x)


def test_stacked_weights_are_the_single_heads_side_by_side():
    (x,) = randoms((2, 5, 7))
    per_head = randoms(*[(7, 3)] * 11)
    stacked = stack_head_weights(per_head)
    for i, w in enumerate(per_head):
        assert_agrees(split_heads(x @ stacked, 11)[:, i], x @ w)


def test_errors():
    with pytest.raises(ValueError, match="divisible by num_heads, got width 14 and num_heads = 3"):
        split_heads(torch.zeros(5, 14), 3)
    with pytest.raises(ValueError, match="num_heads = 0"):
        split_heads(torch.zeros(5, 14), 0)
    with untyped(), pytest.raises(ValueError, match=r"same shape, got \[\(7, 3\), \(7, 2\)\]"):
        stack_head_weights([torch.zeros(7, 3), torch.zeros(7, 2)])
    with pytest.raises(ValueError, match=r"same shape, got \[\]"):
        stack_head_weights([])
