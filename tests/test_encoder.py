import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import DTYPES, TOLERANCE, assert_agrees, devices, few, random_mask, randoms

from attnlib import Encoder, EncoderBlock, KVCache, Rotary, layer_norm


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_block_is_its_two_equations(norm_first):
    torch.manual_seed(0)
    block = EncoderBlock(12, 3, norm_first=norm_first, eps=0.1, mlp_ratio=2.6).double()
    (x,) = randoms((2, 5, 12))
    keys, mask = random_mask(2, 5), random_mask(5, 5, seed=1)

    def norm(layer, y):
        return layer_norm(y, layer.weight, layer.bias, eps=0.1)

    for options in ({}, {"key_mask": keys, "mask": mask}, {"is_causal": True}):
        if norm_first:
            middle = x + block.attn(norm(block.norm1, x), **options)
            expected = middle + block.mlp(norm(block.norm2, middle))
        else:
            middle = norm(block.norm1, x + block.attn(x, **options))
            expected = norm(block.norm2, middle + block.mlp(middle))
        assert_agrees(block(x, **options), expected)
    assert block.mlp.up.out_features == 31


def test_parameters_have_the_contract_names():
    names = {name.rsplit(".", 1)[0] for name, _ in EncoderBlock(12, 3).named_parameters()}
    attention = {f"attn.{layer}" for layer in ("w_q", "w_k", "w_v", "w_o")}
    assert names == {"norm1", "norm2", "mlp.up", "mlp.down"} | attention


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_encoder_is_its_blocks_one_after_the_other(norm_first):
    encoder = Encoder(3, 12, 3, norm_first=norm_first).double()
    (x,) = randoms((2, 5, 12))
    keys = random_mask(2, 5)
    expected = x
    for layer in encoder.layers:
        expected = layer(expected, keys)
    expected = encoder.norm(expected)
    assert_agrees(encoder(x, keys), expected)
    assert len(encoder.layers) == 3
    assert isinstance(encoder.norm, torch.nn.LayerNorm) == norm_first


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype, device):
    torch.manual_seed(0)
    encoder = Encoder(2, 12, 3)
    (x,) = randoms((2, 5, 12))
    expected = encoder.double()(x)
    output = encoder.to(device, dtype)(x.to(device, dtype))
    assert output.dtype == dtype
    assert_agrees(output, expected, tolerance=5 * TOLERANCE[dtype])


@few
@given(st.integers(2, 11), st.integers(0, 100), st.data())
def test_padding_and_future_never_reach_real_positions_and_order_is_not_seen(n, seed, data):
    torch.manual_seed(seed)
    encoder = Encoder(2, 12, 3).double()
    (x,) = randoms((2, n, 12), seed=seed)
    whole = encoder(x)
    longer = torch.cat([x, 9 * torch.randn(2, 3, 12).double()], dim=1)
    keys = (torch.arange(n + 3) < n).expand(2, -1)
    assert_agrees(encoder(longer, keys)[:, :n], whole, tolerance=1e-11)
    t = data.draw(st.integers(1, n - 1))
    past = encoder(x[:, :t], is_causal=True)
    assert_agrees(encoder(x, is_causal=True)[:, :t], past, tolerance=1e-11)
    order = torch.randperm(n)
    assert_agrees(encoder(x[:, order]), whole[:, order], tolerance=1e-11)


def test_cached_decoding_equals_the_full_forward():
    encoder = Encoder(2, 12, 6, num_kv_heads=2, rotary=Rotary(2)).double()
    (x,) = randoms((2, 7, 12))
    caches = [KVCache(2, 2, 7, 2, dtype=torch.float64) for _ in range(2)]
    parts = [encoder(piece, is_causal=True, caches=caches) for piece in x.split([4, 1, 2], dim=1)]
    assert_agrees(torch.cat(parts, dim=1), encoder(x, is_causal=True))
    with pytest.raises(ValueError, match="one cache for each of 2 blocks, got 1"):
        encoder(x, caches=caches[:1])


def test_dropout_is_the_perceptrons_alone():
    block = EncoderBlock(12, 3, dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert torch.equal(block.attn(x), block.attn(x))
    assert not torch.equal(block.mlp(x), block.mlp(x))
    block.eval()
    assert torch.equal(block(x), block(x))
