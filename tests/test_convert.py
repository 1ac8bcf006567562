import pytest
import torch
from oracles import TOLERANCE, assert_agrees, assert_same_gradients, random_mask, randoms
from torch import nn

from attnlib import (
    Decoder,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    Rotary,
    from_torch,
    to_additive,
    to_blocked,
    to_padding,
    to_torch,
)


def key_masks(b: int, n: int, seed: int = 0) -> torch.Tensor:
    keys = random_mask(b, n, seed=seed)
    keys[:, 0] = True
    return keys


def shake(module: nn.Module) -> nn.Module:
    """Biases and norms start at 0 and 1, where an exchange of two of them would not show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module


def assert_round_trip(one: nn.Module, other: nn.Module) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"kdim": 7, "vdim": 7}, {"kdim": 7, "vdim": 7, "bias": False}]
)
def test_attention(options, dtype):
    torch.manual_seed(0)
    theirs = shake(nn.MultiheadAttention(12, 3, batch_first=True, dropout=0.3, dtype=dtype, **options)).eval()
    ours = from_torch(theirs)
    assert isinstance(ours, MultiHeadAttention)
    assert (ours.dropout, ours.training) == (0.3, False)
    x, memory = randoms((2, 5, 12), (2, 11, options.get("kdim", 12)), dtype=dtype)
    keys, mask = key_masks(2, 11), random_mask(5, 11, seed=1)
    mask[:, 0] = True
    output, weights = ours(x, memory, key_mask=keys, mask=mask, return_weights=True)
    expected, expected_weights = theirs(
        x, memory, memory, key_padding_mask=to_padding(keys), attn_mask=to_blocked(mask), average_attn_weights=False
    )
    assert_agrees(output, expected)
    assert_agrees(weights, expected_weights)
    assert_same_gradients(output, expected, [x, memory], tolerance=2 * TOLERANCE[dtype])
    back = to_torch(ours)
    assert_round_trip(back, theirs)
    assert_agrees(back(x, memory, memory, key_padding_mask=to_padding(keys), attn_mask=to_blocked(mask))[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm_first": True, "activation": "gelu"},
        {"layer_norm_eps": 0.1, "dim_feedforward": 31},
        {"bias": False, "activation": nn.GELU()},
        {"activation": nn.ReLU()},
        {"activation": torch.relu},
        {"activation": nn.GELU("tanh")},
    ],
)
def test_encoder_layer(options, dtype):
    torch.manual_seed(0)
    options = {"dim_feedforward": 17, "dropout": 0.0, "batch_first": True, "dtype": dtype, **options}
    theirs = shake(nn.TransformerEncoderLayer(12, 3, **options))
    ours = from_torch(theirs)
    assert isinstance(ours, EncoderBlock)
    (x,) = randoms((2, 5, 12), dtype=dtype)
    keys = key_masks(2, 5)
    expected = theirs(x, src_key_padding_mask=to_padding(keys))
    assert_agrees(ours(x, keys), expected)
    assert_same_gradients(ours(x, keys), expected, [x], tolerance=4 * TOLERANCE[dtype])
    back = to_torch(ours)
    assert_round_trip(back, theirs)
    assert_agrees(back(x, src_key_padding_mask=to_padding(keys)), expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(norm_first):
    torch.manual_seed(0)
    theirs = shake(
        nn.TransformerDecoderLayer(
            12, 3, 17, dropout=0.0, norm_first=norm_first, batch_first=True, dtype=torch.float64, layer_norm_eps=0.01
        )
    )
    ours = from_torch(theirs)
    assert isinstance(ours, DecoderBlock)
    x, memory = randoms((2, 5, 12), (2, 11, 12))
    keys, memory_keys = key_masks(2, 5), key_masks(2, 11, seed=1)
    causal = to_additive(torch.ones(5, 5, dtype=torch.bool).tril(), dtype=torch.float64)
    expected = theirs(
        x,
        memory,
        tgt_mask=causal,
        tgt_key_padding_mask=to_additive(keys, dtype=torch.float64),
        memory_key_padding_mask=to_padding(memory_keys),
    )
    assert_agrees(ours(x, memory, keys, memory_keys), expected)
    assert_same_gradients(ours(x, memory, keys, memory_keys), expected, [x, memory])
    assert_round_trip(to_torch(ours), theirs)


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(12, eps=0.01)])
@pytest.mark.parametrize("norm_first", [False, True])
def test_stacks(norm_first, norm):
    """Whether a norm follows the last layer is the stack's own choice in PyTorch, whatever its layers are."""
    torch.manual_seed(0)
    options = {"dim_feedforward": 17, "dropout": 0.0, "norm_first": norm_first, "batch_first": True}
    layers = nn.TransformerEncoderLayer(12, 3, **options), nn.TransformerDecoderLayer(12, 3, **options)
    encoder = shake(nn.TransformerEncoder(layers[0], 3, norm, enable_nested_tensor=False))
    decoder = shake(nn.TransformerDecoder(layers[1], 2, norm).eval())
    ours = from_torch(encoder), from_torch(decoder)
    assert [type(stack) for stack in ours] == [Encoder, Decoder]
    assert [stack.training for stack in ours] == [True, False]
    x, memory = randoms((2, 5, 12), (2, 11, 12), dtype=torch.float32)
    keys = key_masks(2, 5)
    assert_agrees(ours[0](x, keys), encoder(x, src_key_padding_mask=to_padding(keys)))
    causal = to_blocked(torch.ones(5, 5, dtype=torch.bool).tril())
    assert_agrees(ours[1](x, memory), decoder(x, memory, tgt_mask=causal))
    for one, other in zip(ours, (encoder, decoder), strict=True):
        assert_round_trip(to_torch(one), other)
        assert to_torch(one).num_layers == other.num_layers


