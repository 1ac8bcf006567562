"""What a block may be made of besides GPT-2's parts, each as its equation and through every module."""

import pytest
import torch
from oracles import assert_agrees, randoms, untyped
from torch import nn

import attnlib
from attnlib import EncoderBlock, FeedForward, LanguageModel, MultiHeadAttention, RollingKVCache, Rotary, rms_norm


def test_rms_norm_is_torch_s_own():
    (x, gain) = randoms((2, 5, 7), (7,))
    theirs = nn.RMSNorm(7, eps=1e-3).double()
    with torch.no_grad():
        theirs.weight.copy_(gain)
    assert_agrees(rms_norm(x, gain, eps=1e-3), theirs(x))
    assert rms_norm(x.half() * 1000, torch.ones(7)).isfinite().all()
    with untyped(), pytest.raises(ValueError, match=r"gain must have shape \(d_model,\) = \(7,\), got \(5,\)"):
        rms_norm(x, torch.ones(5))


def test_a_gated_mlp_is_its_equation():
    torch.manual_seed(0)
    mlp = FeedForward(7, 11, gated=True, activation="silu").double()
    (x,) = randoms((2, 5, 7))
    gate, up = mlp.gate(x), mlp.up(x)
    assert_agrees(mlp(x), mlp.down(gate * gate.sigmoid() * up))
    assert FeedForward(7, 11).gate is None


@pytest.mark.parametrize("kind", [attnlib.EncoderBlock, attnlib.DecoderBlock])
def test_a_block_of_these_parts(kind):
    block = kind(12, 3, norm="rms", gated=True, activation="silu", d_hidden=13, d_head=5, bias=False)
    assert isinstance(block.norm1, nn.RMSNorm)
    assert block.mlp.up.out_features == 13
    assert block.attn.w_q.out_features == 15
    with pytest.raises(ValueError, match='norm must be "layer" or "rms", got \'batch\''):
        kind(12, 3, norm="batch")


def models(**more):
    torch.manual_seed(3)
    return LanguageModel(17, 12, 3, 2, 64, **more).double().eval()


def ids(n=9, b=2):
    return torch.randint(0, 17, (b, n), generator=torch.Generator().manual_seed(5))


def test_alibi_is_a_bias_on_the_scores_and_goes_through_every_module():
    with_alibi, without = models(alibi=True), models()
    bias = attnlib.alibi_bias(3, 9, 9).double()
    assert_agrees(with_alibi(ids()), without(ids(), score_bias=bias))
    assert (with_alibi(ids()) - without(ids())).abs().max() > 1e-3


@pytest.mark.parametrize("parts", [{"alibi": True}, {"rotary": Rotary(4)}, {"rotary": Rotary(4), "num_kv_heads": 1}])
@pytest.mark.parametrize("window", [None, 4])
def test_a_cache_gives_what_the_whole_text_gives(parts, window):
    model = models(learned_positions=False, window=window, **parts)
    whole, caches = model(ids(13)), model.caches(2)
    parts_of_it = [model(part, caches=caches) for part in ids(13).split([5, 1, 1, 3, 1, 2], dim=1)]
    assert_agrees(torch.cat(parts_of_it, dim=1), whole)
    assert isinstance(caches[0], RollingKVCache) == (window is not None)


def test_a_window_is_its_mask_and_its_ring_does_not_grow():
    attention = MultiHeadAttention(12, 3, window=4).double()
    (x,) = randoms((2, 9, 12))
    expected = attention(x)
    attention.window = None
    assert_agrees(attention(x, mask=attnlib.sliding_window_mask(9, 9, 4)), expected)
    model = models(learned_positions=False, rotary=Rotary(4), window=4)
    caches = model.caches(1)
    before = caches[0].nbytes
    for token in range(200):  # three times as far as max_len
        model(torch.tensor([[token % 17]]), caches=caches)
    assert caches[0].nbytes == before == 2 * 3 * 4 * 4 * 8
    assert caches[0].length == 200
    caches[0].reset()
    assert caches[0].length == 0


