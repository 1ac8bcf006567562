"""Attention by PyTorch's fused kernels, which never hold the weights."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import open_empty_rows, with_causal


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
    dropout: float,
) -> Tensor:
    """Call ``F.scaled_dot_product_attention``, with mask and causal flag as attnlib defines them.

    Arguments as for ``scaled_dot_product_attention``, already checked.
    """
    shape, q_len, k_len = (*q.shape[:-1], v.shape[-1]), q.shape[-2], k.shape[-2]
    if is_causal and (q_len != k_len or mask is not None or score_bias is not None):
        # the kernel's own flag is aligned top-left and takes no mask beside it; a single query sees every key
        is_causal = False
        mask = with_causal(mask, q, k) if q_len > 1 else mask
    empty = None
    if mask is not None and not _gives_zeros(q):
        mask, empty = open_empty_rows(mask)
    if score_bias is not None:
        bias = score_bias.to(q.dtype)
        mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
    q, k, v, mask = _spread_groups(q, k, v, mask, is_causal)
    output = F.scaled_dot_product_attention(
        _four_axes(q),
        _four_axes(k),
        _four_axes(v),
        attn_mask=None if mask is None else _four_axes(mask),
        dropout_p=dropout,
        is_causal=is_causal,
        scale=scale,
    ).reshape(shape)
    return output if empty is None else output.masked_fill(empty, 0.0)


def _gives_zeros(q: Tensor) -> bool:
    """True where every kernel gives zeros, and no gradient, for a query that may attend to nothing.

    On a GPU that is float32 and float64; cuDNN's kernel, for half precision, does not.
    """
    return q.is_cuda and q.dtype in (torch.float32, torch.float64)


def _four_axes(x: Tensor) -> Tensor:
    """Add leading axes of size 1: the fast kernels accept only (b, h, n, d)."""
    return x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x


def _fold_groups(x: Tensor, key_heads: torch.Size) -> Tensor:
    """Stack the queries whose heads share a key head: (..., h, q, d) -> (..., h_kv, h / h_kv q, d)."""
    if x.shape[:-2] == key_heads:
        return x
    return x.reshape(*key_heads, -1, x.shape[-1])


def _spread_groups(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Give queries and keys the same number of heads, without a copy where no query differs from another."""
    key_heads = k.shape[:-2]
    if q.shape[:-2] == key_heads:
        return q, k, v, mask
    same_for_all = mask is None or ((mask.ndim < 3 or mask.shape[-3] == 1) and (mask.ndim < 2 or mask.shape[-2] == 1))
    if same_for_all and not is_causal:
        return _fold_groups(q, key_heads), k, v, mask
    groups = q.shape[-3] // k.shape[-3]
    return q, k.repeat_interleave(groups, dim=-3), v.repeat_interleave(groups, dim=-3), mask
