"""Where a dialect does not do what attnlib does: queries that may attend to nothing, and each row's trap, as facts."""

import pytest
import row_10_causal_two_ways as row_10
import row_11_additive_masks as row_11
import row_13_torch_functional as row_13
import to_attnlib
import torch
from agreement import Setting, call
from row_02_annotated_multi_head import MultiheadSelfAttention
from row_03_encoder_block import Block
from row_04_einops_single_head import SelfAttention as EinopsSelfAttention
from row_05_einops_multi_head import MultiHeadSelfAttention as EinopsMultiHead
from row_06_shared_projection import SelfAttention as SharedProjection
from row_07_matrix_parameters import SelfAttention as MatrixAttention
from row_09_cross_attention import CrossAttention as MatrixCrossAttention
from row_12_heads_of_free_width import MultiHeadSelfAttention
from row_14_torch_multi_head import multi_head_attention
from row_15_torch_encoder_layer import encoder_layer
from torch import Tensor, nn

import attnlib
from attnlib.mask_conventions import from_padding

B, N, K, H, D, D_MODEL = 2, 7, 11, 3, 5, 17
BLOCKED_ROW = 4  # the query that may attend to nothing
TOLERANCE = 1e-12


@pytest.fixture
def setting(device: str) -> Setting:
    return Setting(device, torch.float64, "eager")


def mask_with_a_blocked_row(setting: Setting, q: int, k: int) -> Tensor:
    """True = may attend; one query may attend to nothing, every other one to something."""
    mask = setting.mask("random", q, k)
    assert mask is not None
    mask[BLOCKED_ROW] = False
    return mask


def largest(tensor: Tensor) -> float:
    return tensor.abs().max().item()


def rest(output: Tensor) -> Tensor:
    """All positions but the one that may attend to nothing."""
    return torch.cat([output[..., :BLOCKED_ROW, :], output[..., BLOCKED_ROW + 1 :, :]], dim=-2)


def assert_zeros_never_nan(output: Tensor, blocked: Tensor, x: Tensor, expected: Tensor | float = 0.0) -> None:
    """attnlib's rule: a bias at most, forward; no gradient through the blocked position, and no NaN anywhere."""
    assert largest(blocked - expected) <= TOLERANCE
    (through_blocked,) = torch.autograd.grad(blocked.sum(), x, retain_graph=True)
    assert largest(through_blocked) == 0.0
    (gradient,) = torch.autograd.grad(output.square().sum(), x)
    assert gradient.isfinite().all()
    assert largest(gradient) > 0


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_rows_04_and_05_give_nan_for_a_blocked_query(setting: Setting, backend: str) -> None:
    x, mask = setting.normal(B, N, D_MODEL), mask_with_a_blocked_row(setting, N, N)
    row_04, row_05 = setting.module(EinopsSelfAttention(D_MODEL)), setting.module(EinopsMultiHead(D_MODEL, H, D))
    one = attnlib.SelfAttention(D_MODEL, D_MODEL, D_MODEL).to(x)
    many = attnlib.MultiHeadAttention(D_MODEL, H, d_head=D, bias=False, backend=backend).to(x)
    for theirs, ours, weights in (
        (row_04, one, to_attnlib.row_04(row_04)),
        (row_05, many, to_attnlib.row_05(row_05)),
    ):
        expected, output = theirs(x, ~mask), call(ours, weights, x, mask=mask)
        assert expected[:, BLOCKED_ROW].isnan().all()
        assert largest(rest(output) - rest(expected)) <= TOLERANCE
        assert torch.autograd.grad(rest(expected).sum(), x)[0].isnan().any()  # it spoils the gradient of all others
        assert_zeros_never_nan(output, output[:, BLOCKED_ROW], x)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_row_06_attends_uniformly_from_a_blocked_query(setting: Setting, backend: str) -> None:
    x, mask = setting.normal(B, N, H * D), mask_with_a_blocked_row(setting, N, N)
    theirs = setting.module(SharedProjection(H * D, H))
    ours = attnlib.MultiHeadAttention(H * D, H, bias=False, out_bias=True, backend=backend).to(x)
    expected, output = theirs(x, x, x, mask.int()), call(ours, to_attnlib.row_06(theirs), x, mask=mask)
    mean_value = theirs.values(attnlib.split_heads(x, H).mean(dim=-2)).flatten(1)
    assert largest(expected[:, BLOCKED_ROW] - theirs.fc_out(mean_value)) <= TOLERANCE
    assert largest(rest(output) - rest(expected)) <= TOLERANCE
    assert_zeros_never_nan(output, output[:, BLOCKED_ROW], x, expected=theirs.fc_out.bias)


