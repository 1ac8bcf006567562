"""The equation written over its own scores: one matrix (q, k) where the plain form allocates up to four."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from .half_precision import wide, without_autocast
from .masks import open_empty_rows, with_causal


def in_place_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """``equation``, with one matrix (q, k) for each head that is first the scores, then the weights.

    Allocating more matrices of that size takes time: ``python -m benchmarks.weights`` compares the two forms.
    Arguments as for ``scaled_dot_product_attention``, already checked.
    """
    shape, dtype, heads = (*q.shape[:-1], k.shape[-2]), q.dtype, k.shape[:-2].numel()
    q, k = wide(q), wide(k)  # scores need the range and the digits, as in the fused kernels
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    with without_autocast(q):
        scores = _matrices(q * scale, heads) @ _matrices(k, heads).mT
    bias, empty = _as_bias(mask, score_bias, is_causal, q, k)
    weights = biased_softmax_(scores, bias, shape).view(shape)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    weights = weights.to(dtype)
    dropped = F.dropout(weights, dropout) if dropout else weights
    output = _matrices(dropped, heads) @ _matrices(v, heads)
    return output.view(*q.shape[:-1], v.shape[-1]), weights


def _matrices(x: Tensor, heads: int) -> Tensor:
    """Reshape to one matrix for each key head, in which the queries that share this head are stacked.

    With a single head there is no batch axis: multiplying two matrices is faster than two batches of one matrix each.
    """
    rows, width = x.shape[:-1].numel() // heads if heads else x.shape[-2], x.shape[-1]
    return x.reshape(rows, width) if heads == 1 else x.reshape(heads, rows, width)


def _as_bias(
    mask: Tensor | None, score_bias: Tensor | None, is_causal: bool, q: Tensor, k: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Turn masks into a bias, -inf where a key is blocked, and say which rows are all blocked (they get no -inf)."""
    never_empty = mask is None and q.shape[-2] <= k.shape[-2]
    if is_causal:
        mask = with_causal(mask, q, k)
    if mask is None:
        return score_bias, None
    mask, empty = (mask, None) if never_empty else open_empty_rows(mask)
    opened = q.new_zeros(()) if score_bias is None else score_bias.to(q.dtype)
    return torch.where(mask, opened, -torch.inf), empty


def biased_softmax_(
    scores: Float[Tensor, "... k"], bias: Float[Tensor, "..."] | None, shape: tuple[int, ...]
) -> Float[Tensor, "... k"]:
    """softmax(scores + bias) over the last axis, which may overwrite the scores: pass a tensor that was just made.

    >>> biased_softmax_(torch.zeros(2, 2), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]), (2, 2))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])

    Shapes: scores (..., k), not a view -> the same. The bias is broadcastable to ``shape``, which holds as many numbers
    as the scores, in the same order, and is finite somewhere in each row.
    """
    softmax: Callable[..., Tensor] = _BiasedSoftmax.apply
    return softmax(scores, bias, shape)


class _BiasedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        if bias is not None:
            scores.view(shape).add_(bias)
            ctx.shapes = shape, bias.shape
        torch.softmax(scores, dim=-1, out=scores)
        ctx.mark_dirty(scores)
        ctx.save_for_backward(scores)
        return scores

    @staticmethod
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (weights,) = ctx.saved_tensors
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        d_bias = None
        if ctx.needs_input_grad[1]:
            shape, bias_shape = ctx.shapes
            d_bias = d_scores.view(shape).sum_to_size(bias_shape)
        return d_scores, d_bias, None
