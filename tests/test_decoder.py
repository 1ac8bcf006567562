import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, TOLERANCE, assert_agrees, devices, few, random_mask, randoms

from attnlib import Decoder, DecoderBlock, KVCache


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_block_is_its_three_equations(norm_first):
    torch.manual_seed(0)
    block = DecoderBlock(12, 3, norm_first=norm_first, d_memory=7).double()
    x, memory = randoms((2, 5, 12), (2, 11, 7))
    keys, mask = random_mask(2, 5), random_mask(5, 5, seed=1)
    memory_keys, memory_mask = random_mask(2, 11, seed=2), random_mask(5, 11, seed=3)
    own, cross = {"key_mask": keys, "mask": mask, "is_causal": True}, {"key_mask": memory_keys, "mask": memory_mask}
    if norm_first:
        first = x + block.attn(block.norm1(x), **own)
        second = first + block.cross(block.norm2(first), memory, **cross)
        expected = second + block.mlp(block.norm3(second))
    else:
        first = block.norm1(x + block.attn(x, **own))
        second = block.norm2(first + block.cross(first, memory, **cross))
        expected = block.norm3(second + block.mlp(second))
    assert_agrees(block(x, memory, keys, memory_keys, mask=mask, memory_mask=memory_mask), expected)


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_decoder_is_its_blocks_one_after_the_other(norm_first):
    decoder = Decoder(3, 12, 3, norm_first=norm_first).double()
    x, memory = randoms((2, 5, 12), (2, 7, 12))
    keys, memory_keys = random_mask(2, 5), random_mask(2, 7, seed=1)
    expected = x
    for layer in decoder.layers:
        expected = layer(expected, memory, keys, memory_keys)
    assert_agrees(decoder(x, memory, keys, memory_keys), decoder.norm(expected))


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, device):
    torch.manual_seed(0)
    decoder = Decoder(2, 12, 3)
    x, memory = randoms((2, 5, 12), (2, 7, 12))
    expected = decoder.double()(x, memory)
    output = decoder.to(device, dtype)(x.to(device, dtype), memory.to(device, dtype))
    assert output.dtype == dtype
    assert_agrees(output, expected, tolerance=5 * TOLERANCE[dtype])


@few
@given(st.integers(2, 11), st.integers(0, 100), st.data())
def test_the_past_is_blind_to_the_future_and_padding_to_everything(n, seed, data):
    torch.manual_seed(seed)
    decoder = Decoder(2, 12, 3).double()
    x, memory, rest = randoms((2, n, 12), (2, 7, 12), (2, 3, 12), seed=seed)
    t = data.draw(st.integers(1, n - 1))
    assert_agrees(decoder(x, memory)[:, :t], decoder(x[:, :t], memory), tolerance=1e-11)
    keys = (torch.arange(10) < 7).expand(2, -1)
    padded = decoder(x, torch.cat([memory, 9 * rest], dim=1), memory_key_mask=keys)
    assert_agrees(padded, decoder(x, memory), tolerance=1e-11)


def test_cached_decoding_equals_the_full_forward():
    decoder = Decoder(2, 12, 6, num_kv_heads=2).double()
    x, memory = randoms((2, 7, 12), (2, 11, 12))
    caches = [KVCache(2, 2, 7, 2, dtype=torch.float64) for _ in range(2)]
    parts = [decoder(piece, memory, caches=caches) for piece in x.split([3, 1, 1, 2], dim=1)]
    assert_agrees(torch.cat(parts, dim=1), decoder(x, memory))
    with pytest.raises(ValueError, match="one cache for each of 2 blocks, got 1"):
        decoder(x, memory, caches=caches[:1])