def test_row_06_does_not_fit_into_half_precision(device: str) -> None:
    x, mask = torch.randn(B, N, H * D, dtype=torch.float16, device=device), torch.ones(N, N, device=device).tril()
    with pytest.raises(RuntimeError, match="overflow"):
        SharedProjection(H * D, H).to(x)(x, x, x, mask)
    assert attnlib.MultiHeadAttention(H * D, H).to(x)(x, mask=mask.bool()).isfinite().all()


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_rows_11_and_12_give_nan_for_a_sequence_of_padding(setting: Setting, backend: str) -> None:
    x, padding = setting.normal(B, N, D_MODEL), setting.padding(B, N)
    padding[1] = True
    theirs = setting.module(MultiHeadSelfAttention(D_MODEL, H, D))
    context, weights = theirs(x, padding)
    assert context[1].isnan().all()
    assert weights[1].isnan().all()
    ours = attnlib.MultiHeadAttention(D_MODEL, H, d_head=D, bias=False, backend=backend).to(x)
    output = call(ours, to_attnlib.row_12(theirs), x, key_mask=from_padding(padding))
    assert largest(output[0] - context[0]) <= TOLERANCE
    assert_zeros_never_nan(output, output[1], x)
    if backend == "eager":
        _, seen = call(ours, to_attnlib.row_12(theirs), x, key_mask=from_padding(padding), return_weights=True)
        assert largest(seen[1]) == 0.0


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_row_13_gives_zeros_or_nan_for_a_blocked_query(setting: Setting, backend: str) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    mask = mask_with_a_blocked_row(setting, N, K)
    expected = row_13.attention(q, k, v, mask)
    blocked = expected[..., BLOCKED_ROW, :]
    assert (blocked == 0).all() or blocked.isnan().all()  # zeros since torch 2.5, by most kernels
    output = attnlib.scaled_dot_product_attention(q, k, v, mask=mask, backend=backend)
    assert largest(rest(output) - rest(expected)) <= TOLERANCE
    assert_zeros_never_nan(output, output[..., BLOCKED_ROW, :], q)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_row_14_gives_nan_or_the_bias_depending_on_whether_weights_are_asked_for(
    setting: Setting, backend: str
) -> None:
    x, mask = setting.normal(B, N, H * D), mask_with_a_blocked_row(setting, N, N)
    theirs = setting.module(multi_head_attention(H * D, H))
    with_weights, weights = theirs(x, x, x, attn_mask=~mask)
    assert with_weights[:, BLOCKED_ROW].isnan().all()
    assert weights[:, BLOCKED_ROW].isnan().all()
    without = theirs(x, x, x, attn_mask=~mask, need_weights=False)[0]
    blocked = without[:, BLOCKED_ROW]
    assert blocked.isnan().all() or largest(blocked - theirs.out_proj.bias) <= TOLERANCE  # as row 13
    ours = attnlib.MultiHeadAttention(H * D, H, backend=backend).to(x)
    output = call(ours, to_attnlib.row_14(theirs), x, mask=mask)
    assert largest(rest(output) - rest(with_weights)) <= TOLERANCE
    assert_zeros_never_nan(output, output[:, BLOCKED_ROW], x, expected=theirs.out_proj.bias)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_row_15_gives_what_its_attention_gives(setting: Setting, backend: str) -> None:
    x, padding = setting.normal(B, N, H * D), setting.padding(B, N)
    padding[1] = True
    theirs = setting.module(encoder_layer(H * D, H, 43))
    ours = attnlib.EncoderBlock(
        H * D, H, mlp_ratio=43 / (H * D), norm_first=False, activation="relu", backend=backend
    ).to(x)
    expected = theirs(x, src_key_padding_mask=padding)
    output = call(ours, to_attnlib.row_15(theirs), x, key_mask=from_padding(padding))
    assert output.isfinite().all()
    assert largest(output[0] - expected[0]) <= TOLERANCE
    assert expected[1].isnan().all() or largest(output[1] - expected[1]) <= TOLERANCE


def test_rows_02_04_and_05_pack_the_same_columns_in_three_orders(setting: Setting) -> None:
    x = setting.normal(B, N, H * D)
    theirs = setting.module(EinopsMultiHead(H * D, H))
    as_row_02 = MultiheadSelfAttention(H * D, H).to(x)
    packed = {"qkv.weight": theirs.to_qkv.weight, "qkv.bias": torch.zeros(3 * H * D).to(x)}
    packed |= {"proj.weight": theirs.w_out.weight, "proj.bias": torch.zeros(H * D).to(x)}
    assert largest(call(as_row_02, packed, x) - theirs(x)) > 100 * 1e-6 * largest(theirs(x))
    one = setting.module(EinopsSelfAttention(D_MODEL))
    q, k, v = to_attnlib.row_04(one).values()
    assert torch.equal(torch.stack([q[0], k[0], v[0], q[1], k[1], v[1]]), one.to_qkv.weight[:6])


@pytest.mark.parametrize("build", [lambda: Block(H * D, H, 3.0), lambda: encoder_layer(H * D, H, 45)])
def test_rows_03_and_15_normalise_at_different_places(setting: Setting, build) -> None:  # type: ignore[no-untyped-def]
    theirs, x = setting.module(build()), setting.normal(B, N, H * D)
    pre_ln = isinstance(theirs, Block)
    weights = to_attnlib.row_03(theirs) if pre_ln else to_attnlib.row_15(theirs)
    options = {"mlp_ratio": 3.0, "activation": "gelu" if pre_ln else "relu"}
    same = attnlib.EncoderBlock(H * D, H, norm_first=pre_ln, **options).to(x)
    other = attnlib.EncoderBlock(H * D, H, norm_first=not pre_ln, **options).to(x)
    assert largest(call(same, weights, x) - theirs(x)) <= TOLERANCE * largest(theirs(x))
    assert largest(call(other, weights, x) - theirs(x)) > 0.1


