"""What is no tensor, no mask, no length gets one clear sentence, not what torch happens to say."""

import numpy as np
import pytest
import torch
from oracles import untyped

from attnlib import (
    MultiHeadAttention,
    SelfAttention,
    SinusoidalPositions,
    causal_mask,
    padding_mask,
    rotate,
    scaled_dot_product_attention,
    sliding_window_mask,
)

X = torch.ones(2, 3, 12)
ONES = torch.ones(2, 3)

WRONG = [
    (lambda: scaled_dot_product_attention([[1.0]], ONES, ONES), "q must be a torch.Tensor, got list"),
    (lambda: scaled_dot_product_attention(ONES, ONES.numpy(), ONES), "k must be a torch.Tensor, got ndarray"),
    (lambda: scaled_dot_product_attention(ONES, ONES, ONES, mask=[[True]]), "mask must be a torch.Tensor, got list"),
    (lambda: scaled_dot_product_attention(ONES, ONES, ONES, score_bias=0.5), "score_bias .* got float"),
    (lambda: MultiHeadAttention(12, 3)(X.tolist()), "x must be a torch.Tensor, got list"),
    (lambda: MultiHeadAttention(12, 3)(X, X.numpy()), "memory must be a torch.Tensor, got ndarray"),
    (lambda: MultiHeadAttention(12, 3)(X, key_mask=np.ones((2, 3), dtype=bool)), "key_mask .* got ndarray"),
    (lambda: SelfAttention(12, 5, 7)(X.numpy()), "x must be a torch.Tensor, got ndarray"),
    (lambda: SelfAttention(12, 5, 7)(X.long()), "x must be floating point, got torch.int64"),
    (lambda: rotate(torch.ones(2, 4).long(), torch.arange(2)), "x must be floating point, got torch.int64"),
    (lambda: SinusoidalPositions(5, 4)(torch.ones(2, 4).long()), "x must be floating point, got torch.int64"),
    (lambda: padding_mask([1, 2], 3), "lengths must be a torch.Tensor, got list"),
    (lambda: padding_mask(torch.tensor([1.0, 2.0]), 3), "lengths must be integers, got torch.float32"),
    (lambda: padding_mask(torch.tensor([True]), 3), "lengths must be integers, got torch.bool"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_what_has_another_type_is_named(call, text):
    with untyped(), pytest.raises(TypeError, match=text):
        call()


VALUES = [
    (lambda: padding_mask(torch.tensor([-1, 2]), 3), r"between 0 and max_len = 3, got \[-1, 2\]"),
    (lambda: padding_mask(torch.tensor([[1, 2]]), 3), r"lengths must have shape \(b,\), got \(1, 2\)"),
    (lambda: padding_mask(torch.tensor([0]), -3), "max_len must be at least 0, got -3"),
    (lambda: causal_mask(-1, 3), "q_len must be at least 0, got -1"),
    (lambda: sliding_window_mask(1, -3, 2), "k_len must be at least 0, got -3"),
]


@pytest.mark.parametrize(("call", "text"), VALUES)
def test_what_is_out_of_range_is_told(call, text):
    with untyped(), pytest.raises(ValueError, match=text):
        call()


def test_a_key_mask_in_place_of_a_mask_is_told_how_to_become_one():
    keys = torch.tensor([[True, True, False], [True, False, False]])
    attention = MultiHeadAttention(12, 3)
    with pytest.raises(ValueError, match=r"got \(2, 3\); a key mask \(b, k\) has to become mask\[:, None, None, :\]"):
        attention(X, mask=keys)
    assert torch.equal(attention(X, mask=keys[:, None, None, :]), attention(X, key_mask=keys))