def test_a_layer_in_training_mode_is_copied_with_the_dropout_that_attnlib_has():
    layer = nn.TransformerEncoderLayer(12, 3, dropout=0.1, batch_first=True)
    with pytest.warns(UserWarning, match=r"of 0.1 there and \[0.1, 0.1\] in the MLP, the copy has 0.0 and 0.1"):
        ours = from_torch(layer)
    assert (ours.training, ours.attn.dropout, ours.mlp.dropout) == (True, 0.1, 0.1)
    x = torch.randn(2, 5, 12)
    assert_agrees(ours.eval()(x), layer.eval()(x), tolerance=2e-6)


def test_every_hidden_width_survives_the_ratio():
    for d_hidden in range(1, 200):
        layer = nn.TransformerEncoderLayer(7, 1, d_hidden, dropout=0.0, batch_first=True, device="meta")
        assert from_torch(layer).mlp.up.out_features == d_hidden


def test_dropout_of_the_mlp_survives_and_is_no_copy_of_more():
    block = EncoderBlock(12, 3, dropout=0.25)
    layer = to_torch(block)
    assert (layer.dropout.p, layer.dropout1.p, layer.dropout2.p, layer.self_attn.dropout) == (0.25, 0.0, 0.25, 0.0)
    assert from_torch(layer).mlp.dropout == 0.25
    decoder = to_torch(DecoderBlock(12, 3, dropout=0.25))
    assert [getattr(decoder, f"dropout{i}").p for i in (1, 2, 3)] == [0.0, 0.0, 0.25]
    assert from_torch(decoder).mlp.dropout == 0.25
    trained = nn.TransformerEncoderLayer(12, 3, dropout=0.1, batch_first=True).eval()
    x = torch.randn(2, 5, 12)
    assert_agrees(from_torch(trained)(x), trained(x), tolerance=2e-6)


def test_the_copy_is_a_copy():
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    ours = from_torch(theirs)
    before = ours.w_q.weight.detach().clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert torch.equal(ours.w_q.weight, before)
    assert ours.w_q.weight.requires_grad


def their(**options):
    return nn.MultiheadAttention(12, 3, **options)


CANNOT = [
    (lambda: from_torch(their(add_bias_kv=True)), "add_bias_kv must be False, got True"),
    (lambda: from_torch(their(add_zero_attn=True)), "add_zero_attn must be False, got True"),
    (lambda: from_torch(their(kdim=5, vdim=7)), "kdim and vdim must be equal, got 5 and 7"),
    (
        lambda: from_torch(nn.TransformerEncoderLayer(12, 3, activation=torch.tanh, dropout=0.0, batch_first=True)),
        "must be relu or gelu, got .*tanh",
    ),
    (lambda: to_torch(MultiHeadAttention(12, 3, d_head=5)), r"num_heads \* d_head = d_model = 12, got 3 \* 5"),
    (lambda: to_torch(MultiHeadAttention(12, 6, num_kv_heads=2)), "num_kv_heads = num_heads = 6, got 2"),
    (lambda: to_torch(MultiHeadAttention(12, 3, out_bias=False)), "got bias = True and out_bias = False"),
    (lambda: to_torch(MultiHeadAttention(12, 3, rotary=Rotary(4))), "needs rotary = None, got a rotary module"),
    (lambda: to_torch(MultiHeadAttention(12, 3, is_causal=True)), "is_causal = False, .* got is_causal = True"),
    (lambda: to_torch(EncoderBlock(12, 5, d_head=4)), r"num_heads \* d_head = d_model = 12, got 5 \* 4"),
    (lambda: to_torch(DecoderBlock(12, 5, d_head=4)), r"num_heads \* d_head = d_model = 12, got 5 \* 4"),
    (lambda: to_torch(DecoderBlock(12, 3, d_memory=7)), "d_memory = d_model = 12, got 7"),
    (lambda: to_torch(Encoder(0, 12, 3)), "at least one layer, got none"),
    (lambda: to_torch(EncoderBlock(12, 6, num_kv_heads=1)), "num_kv_heads = num_heads = 6, got 1"),
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(("convert", "text"), CANNOT)
def test_what_cannot_be_represented_says_what(convert, text):
    with pytest.raises(ValueError, match=text):
        convert()


def test_other_modules_are_a_type_error():
    with pytest.raises(TypeError, match=r"from_torch takes nn.MultiheadAttention, .* got Linear"):
        from_torch(nn.Linear(3, 5))
    with pytest.raises(TypeError, match=r"to_torch takes MultiHeadAttention, .* got FeedForward"):
        to_torch(FeedForward(3, 5))


def test_pytorch_s_fast_path_computes_the_same():
    block, x = EncoderBlock(12, 4, activation="gelu_tanh").eval(), 3 * torch.randn(2, 5, 12)
    with torch.no_grad():
        assert_agrees(to_torch(block)(x), block(x), tolerance=5e-6)


@pytest.mark.parametrize("norm_first", [False, True])
def test_each_norm_has_its_own_eps(norm_first):
    theirs = nn.TransformerDecoderLayer(12, 3, 17, dropout=0.0, norm_first=norm_first, batch_first=True)
    theirs.norm1.eps, theirs.norm2.eps, theirs.norm3.eps = 0.1, 0.2, 0.3
    ours, x, memory = from_torch(theirs), torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    assert_agrees(ours(x, memory, is_causal=False), theirs(x, memory), tolerance=2e-6)
    assert [getattr(to_torch(ours), f"norm{i}").eps for i in (1, 2, 3)] == [0.1, 0.2, 0.3]
