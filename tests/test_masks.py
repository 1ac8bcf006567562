import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import devices, quick

from attnlib import attention_sink_mask, causal_mask, padding_mask, sliding_window_mask

length = st.integers(1, 11)


@quick
@given(length, length)
def test_causal_by_its_definition(q_len, k_len):
    mask = causal_mask(q_len, k_len)
    assert mask.shape == (q_len, k_len)
    assert mask.dtype == torch.bool
    for i in range(q_len):
        for j in range(k_len):
            assert mask[i, j] == (j <= i + k_len - q_len)


@quick
@given(length, length, st.integers(1, 13), st.integers(0, 13))
def test_window_and_sink_by_their_definitions(q_len, k_len, window, sinks):
    near, sink = sliding_window_mask(q_len, k_len, window), attention_sink_mask(q_len, k_len, sinks)
    for i in range(q_len):
        for j in range(k_len):
            distance = i + k_len - q_len - j
            assert near[i, j] == (0 <= distance < window)
            assert sink[i, j] == (distance >= 0 and j < sinks)
    both = attention_sink_mask(q_len, k_len, sinks, window=window)
    assert torch.equal(both, near | sink)
    assert torch.equal(both & causal_mask(q_len, k_len), both)


def test_the_last_rows_of_a_mask_are_the_mask_of_the_last_queries():
    for make in (causal_mask, lambda q, k: sliding_window_mask(q, k, 3), lambda q, k: attention_sink_mask(q, k, 2)):
        assert torch.equal(make(11, 11)[-5:], make(5, 11))


def test_padding_by_its_definition_and_combined_with_causal():
    lengths = torch.tensor([3, 0, 7])
    keys = padding_mask(lengths, 7)
    assert keys.sum(dim=-1).tolist() == [3, 0, 7]
    assert all(keys[b, j] == (j < lengths[b]) for b in range(3) for j in range(7))
    both = causal_mask(7, 7) & keys[:, None, :]
    assert all(both[b, i, j] == (j <= i and j < lengths[b]) for b in range(3) for i in range(7) for j in range(7))


@devices
def test_masks_are_built_where_they_are_needed(device):
    masks = [
        causal_mask(3, 5, device=device),
        sliding_window_mask(3, 5, 2, device=device),
        attention_sink_mask(3, 5, 2, window=2, device=device),
        padding_mask(torch.tensor([3, 5], device=device), 5),
    ]
    assert all(mask.device.type == device for mask in masks)


def test_errors():
    with pytest.raises(ValueError, match=r"between 0 and max_len = 5, got \[3, 7\]"):
        padding_mask(torch.tensor([3, 7]), 5)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        sliding_window_mask(3, 5, 0)
    with pytest.raises(ValueError, match="sinks must be at least 0, got -1"):
        attention_sink_mask(3, 5, -1)
