"""Rows 1 to 10 and attnlib, given the same weights: equal results and equal gradients."""

import itertools
from functools import partial

import pytest
import row_10_causal_two_ways as row_10
import to_attnlib
import torch
from agreement import Setting, assert_agree, blocked_and_mask, call, leaves, multi_head, sdpa
from row_01_annotated_single_head import Attention
from row_02_annotated_multi_head import MultiheadSelfAttention
from row_03_encoder_block import Block
from row_04_einops_single_head import SelfAttention as EinopsSelfAttention
from row_05_einops_multi_head import MultiHeadSelfAttention as EinopsMultiHead
from row_06_shared_projection import SelfAttention as SharedProjection
from row_07_matrix_parameters import SelfAttention as MatrixAttention
from row_08_list_of_heads import MultiHeadAttentionWrapper
from row_09_cross_attention import CrossAttention as MatrixCrossAttention

import attnlib
from attnlib.mask_conventions import from_keep
from attnlib.masks import causal_mask
from attnlib.softmax import masked_softmax

B, N, K, H, D, D_MODEL = 2, 7, 11, 3, 5, 17  # batch, queries, keys, heads, head width, model width where it is free
masks = pytest.mark.parametrize("kind", ["none", "causal", "random"])


def test_row_01_one_head_of_full_width(setting: Setting) -> None:
    theirs, x = setting.module(Attention(D_MODEL)), setting.normal(B, N, D_MODEL)
    weights, wrt = to_attnlib.row_01(theirs), leaves(theirs, x=x)
    module = setting.module(attnlib.SelfAttention(D_MODEL, D_MODEL, D_MODEL, bias=True))
    assert_agree(setting, lambda: theirs(x), lambda: call(module, weights, x), wrt, vanishing=["key.bias"])
    project = setting.module(attnlib.QKVProjection(D_MODEL, D_MODEL, D_MODEL))
    assert_agree(
        setting, lambda: theirs(x), lambda: sdpa(setting, *call(project, weights, x)), wrt, vanishing=["key.bias"]
    )


def test_row_02_packed_three_heads_width(setting: Setting) -> None:
    theirs, x = setting.module(MultiheadSelfAttention(H * D, H)), setting.normal(B, N, H * D)
    ours, weights = multi_head(setting, H * D, H), to_attnlib.row_02(theirs)
    assert_agree(setting, lambda: theirs(x), lambda: call(ours, weights, x), leaves(theirs, x=x))


def test_row_03_encoder_block(setting: Setting) -> None:
    theirs, x = setting.module(Block(H * D, H, mlp_ratio=2.9)), setting.normal(B, N, H * D)
    ours = setting.module(attnlib.EncoderBlock(H * D, H, mlp_ratio=2.9, backend=setting.backend))
    weights = to_attnlib.row_03(theirs)
    assert_agree(setting, lambda: theirs(x), lambda: call(ours, weights, x), leaves(theirs, x=x))


@masks
def test_row_04_packed_width_three(setting: Setting, kind: str) -> None:
    theirs, x = setting.module(EinopsSelfAttention(D_MODEL)), setting.normal(B, N, D_MODEL)
    weights, wrt = to_attnlib.row_04(theirs), leaves(theirs, x=x)
    blocked, mask = blocked_and_mask(setting, kind, N, N)
    module = setting.module(attnlib.SelfAttention(D_MODEL, D_MODEL, D_MODEL))
    assert_agree(setting, lambda: theirs(x, blocked), lambda: call(module, weights, x, mask=mask), wrt)
    project = setting.module(attnlib.QKVProjection(D_MODEL, D_MODEL, D_MODEL, bias=False))
    assert_agree(setting, lambda: theirs(x, blocked), lambda: sdpa(setting, *call(project, weights, x), mask=mask), wrt)


@masks
def test_row_05_packed_width_three_heads(setting: Setting, kind: str) -> None:
    theirs, x = setting.module(EinopsMultiHead(D_MODEL, H, D)), setting.normal(B, N, D_MODEL)
    ours, weights = multi_head(setting, D_MODEL, H, d_head=D, bias=False), to_attnlib.row_05(theirs)
    blocked, mask = blocked_and_mask(setting, kind, N, N)
    assert_agree(setting, lambda: theirs(x, blocked), lambda: call(ours, weights, x, mask=mask), leaves(theirs, x=x))


