"""Attention block by block, in memory that grows with n instead of n^2."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .attention_arguments import check_shapes
from .half_precision import wide, without_autocast
from .masks import check_mask


def tiled_attention(
    q: Float[Tensor, "*batch q d_k"],
    k: Float[Tensor, "*key_batch k d_k"],
    v: Float[Tensor, "*key_batch k d_v"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    block_q: int = 1024,
    block_k: int = 512,
) -> Float[Tensor, "*batch q d_v"]:
    """``scaled_dot_product_attention`` without ever holding more than one block of the weights.

    A softmax can be built up one block of keys at a time, if three things are kept for every query: the
    largest score m seen so far, the sum l of exp(s - m), and the sum o of exp(s - m) v. A new block with a larger score
    m' scales the old sums by exp(m - m'):

        m' = max(m, max_j s_j)
        l' = exp(m - m') l + sum_j exp(s_j - m')
        o' = exp(m - m') o + sum_j exp(s_j - m') v_j

    and the output is o / l. For the backward pass, which recomputes the weights, only m + log l of each query is kept
    besides the inputs and the output.

    >>> q, k, v = torch.randn(3, 5, 7), torch.randn(3, 11, 7), torch.randn(3, 11, 2)
    >>> tiled_attention(q, k, v, block_q=2, block_k=4).shape
    torch.Size([3, 5, 2])

    Shapes, mask (bool, True = may attend), ``is_causal``, ``scale`` and errors as for
    ``scaled_dot_product_attention``. The sizes of the blocks change speed and memory, and the result only by rounding.
    A second derivative is correct too, but needs all weights at once.
    Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3; Dao et al. 2022,
    "FlashAttention", algorithms 1 and 4; Dao 2023, "FlashAttention-2", section 3.1.
    """
    check_shapes(q, k, v)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
    if block_q < 1 or block_k < 1:
        raise ValueError(f"block_q and block_k must be at least 1, got {block_q} and {block_k}")
    if q.shape[:-2] != k.shape[:-2]:
        groups = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(groups, dim=-3), v.repeat_interleave(groups, dim=-3)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    attend: Callable[..., tuple[Tensor, Tensor]] = _TiledAttention.apply
    with without_autocast(q):
        output, _ = attend(q, k, v, mask, is_causal, scale, block_q, block_k)
    return output


class _TiledAttention(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float, block_q: int, block_k: int
    ) -> tuple[Tensor, Tensor]:
        outputs, log_sums = [], []
        for rows in _blocks(q.shape[-2], block_q):
            q_block = wide(q[..., rows, :]) * scale
            highest = torch.full_like(q_block[..., :1], -torch.inf)
            total: Tensor = torch.zeros_like(highest)
            output = q_block.new_zeros(*q_block.shape[:-1], v.shape[-1])
            for columns in _visible_blocks(rows, q, k, block_k, is_causal):
                scores = _scores(q_block, k, mask, is_causal, rows, columns, q.shape[-2])
                new_highest = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
                # where nothing has been open yet, both are -inf, whose difference would be NaN
                base = new_highest.masked_fill(new_highest == -torch.inf, 0.0)
                weights, shrink = scores.sub_(base).exp_(), (highest - base).exp()
                total = shrink * total + weights.sum(dim=-1, keepdim=True)
                output = shrink * output + weights @ wide(v[..., columns, :])
                highest = new_highest
            outputs.append((output / total.masked_fill(total == 0, 1.0)).to(q.dtype))
            # +inf makes the weights of an empty row exp(s - inf) = 0 in the backward pass
            log_sums.append((highest + total.log()).masked_fill(total == 0, torch.inf))
        return torch.cat(outputs, dim=-2), torch.cat(log_sums, dim=-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, mask, *ctx.settings = inputs
        ctx.save_for_backward(q, k, v, mask, *output)

    @staticmethod
    def backward(ctx: Any, d_output: Tensor, d_log_sum: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, output, log_sum = ctx.saved_tensors
        is_causal, scale, block_q, block_k = ctx.settings
        d_q: list[Tensor] = []
        d_k = [torch.zeros_like(wide(k[..., columns, :])) for columns in _blocks(k.shape[-2], block_k)]
        d_v = [torch.zeros_like(wide(v[..., columns, :])) for columns in _blocks(k.shape[-2], block_k)]
        for rows in _blocks(q.shape[-2], block_q):
            q_block, d_block = wide(q[..., rows, :]) * scale, wide(d_output[..., rows, :])
            # what the softmax's backward subtracts, sum_j p_j dp_j, is the product of the output and its gradient
            along = (d_block * wide(output[..., rows, :])).sum(dim=-1, keepdim=True) - d_log_sum[..., rows, :]
            d_q_block = torch.zeros_like(q_block)
            for j, columns in enumerate(_visible_blocks(rows, q, k, block_k, is_causal)):
                scores = _scores(q_block, k, mask, is_causal, rows, columns, q.shape[-2])
                weights = (scores - log_sum[..., rows, :]).exp_()
                d_scores = (d_block @ wide(v[..., columns, :]).transpose(-2, -1) - along).mul_(weights)
                d_q_block = d_q_block + d_scores @ wide(k[..., columns, :])
                d_k[j] = d_k[j] + d_scores.transpose(-2, -1) @ q_block
                d_v[j] = d_v[j] + weights.transpose(-2, -1) @ d_block
            d_q.append((d_q_block * scale).to(q.dtype))
        d_keys, d_values = torch.cat(d_k, dim=-2).to(q.dtype), torch.cat(d_v, dim=-2).to(q.dtype)
        return torch.cat(d_q, dim=-2), d_keys, d_values, None, None, None, None, None


def _scores(
    q_block: Tensor, k: Tensor, mask: Tensor | None, is_causal: bool, rows: slice, columns: slice, q_len: int
) -> Tensor:
    """One block of the scores, -inf where the mask or causality blocks a key."""
    scores = q_block @ wide(k[..., columns, :]).transpose(-2, -1)
    diagonal = rows.start + k.shape[-2] - q_len - columns.start
    if is_causal and diagonal < columns.stop - columns.start - 1:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=k.device).triu(diagonal + 1)
        scores = scores.masked_fill_(future, -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~_cut(mask, rows, columns), -torch.inf)
    return scores


def _cut(mask: Tensor, rows: slice, columns: slice) -> Tensor:
    """A block of the mask, whose axes may be missing or of size 1."""
    if mask.ndim > 0 and mask.shape[-1] > 1:
        mask = mask[..., columns]
    if mask.ndim > 1 and mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    return mask


def _blocks(length: int, size: int) -> list[slice]:
    """At least one, which is empty where there is nothing: what is made of each can then be joined."""
    return [slice(start, min(start + size, length)) for start in range(0, max(length, 1), size)]


def _visible_blocks(rows: slice, q: Tensor, k: Tensor, size: int, is_causal: bool) -> list[slice]:
    """The key blocks in which the last of these rows may see at least one key."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    stop = rows.stop + k_len - q_len if is_causal else k_len
    return [columns for columns in _blocks(k_len, size) if columns.start < stop]
