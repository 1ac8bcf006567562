import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, assert_agrees, quick, random_mask, randoms, untyped

from attnlib import (
    from_additive,
    from_blocked,
    from_keep,
    from_padding,
    scaled_dot_product_attention,
    to_additive,
    to_blocked,
    to_keep,
    to_padding,
)


@quick
@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 100))
def test_from_undoes_to(q_len, k_len, seed):
    mask = random_mask(q_len, k_len, seed=seed)
    assert torch.equal(from_blocked(to_blocked(mask)), mask)
    assert torch.equal(from_padding(to_padding(mask)), mask)
    for dtype in (*DTYPES, torch.int32, torch.int64, torch.uint8, torch.bool):
        assert to_keep(mask, dtype=dtype).dtype == dtype
        assert torch.equal(from_keep(to_keep(mask, dtype=dtype)), mask)
    for dtype in DTYPES:
        assert to_additive(mask, dtype=dtype).dtype == dtype
        assert torch.equal(from_additive(to_additive(mask, dtype=dtype)), mask)


def test_each_convention_entry_by_entry():
    mask = torch.tensor([[True, False, True]])
    assert to_blocked(mask).tolist() == [[False, True, False]]
    assert to_padding(mask).tolist() == [[False, True, False]]
    assert to_additive(mask).tolist() == [[0.0, -torch.inf, 0.0]]
    assert to_keep(mask).tolist() == [[1, 0, 1]]


def test_pytorch_understands_what_it_is_given():
    q, k, v = randoms((2, 5, 12), (2, 7, 12), (2, 7, 12))
    mask = random_mask(5, 7) | (torch.arange(7) == 3)
    keys = random_mask(2, 7, seed=1) | (torch.arange(7) == 3)
    expected = scaled_dot_product_attention(q, k, v, mask=mask & keys[:, None])
    additive = to_additive(mask, dtype=torch.float64)
    padded = additive + to_additive(keys, dtype=torch.float64)[:, None]
    assert_agrees(F.scaled_dot_product_attention(q, k, v, attn_mask=padded), expected)

    module = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    blocked = module(q, k, v, attn_mask=to_blocked(mask), key_padding_mask=to_padding(keys), need_weights=True)
    both = to_blocked(mask & keys[:, None]).repeat_interleave(3, dim=0)
    assert_agrees(blocked[0], module(q, k, v, attn_mask=both, need_weights=True)[0])


def test_errors():
    with pytest.raises(ValueError, match=r"an additive mask must hold 0 or -inf and nothing else, got 0.25"):
        from_additive(torch.tensor([0.0, 0.25]))
    with pytest.raises(ValueError, match="a mask of numbers must hold 0 or 1 and nothing else, got 2"):
        from_keep(torch.tensor([0, 1, 2]))
    with pytest.raises(TypeError, match=r"must be floating point, got dtype = torch.int64"):
        to_additive(torch.tensor([True]), dtype=torch.int64)
    with untyped():
        with pytest.raises(TypeError, match=r"True = blocked must be bool, got torch.int64"):
            from_blocked(torch.tensor([0, 1]))
        with pytest.raises(TypeError, match=r"mask must be bool, got torch.int64"):
            to_keep(torch.tensor([0, 1]))
        with pytest.raises(TypeError, match=r"must be floating point, 0 or -inf, got torch.bool"):
            from_additive(torch.tensor([True]))
        with pytest.raises(ValueError, match=r"padding mask must have shape \(b, k\), got \(2, 3, 5\)"):
            from_padding(torch.zeros(2, 3, 5, dtype=torch.bool))
        with pytest.raises(ValueError, match=r"key_mask must have shape \(b, k\), got \(5,\)"):
            to_padding(torch.zeros(5, dtype=torch.bool))