def test_row_07_takes_no_batch(setting: Setting) -> None:
    theirs, x = setting.module(MatrixAttention(D_MODEL, D, 13)), setting.normal(B, N, D_MODEL)
    with pytest.raises((RuntimeError, UserWarning), match=r"must match the size|of dimension other than 2"):
        theirs(x)
    ours = attnlib.SelfAttention(D_MODEL, D, 13).to(x)
    output = call(ours, to_attnlib.transposed(to_attnlib.row_07(theirs)), x)
    assert largest(output - torch.stack([theirs(sequence) for sequence in x])) <= TOLERANCE * largest(output)


def test_row_07_starts_saturated(setting: Setting) -> None:
    torch.manual_seed(2)
    theirs, x = MatrixAttention(64, 64, 64).to(setting.device, setting.dtype), setting.normal(N, 64)
    ours = attnlib.SelfAttention(64, 64, 64).to(x)
    scores = (x @ theirs.W_query) @ (x @ theirs.W_key).T / 64**0.5
    _, weights = ours(x, return_weights=True)
    assert scores.softmax(dim=-1).max(dim=-1).values.median() > 0.9
    assert weights.max(dim=-1).values.median() < 0.5


def test_row_09_is_as_long_as_the_sequence_that_asks(setting: Setting) -> None:
    theirs = setting.module(MatrixCrossAttention(D_MODEL, D, 13))
    x, memory = setting.normal(N, D_MODEL), setting.normal(K, D_MODEL)
    assert theirs(x, memory).shape == (N, 13)
    assert theirs(memory, x).shape == (K, 13)


def test_row_10_leaks_nothing_only_because_it_renormalises(setting: Setting) -> None:
    scores = setting.normal(N, N).detach()
    edited = scores + 3 * torch.ones_like(scores).triu(diagonal=1)  # the future alone
    kept = [values.softmax(dim=-1).tril() for values in (scores, edited)]
    assert largest(kept[0] - kept[1]) > 0.1
    renormalised = [row_10.softmax_then_renormalise(values, D) for values in (scores, edited)]
    assert largest(renormalised[0] - renormalised[1]) <= TOLERANCE
    far = scores + 1e4 * torch.ones_like(scores).triu(diagonal=1)
    assert row_10.softmax_then_renormalise(far, D)[:-1].isnan().all()  # 0 / 0
    assert largest(attnlib.renormalised_causal_weights(far / D**0.5) - row_10.fill_then_softmax(far, D)) <= 1e-10


def test_row_11_drops_at_evaluation_and_not_in_frozen_training(setting: Setting) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    frozen = q.detach()
    torch.manual_seed(3)
    _, evaluated = row_11.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    _, trained = row_11.scaled_dot_product_attention(frozen, k, v, dropout_p=0.5)
    assert 0.3 < (evaluated == 0).double().mean() < 0.7  # a model that is being evaluated loses half of its weights
    assert (trained > 0).all()  # and one that is trained with frozen queries loses none

    def ours(queries: Tensor, training: bool) -> Tensor:
        return attnlib.scaled_dot_product_attention(queries, k, v, dropout=0.5, training=training)

    expected, _ = row_11.scaled_dot_product_attention(q, k, v)
    for queries in (q, frozen):
        assert largest(ours(queries, training=False) - expected) <= TOLERANCE
        assert largest(ours(queries, training=True) - expected) > 0.1


def test_row_12_must_copy_before_it_merges(setting: Setting) -> None:
    context = setting.normal(B, H, N, D)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        context.transpose(1, 2).view(B, N, H * D)
    assert torch.equal(attnlib.merge_heads(context), context.transpose(1, 2).contiguous().view(B, N, H * D))


def test_row_13_causal_flag_does_not_see_a_cache(setting: Setting) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    ours = attnlib.scaled_dot_product_attention(q, k, v, is_causal=True)
    bottom_right = torch.ones(N, K, dtype=torch.bool, device=setting.device).tril(K - N)
    assert largest(ours - row_13.attention(q, k, v, bottom_right)) <= TOLERANCE
    assert largest(ours - row_13.attention(q, k, v, is_causal=True)) > 0.1


def test_row_14_takes_the_batch_second_unless_told_otherwise(setting: Setting) -> None:
    default, x = setting.module(nn.MultiheadAttention(H * D, H)), setting.normal(B, N, H * D)
    ours, weights = attnlib.MultiHeadAttention(H * D, H).to(x), to_attnlib.row_14(default)
    turned = call(ours, weights, x.transpose(0, 1)).transpose(0, 1)
    assert largest(default(x, x, x)[0] - turned) <= TOLERANCE
    assert largest(call(ours, weights, x) - turned) > 0.1