@masks
def test_row_06_heads_that_share_a_projection_are_a_block_diagonal_one(setting: Setting, kind: str) -> None:
    theirs, ours = setting.module(SharedProjection(H * D, H)), multi_head(setting, H * D, H, bias=False, out_bias=True)
    query, memory = setting.normal(B, N, H * D), setting.normal(B, K, H * D)
    mask, weights = setting.mask(kind, N, K), to_attnlib.row_06(theirs)
    keep = None if mask is None else mask.int().expand(B, 1, N, K)
    assert_agree(
        setting,
        lambda: theirs(memory, memory, query, keep),
        lambda: call(ours, weights, query, memory, mask=None if keep is None else from_keep(keep)),
        leaves(theirs, query=query, memory=memory),
    )


def test_row_06_three_different_inputs(setting: Setting) -> None:
    theirs, query = setting.module(SharedProjection(H * D, H)), setting.normal(B, N, H * D)
    keys, values = setting.normal(B, K, H * D), setting.normal(B, K, H * D)

    def ours() -> torch.Tensor:
        cut = partial(attnlib.split_heads, num_heads=H)
        q, k, v = theirs.queries(cut(query)), theirs.keys(cut(keys)), theirs.values(cut(values))
        return theirs.fc_out(attnlib.merge_heads(sdpa(setting, q, k, v)))

    wrt = leaves(theirs, query=query, keys=keys, values=values)
    assert_agree(setting, lambda: theirs(values, keys, query), ours, wrt)


def test_row_07_bare_matrices(setting: Setting) -> None:
    theirs, x = setting.module(MatrixAttention(D_MODEL, D, K)), setting.normal(N, D_MODEL)
    matrices, wrt = to_attnlib.row_07(theirs), leaves(theirs, x=x)
    module = setting.module(attnlib.SelfAttention(D_MODEL, D, K))
    assert_agree(setting, lambda: theirs(x), lambda: call(module, to_attnlib.transposed(matrices), x), wrt)
    assert_agree(setting, lambda: theirs(x), lambda: sdpa(setting, *attnlib.project_qkv(x, *matrices)), wrt)
    fused = torch.cat(matrices, dim=-1)
    assert_agree(setting, lambda: theirs(x), lambda: sdpa(setting, *attnlib.project_qkv_fused(x, fused, D, K)), wrt)


def test_row_08_a_list_of_heads_is_one_stacked_matrix(setting: Setting) -> None:
    theirs, x = setting.module(MultiHeadAttentionWrapper(D_MODEL, D, K, H)), setting.normal(N, D_MODEL)
    per_head = zip(*map(to_attnlib.row_07, theirs.heads), strict=True)
    stacked = [attnlib.stack_head_weights(matrices) for matrices in per_head]

    def ours() -> torch.Tensor:
        q, k, v = (attnlib.split_heads(part, H) for part in attnlib.project_qkv(x, *stacked))
        return attnlib.merge_heads(sdpa(setting, q, k, v))

    assert_agree(setting, lambda: theirs(x), ours, leaves(theirs, x=x))


def test_row_09_cross_attention_with_bare_matrices(setting: Setting) -> None:
    theirs = setting.module(MatrixCrossAttention(D_MODEL, D, 13))
    x, memory = setting.normal(N, D_MODEL), setting.normal(K, D_MODEL)
    matrices, wrt = to_attnlib.row_07(theirs), leaves(theirs, x=x, memory=memory)
    w_q, w_k, w_v = matrices
    module = setting.module(attnlib.CrossAttention(D_MODEL, D_MODEL, D, 13))
    for ours in (
        lambda: attnlib.cross_attention(x, memory, *matrices)[0],
        lambda: call(module, to_attnlib.transposed(matrices), x, memory),
        lambda: sdpa(setting, x @ w_q, memory @ w_k, memory @ w_v),
    ):
        assert_agree(setting, lambda: theirs(x, memory), ours, wrt)


def test_row_10_causal_weights_two_ways(setting: Setting) -> None:
    scores = setting.normal(N, N, std=3.0)
    scaled = scores / D**0.5
    everyone = {
        "their renormalised": lambda: row_10.softmax_then_renormalise(scores, D),
        "their filled": lambda: row_10.fill_then_softmax(scores, D),
        "our renormalised": lambda: attnlib.renormalised_causal_weights(scaled),
        "our masked": lambda: masked_softmax(scaled, causal_mask(N, N, device=setting.device)),
    }
    for one, other in itertools.combinations(everyone.values(), 2):
        assert_agree(setting, one, other, {"scores": scores})
