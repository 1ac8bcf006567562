"""Rows 11 to 15, which take masks of every convention, and attnlib: equal results and equal gradients."""

from functools import partial

import pytest
import row_11_additive_masks as row_11
import row_13_torch_functional as row_13
import to_attnlib
import torch
from agreement import Setting, assert_agree, blocked_and_mask, call, leaves, multi_head, sdpa
from row_12_heads_of_free_width import (
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    SingleHeadCrossAttention,
    SingleHeadSelfAttention,
)
from row_14_torch_multi_head import multi_head_attention
from row_15_torch_encoder_layer import encoder_layer

import attnlib
from attnlib.convert import from_torch
from attnlib.mask_conventions import from_additive, from_padding

B, N, K, H, D, D_MODEL = 2, 7, 11, 3, 5, 17  # batch, queries, keys, heads, head width, model width where it is free
masks = pytest.mark.parametrize("kind", ["none", "causal", "random"])


@pytest.mark.parametrize("padded", [False, True])
@masks
def test_row_11_additive_masks(setting: Setting, kind: str, padded: bool) -> None:
    q_len = K if kind == "causal" else N
    q, k, v = setting.normal(B, H, q_len, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    open_keys = setting.mask(kind, q_len, K)
    additive = None
    if kind == "causal":
        additive = row_11.causal_mask(K, setting.device).to(setting.dtype)
    elif open_keys is not None:
        additive = torch.where(open_keys, 0.0, -torch.inf).to(setting.dtype).expand(B, H, q_len, K)
    padding = setting.padding(B, K) if padded else None
    mask = None if additive is None else from_additive(additive)
    if padding is not None:
        real = from_padding(padding)[:, None, None, :]
        mask = real if mask is None else mask & real
    both = slice(None) if setting.backend == "eager" else slice(1)
    assert_agree(
        setting,
        lambda: row_11.scaled_dot_product_attention(q, k, v, additive, padding)[both],
        lambda: outputs(sdpa(setting, q, k, v, mask=mask, return_weights=setting.backend == "eager")),
        {"q": q, "k": k, "v": v},
    )


def test_rows_11_and_13_additive_masks_of_finite_numbers_are_a_bias(setting: Setting) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    bias = setting.normal(B, H, N, K)
    ours, wrt = partial(sdpa, setting, q, k, v, score_bias=bias), {"q": q, "k": k, "v": v, "bias": bias}
    assert_agree(setting, lambda: row_11.scaled_dot_product_attention(q, k, v, bias)[0], ours, wrt)
    assert_agree(setting, partial(row_13.attention, q, k, v, bias), ours, wrt)


def outputs(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_row_12_self_attention(setting: Setting, causal: bool, padded: bool) -> None:
    x, padding = setting.normal(B, N, D_MODEL), setting.padding(B, N) if padded else None
    real = None if padding is None else from_padding(padding)
    with_weights, both = setting.backend == "eager", slice(None) if setting.backend == "eager" else slice(1)

    many = setting.module(MultiHeadSelfAttention(D_MODEL, H, D))
    ours, weights = multi_head(setting, D_MODEL, H, d_head=D, bias=False), to_attnlib.row_12(many)
    assert_agree(
        setting,
        lambda: many(x, padding, causal)[both],
        lambda: outputs(call(ours, weights, x, key_mask=real, is_causal=causal, return_weights=with_weights)),
        leaves(many, x=x),
    )
    one = setting.module(SingleHeadSelfAttention(D_MODEL, D))
    head, mask = setting.module(attnlib.SelfAttention(D_MODEL, D, D)), None if real is None else real[:, None, :]
    options = {"mask": mask, "is_causal": causal, "return_weights": True}
    assert_agree(
        setting,
        lambda: (one(x, padding, causal)[0], one(x, padding, causal)[1].squeeze(1)),
        lambda: call(head, to_attnlib.row_12(one), x, **options),
        leaves(one, x=x),
    )


@pytest.mark.parametrize("padded", [False, True])
def test_row_12_cross_attention(setting: Setting, padded: bool) -> None:
    x, memory = setting.normal(B, N, D_MODEL), setting.normal(B, K, D_MODEL)
    padding = setting.padding(B, K) if padded else None
    real = None if padding is None else from_padding(padding)
    with_weights, both = setting.backend == "eager", slice(None) if setting.backend == "eager" else slice(1)

    many = setting.module(MultiHeadCrossAttention(D_MODEL, H, D))
    ours, weights = multi_head(setting, D_MODEL, H, d_head=D, bias=False), to_attnlib.row_12(many)
    assert_agree(
        setting,
        lambda: many(x, memory, padding)[both],
        lambda: outputs(call(ours, weights, x, memory, key_mask=real, return_weights=with_weights)),
        leaves(many, x=x, memory=memory),
    )
    one = setting.module(SingleHeadCrossAttention(D_MODEL, D))
    head, mask = setting.module(attnlib.CrossAttention(D_MODEL, D_MODEL, D, D)), None if real is None else real[:, None]
    assert_agree(
        setting,
        lambda: (one(x, memory, padding)[0], one(x, memory, padding)[1].squeeze(1)),
        lambda: call(head, to_attnlib.row_12(one), x, memory, mask=mask, return_weights=True),
        leaves(one, x=x, memory=memory),
    )


@masks
def test_row_13_torch_functional(setting: Setting, kind: str) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, K, D), setting.normal(B, H, K, 13)
    mask, wrt = setting.mask(kind, N, K), {"q": q, "k": k, "v": v}
    assert_agree(
        setting,
        lambda: row_13.attention(q, k, v, mask, scale=0.3),
        lambda: sdpa(setting, q, k, v, mask=mask, scale=0.3),
        wrt,
    )
    if mask is None:
        return
    additive = torch.where(mask, 0.0, -torch.inf).to(setting.dtype)
    assert_agree(
        setting,
        lambda: row_13.attention(q, k, v, additive),
        lambda: sdpa(setting, q, k, v, mask=from_additive(additive)),
        wrt,
    )


@pytest.mark.parametrize("k_len", [N, K])
def test_row_13_causal_flag_is_top_left(setting: Setting, k_len: int) -> None:
    q, k, v = setting.normal(B, H, N, D), setting.normal(B, H, k_len, D), setting.normal(B, H, k_len, 13)
    wrt = {"q": q, "k": k, "v": v}
    top_left = torch.ones(N, k_len, dtype=torch.bool, device=setting.device).tril()
    theirs = partial(row_13.attention, q, k, v, is_causal=True)
    assert_agree(setting, theirs, lambda: sdpa(setting, q, k, v, mask=top_left), wrt)
    if k_len == N:  # only there is it attnlib's flag, which is aligned bottom-right
        assert_agree(setting, theirs, lambda: sdpa(setting, q, k, v, is_causal=True), wrt)


@masks
def test_row_13_grouped_queries(setting: Setting, kind: str) -> None:
    q, k, v = setting.normal(B, 6, N, D), setting.normal(B, 3, K, D), setting.normal(B, 3, K, 13)
    mask, wrt = setting.mask(kind, N, K), {"q": q, "k": k, "v": v}
    theirs = partial(row_13.attention, q, k, v, mask, grouped=True)
    assert_agree(setting, theirs, lambda: sdpa(setting, q, k, v, mask=mask), wrt)


@pytest.mark.parametrize("padded", [False, True])
@masks
def test_row_14_torch_multi_head(setting: Setting, kind: str, padded: bool) -> None:
    theirs, ours = setting.module(multi_head_attention(H * D, H)), multi_head(setting, H * D, H)
    x, memory = setting.normal(B, N, H * D), setting.normal(B, K, H * D)
    blocked, mask = blocked_and_mask(setting, kind, N, K)
    padding = setting.padding(B, K) if padded else None
    real = None if padding is None else from_padding(padding)
    weights, wrt = to_attnlib.row_14(theirs), leaves(theirs, x=x, memory=memory)
    options = {"attn_mask": blocked, "key_padding_mask": padding}
    if setting.backend == "fused":
        assert_agree(
            setting,
            lambda: theirs(x, memory, memory, need_weights=False, **options)[0],
            lambda: call(ours, weights, x, memory, mask=mask, key_mask=real),
            wrt,
        )
        return

    def averaged() -> tuple[torch.Tensor, torch.Tensor]:
        output, per_head = call(ours, weights, x, memory, mask=mask, key_mask=real, return_weights=True)
        return output, per_head.mean(dim=1)

    assert_agree(setting, lambda: theirs(x, memory, memory, **options), averaged, wrt)
    assert_agree(
        setting,
        lambda: theirs(x, memory, memory, average_attn_weights=False, **options),
        lambda: call(ours, weights, x, memory, mask=mask, key_mask=real, return_weights=True),
        wrt,
    )


@pytest.mark.parametrize(("norm_first", "activation"), [(False, "relu"), (True, "gelu")])
@pytest.mark.parametrize("padded", [False, True])
@masks
def test_row_15_torch_encoder_layer(
    setting: Setting, kind: str, padded: bool, norm_first: bool, activation: str
) -> None:
    theirs = setting.module(encoder_layer(H * D, H, 43, norm_first, activation))
    options = {"norm_first": norm_first, "activation": activation, "backend": setting.backend}
    ours = setting.module(attnlib.EncoderBlock(H * D, H, mlp_ratio=43 / (H * D), **options))
    x, weights = setting.normal(B, N, H * D), to_attnlib.row_15(theirs)
    blocked, mask = blocked_and_mask(setting, kind, N, N)
    padding = setting.padding(B, N) if padded else None
    real = None if padding is None else from_padding(padding)
    assert_agree(
        setting,
        lambda: theirs(x, src_mask=blocked, src_key_padding_mask=padding),
        lambda: call(ours, weights, x, key_mask=real, mask=mask),
        leaves(theirs, x=x),
    )


def test_rows_14_and_15_are_what_convert_copies(setting: Setting) -> None:
    attention = setting.module(multi_head_attention(H * D, H))
    layer = setting.module(encoder_layer(H * D, H, 43))
    for theirs, weights in ((attention, to_attnlib.row_14(attention)), (layer, to_attnlib.row_15(layer))):
        copied = dict(from_torch(theirs).named_parameters())
        assert copied.keys() == weights.keys()
        assert all(torch.equal(copied[name], weights[name]) for name in weights)