@pytest.mark.parametrize("parts", [{"rotary": Rotary(4), "learned_positions": False}, {}])
def test_padding_on_the_left_changes_nothing(parts):
    model, text = models(**parts), ids(6)
    padded = torch.cat([torch.full((2, 3), 16), text], dim=1)
    real = torch.arange(9) >= 3
    positions = (torch.arange(9) - 3).clamp(min=0).expand(2, 9)
    output = model(padded, key_mask=real.expand(2, 9), positions=positions)
    assert_agrees(output[:, 3:], model(text))
    caches = model.caches(2)
    first = model(padded[:, :7], key_mask=real[:7].expand(2, 7), positions=positions[:, :7], caches=caches)
    then = model(padded[:, 7:], key_mask=real.expand(2, 9), positions=positions[:, 7:], caches=caches)
    assert_agrees(torch.cat([first, then], dim=1)[:, 3:], model(text))


def test_a_ring_takes_the_key_mask_of_the_whole_text():
    model, text = models(rotary=Rotary(4), learned_positions=False, window=3), ids(9)
    real = torch.arange(9) >= torch.tensor([[2], [0]])
    whole, caches, parts = model(text, key_mask=real), model.caches(2), []
    for part in text.split([4, 1, 3, 1], dim=1):
        parts.append(model(part, key_mask=real[:, : caches[0].length + part.shape[1]], caches=caches))
    assert_agrees(torch.cat(parts, dim=1)[real], whole[real])


def test_a_key_mask_that_does_not_fit_leaves_the_caches_alone():
    model, text = models(rotary=Rotary(4), learned_positions=False), ids(6)
    caches = model.caches(2)
    with pytest.raises(ValueError, match=r"key_mask must have shape \(b, k\) = \(2, 6\), got \(2, 5\)"):
        model(text, key_mask=torch.ones(2, 5) > 0, caches=caches)
    assert_agrees(model(text, key_mask=torch.ones(2, 6) > 0, caches=caches), model(text))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MultiHeadAttention(12, 3.0), TypeError, r"num_heads must be an int, got 3\.0"),
        (lambda: MultiHeadAttention(12, 0), ValueError, "num_heads must be at least 1, got 0"),
        (lambda: EncoderBlock(12, 3, window=0), ValueError, "window must be at least 1, got 0"),
        (lambda: MultiHeadAttention(12, 3, dropout=-1), ValueError, "dropout must be between 0 and 1, got -1"),
        (lambda: FeedForward(7, 11, dropout=1.5), ValueError, r"dropout must be between 0 and 1, got 1\.5"),
        (lambda: models()(torch.tensor([[3, 17]])), ValueError, "ids must be between 0 and 16, got 3 to 17"),
        (
            lambda: Rotary(4)(torch.ones(2, 5, 4), positions=torch.arange(3)),
            ValueError,
            r"positions must be broadcastable to \(\.\.\., n\) = \(2, 5\), got \(3,\)",
        ),
        (lambda: attnlib.rotate(torch.ones(2, 4), [0, 1]), TypeError, r"positions must be a torch\.Tensor, got list"),
        (
            lambda: models()(ids(), positions=torch.full((2, 9), 64)),
            ValueError,
            "positions must be within max_len = 64, got 64 to 64",
        ),
        (
            lambda: models()(ids(), positions=torch.arange(-1, 8).expand(2, 9)),
            ValueError,
            "positions must be within max_len = 64, got -1 to 7",
        ),
        (
            lambda: MultiHeadAttention(12, 3)(torch.ones(2, 5, 12), positions=torch.zeros(2, 5, dtype=torch.long)),
            ValueError,
            "positions are for rotary attention: without rotary, they must be None",
        ),
        (
            lambda: attnlib.sample_next(torch.tensor([[0.0, 1.0], [float("nan"), 0.0]]), temperature=0),
            ValueError,
            "logits must be numbers, got NaN in 1 of 2 rows",
        ),
        (
            lambda: attnlib.to_torch(EncoderBlock(12, 3, norm="rms")),
            ValueError,
            'need norm = "layer", an MLP without a gate, and GELU or ReLU',
        ),
        (
            lambda: attnlib.to_torch(MultiHeadAttention(12, 3, window=4)),
            ValueError,
            "has no alibi and no window, got False and 4",
        ),
        (
            lambda: RollingKVCache(2, 3, 4, 5).append(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 1, 5)),
            ValueError,
            r"k must have shape \(b, h, n, d\) = \(2, 3, n, 5\), got \(2, 3, 1, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_told_in_our_words(call, error, message):
    with untyped(), pytest.raises(error, match=message):
        call()
