import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    DTYPES,
    TOLERANCE,
    assert_agrees,
    assert_same_gradients,
    devices,
    quick,
    random_mask,
    randoms,
    slow_attention,
    untyped,
)

from attnlib import KVCache, MultiHeadAttention, Rotary, causal_mask, to_blocked, to_padding


def by_hand(module, x, memory=None, mask=None):
    """Head by head, with each head's slice of the weights, and the slow loop inside."""
    memory = x if memory is None else memory
    d, groups = module.d_head, module.num_heads // module.num_kv_heads
    q, k, v = module.w_q(x), module.w_k(memory), module.w_v(memory)
    outputs, weights = [], []
    for h in range(module.num_heads):
        columns, key_columns = slice(h * d, (h + 1) * d), slice(h // groups * d, (h // groups + 1) * d)
        opened = None if mask is None else mask.expand(x.shape[0], module.num_heads, q.shape[1], k.shape[1])[:, h]
        output, weight = slow_attention(q[..., columns], k[..., key_columns], v[..., key_columns], opened)
        outputs.append(output)
        weights.append(weight)
    return module.w_o(torch.cat(outputs, dim=-1)), torch.stack(weights, dim=1)


lengths = st.lists(st.integers(1, 5), min_size=1, max_size=4)

CONFIGURATIONS = [
    {},
    {"d_head": 5},
    {"num_kv_heads": 2},
    {"num_kv_heads": 1, "d_head": 3},
    {"bias": False},
    {"bias": False, "out_bias": True},
]


@pytest.mark.parametrize("options", CONFIGURATIONS)
@pytest.mark.parametrize("cross", [False, True])
def test_is_head_by_head_attention(options, cross):
    torch.manual_seed(0)
    module = MultiHeadAttention(12, 6, d_memory=7 if cross else None, **options).double()
    x, memory = randoms((2, 5, 12), (2, 11, 7))
    memory = memory if cross else None
    k_len = 11 if cross else 5
    mask, keys = random_mask(2, 6, 5, k_len), random_mask(2, k_len, seed=1)
    mask[0, :, 1] = False
    for masking, opened in (
        ({}, None),
        ({"mask": mask}, mask),
        ({"key_mask": keys}, keys[:, None, None]),
        ({"mask": mask[0, 0], "key_mask": keys}, mask[0, 0] & keys[:, None, None]),
        ({"is_causal": True}, causal_mask(5, k_len)),
        ({"is_causal": True, "key_mask": keys}, causal_mask(5, k_len) & keys[:, None, None]),
    ):
        expected, expected_weights = by_hand(module, x, memory, opened)
        output, weights = module(x, memory, return_weights=True, **masking)
        assert_agrees(output, expected)
        assert_agrees(weights, expected_weights)
        assert_agrees(module(x, memory, **masking), expected)


@pytest.mark.parametrize("masked", ["nothing", "mask", "keys", "causal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_agrees_with_pytorch_forward_and_gradient(masked, dtype):
    ours, theirs = MultiHeadAttention(12, 3).to(dtype), torch.nn.MultiheadAttention(12, 3, batch_first=True).to(dtype)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    (x,) = randoms((2, 11, 12), dtype=dtype)
    mask, keys = random_mask(11, 11) | torch.eye(11, dtype=torch.bool), random_mask(2, 11, seed=1)
    keys[:, 0] = True
    our_options, their_options = {
        "nothing": ({}, {}),
        "mask": ({"mask": mask}, {"attn_mask": to_blocked(mask)}),
        "keys": ({"key_mask": keys}, {"key_padding_mask": to_padding(keys)}),
        "causal": ({"is_causal": True}, {"attn_mask": to_blocked(causal_mask(11, 11))}),
    }[masked]
    output, weights = ours(x, return_weights=True, **our_options)
    expected, expected_weights = theirs(x, x, x, average_attn_weights=False, **their_options)
    assert_agrees(output, expected)
    assert_agrees(weights, expected_weights)
    assert_agrees(ours(x, **our_options), expected)
    assert_same_gradients(output, expected, [x, ours.w_o.weight], 2 * TOLERANCE[dtype], [x, theirs.out_proj.weight])
    inner = torch.autograd.grad(ours(x, **our_options).pow(2).sum(), [ours.w_q.weight, ours.w_k.weight, ours.w_v.bias])
    packed, bias = torch.autograd.grad(
        theirs(x, x, x, **their_options)[0].pow(2).sum(), [theirs.in_proj_weight, theirs.in_proj_bias]
    )
    for gradient, right in zip(inner, (packed[:12], packed[12:24], bias[24:]), strict=True):
        assert_agrees(gradient, right, tolerance=4 * TOLERANCE[dtype])


@devices
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_queries_that_may_attend_to_nothing(dtype, device):
    module = MultiHeadAttention(12, 3).to(device, dtype)
    (x,) = randoms((2, 5, 12), dtype=dtype, device=device)
    keys = torch.tensor([[True, False, True, True, False], [False] * 5], device=device)
    for return_weights in (False, True):
        result = module(x, key_mask=keys, return_weights=return_weights)
        output = result[0] if return_weights else result
        assert output.dtype == dtype
        assert_agrees(output[1], module.w_o.bias.expand(5, 12))
        gradients = torch.autograd.grad(output.sum(), [x, *module.parameters()])
        assert all(torch.isfinite(g).all() for g in gradients)
        assert (gradients[0][1] == 0).all()
        if return_weights:
            assert (result[1][1] == 0).all()


@quick
@given(st.integers(2, 11), st.integers(0, 100), st.booleans())
def test_padding_never_changes_real_positions(n, seed, return_weights):
    torch.manual_seed(seed)
    module = MultiHeadAttention(12, 3).double()
    (x,) = randoms((2, n, 12), seed=seed)
    longer = torch.cat([x, 1e3 * torch.randn(2, 3, 12).double()], dim=1)
    keys = (torch.arange(n + 3) < n).expand(2, -1)
    for is_causal in (False, True):
        alone = module(x, is_causal=is_causal)
        padded = module(longer, key_mask=keys, is_causal=is_causal, return_weights=return_weights)
        assert_agrees((padded[0] if return_weights else padded)[:, :n], alone)


@quick
@given(st.integers(2, 11), st.integers(0, 100), st.data())
def test_an_edit_to_the_future_never_changes_the_past(n, seed, data):
    torch.manual_seed(seed)
    module = MultiHeadAttention(12, 3, is_causal=True, rotary=Rotary(4)).double()
    (x,) = randoms((2, n, 12), seed=seed)
    t = data.draw(st.integers(1, n - 1))
    edited = torch.cat([x[:, :t], x[:, t:] + 1], dim=1)
    assert_agrees(module(edited)[:, :t], module(x)[:, :t])
    order = torch.randperm(n)
    free = MultiHeadAttention(12, 3).double()
    assert_agrees(free(x[:, order]), free(x)[:, order])


@quick
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4), st.sampled_from([1, 2, 6]), st.booleans(), st.integers(0, 9)
)
def test_cached_decoding_equals_the_full_forward(pieces, num_kv_heads, turned, seed):
    torch.manual_seed(seed)
    module = MultiHeadAttention(
        12, 6, num_kv_heads=num_kv_heads, is_causal=True, rotary=Rotary(2) if turned else None
    ).double()
    n = sum(pieces)
    (x,) = randoms((2, n, 12), seed=seed)
    keys = random_mask(2, n, seed=seed)
    for key_mask in (None, keys):
        cache = KVCache(2, num_kv_heads, n, 2, dtype=torch.float64)
        parts = []
        for piece in x.split(pieces, dim=1):
            stop = cache.length + piece.shape[1]
            parts.append(module(piece, cache=cache, key_mask=None if key_mask is None else key_mask[:, :stop]))
        assert_agrees(torch.cat(parts, dim=1), module(x, key_mask=key_mask))


def test_gradcheck():
    module = MultiHeadAttention(6, 2, num_kv_heads=1, rotary=Rotary(4), d_head=4).double()
    (x,) = randoms((2, 2, 6))
    keys = torch.tensor([[True, False], [False, False]])
    assert torch.autograd.gradcheck(lambda y: module(y, key_mask=keys), x)
    assert torch.autograd.gradcheck(lambda y: module(y, key_mask=keys, return_weights=True), x)


def test_parameters_are_the_contract_names():
    expected = {f"{layer}.{kind}" for layer in ("w_q", "w_k", "w_v", "w_o") for kind in ("weight", "bias")}
    assert {name for name, _ in MultiHeadAttention(12, 3, rotary=Rotary(4)).named_parameters()} == expected
    assert {n for n, _ in MultiHeadAttention(12, 3, bias=False).named_parameters()} == {
        name for name in expected if name.endswith("weight")
    }


def test_dropout_in_training_only():
    module = MultiHeadAttention(12, 3, dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert not torch.equal(module(x), module(x))
    module.eval()
    assert torch.equal(module(x), module(x))


def test_the_backend_is_passed_on():
    x = torch.randn(2, 5, 12)
    eager, fused = MultiHeadAttention(12, 3, backend="eager"), MultiHeadAttention(12, 3, backend="fused")
    fused.load_state_dict(eager.state_dict())
    assert_agrees(eager(x), fused(x))
    with pytest.raises(ValueError, match='"fused" never holds the weights'):
        fused(x, return_weights=True)


def test_one_row_of_positions_is_for_all_sequences_even_if_there_are_as_many_heads():
    module = MultiHeadAttention(12, 3, rotary=Rotary(4)).double()
    x, positions = randoms((2, 3, 12))[0], torch.tensor([0, 5, 9])
    assert_agrees(module(x, positions=positions), module(x, positions=positions.expand(2, 3)))
    assert_agrees(module(x, positions=positions / 2), module(x, positions=positions.expand(2, 3) / 2))
    with untyped(), pytest.raises(ValueError, match=r"broadcastable to \(\.\.\., n\) = \(2, 3\), got \(4,\)"):
        module(x, positions=torch.arange(4))


@pytest.mark.parametrize("window", [None, 2])
def test_a_mask_beside_others_has_to_be_one_itself(window):
    module, x, keys = MultiHeadAttention(12, 3, window=window), torch.zeros(2, 5, 12), torch.ones(2, 5) > 0
    with untyped(), pytest.raises(TypeError, match=r"mask must be bool with True = may attend, got torch.float32"):
        module(x, mask=torch.zeros(5, 5), key_mask=keys)
    with untyped(), pytest.raises(ValueError, match=r"= \(2, 3, 5, 5\), got \(5, 4\)"):
        module(x, mask=torch.ones(5, 4) > 0, key_mask=keys)


def test_errors():
    with pytest.raises(ValueError, match="unless d_head is given, got d_model = 12 and num_heads = 5"):
        MultiHeadAttention(12, 5)
    with pytest.raises(ValueError, match="multiple of num_kv_heads, got 6 and num_kv_heads = 4"):
        MultiHeadAttention(12, 6, num_kv_heads=4)
    module, x = MultiHeadAttention(12, 3, d_memory=7), torch.zeros(2, 5, 12)
    keys = torch.ones(2, 5, dtype=torch.bool)
    with untyped():
        with pytest.raises(ValueError, match=r"x must have d_model = 12 features .* got \(2, 5, 7\)"):
            module(torch.zeros(2, 5, 7))
        with pytest.raises(ValueError, match=r"x must have d_memory = 7 features .* got \(2, 5, 12\)"):
            module(x)
        with pytest.raises(ValueError, match=r"memory must have d_memory = 7 features .* got \(2, 5, 12\)"):
            module(x, x)
        with pytest.raises(ValueError, match=r"key_mask must have shape \(b, k\) = \(2, 11\), got \(2, 5\)"):
            module(x, torch.zeros(2, 11, 7), key_mask=keys)
        with pytest.raises(TypeError, match=r"key_mask must be bool with True = a real key, got torch.int64"):
            module(x, torch.zeros(2, 5, 7), key_mask=keys.long())
    with pytest.raises(ValueError, match="for self-attention: with them, memory must be None"):
        module(x, torch.zeros(2, 11, 7), cache=KVCache(2, 3, 11, 4))
