"""Scaled dot-product attention, by two ways of computing that give one result."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from .biased_softmax import biased_softmax_, is_transformed
from .masks import causal_mask, check_mask, may_have_empty_rows


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch q d_k"],
    k: Float[Tensor, "*key_batch k d_k"],
    v: Float[Tensor, "*key_batch k d_v"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    score_bias: Float[Tensor, "..."] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    training: bool = False,
    return_weights: bool = False,
    backend: str | None = None,
) -> Float[Tensor, "*batch q d_v"] | tuple[Float[Tensor, "*batch q d_v"], Float[Tensor, "*batch q k"]]:
    """Each query's mean of the values, weighted by how well the query fits the keys.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    >>> q = torch.tensor([[0.0, 0.0], [20.0, 0.0]])
    >>> k = torch.tensor([[10.0, 0.0], [0.0, 10.0]])
    >>> v = torch.tensor([[1.0], [3.0]])
    >>> scaled_dot_product_attention(q, k, v)  # the first query cannot decide, the second finds the first key
    tensor([[2.],
            [1.]])

    Shapes: q (..., q, d_k), k (..., k, d_k), v (..., k, d_v) -> output (..., q, d_v), and with ``return_weights`` also
    the weights (..., q, k), as they are before dropout. Grouped queries: q (..., h, q, d_k) against k and v with h_kv
    heads, where h is a multiple of h_kv; query head i reads key head i // (h / h_kv).

    - ``mask``: bool, True = may attend, broadcastable to (..., q, k). A query that may attend to nothing gets zeros.
    - ``score_bias``: broadcastable likewise, is added to the scaled scores (ALiBi, for example).
    - ``is_causal``: query i sees key j only if j <= i + (k - q); together with a mask, both must hold.
    - ``scale``: replaces 1 / sqrt(d_k).
    - ``dropout``: the probability that a weight is dropped, where ``training`` is true.
    - ``backend``: "eager" computes as the equation says, "fused" by ``F.scaled_dot_product_attention``, without ever
      holding the weights; by default fused unless weights are asked for or torch.func transforms the call.

    Raises ValueError or TypeError, with both numbers, for shapes that do not fit, a mask that is not bool, an unknown
    backend, and for weights that are asked of "fused".
    Vaswani et al. 2017, section 3.2.1, equation 1. Grouped queries: Ainslie et al. 2023, "GQA", section 2.2.
    """
    _check_backend(backend, return_weights)
    check_shapes(q, k, v)
    scores_shape = (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        check_mask(mask, scores_shape)
    if score_bias is not None:
        _check_score_bias(score_bias, scores_shape)
    dropout = dropout if training else 0.0
    if backend == "eager" or return_weights or (backend is None and is_transformed()):
        output, weights = _eager(q, k, v, mask, score_bias, is_causal, scale, dropout)
        return (output, weights) if return_weights else output
    return _fused(q, k, v, mask, score_bias, is_causal, scale, dropout)


def _eager(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """The equation, as two batched products: every head's matrix (q, k) is one item of a batch."""
    shape, dtype, heads = (*q.shape[:-1], k.shape[-2]), q.dtype, k.shape[:-2].numel()
    if dtype in (torch.float16, torch.bfloat16):  # scores need the range and the digits, as in the fused kernels
        q, k = q.float(), k.float()
    scale = q.shape[-1] ** -0.5 if scale is None else scale
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
    """One matrix for each key head, a single one without a batch: queries that share a key head stand below each other.

    A product of two matrices is faster than one of two batches of a single matrix.
    """
    rows, width = x.shape[:-1].numel() // max(heads, 1), x.shape[-1]
    return x.reshape(rows, width) if heads == 1 else x.reshape(heads, rows, width)


def _as_bias(
    mask: Tensor | None, score_bias: Tensor | None, is_causal: bool, q: Tensor, k: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, -inf where a key is blocked; and the rows that are blocked whole, which get none."""
    never_empty = mask is None and q.shape[-2] <= k.shape[-2]
    if is_causal:
        mask = _and_causal(mask, q, k)
    if mask is None:
        return score_bias, None
    blocked, empty = ~mask, None
    if not never_empty and may_have_empty_rows(mask):
        # the softmax of a row of -inf is 0 / 0, so an empty row keeps its scores, and is set to zero afterwards
        empty = blocked.all(dim=-1, keepdim=True)
        blocked = blocked & ~empty
    opened = q.new_zeros(()) if score_bias is None else score_bias.to(q.dtype)
    return torch.where(blocked, q.new_full((), -torch.inf), opened), empty


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    is_causal: bool,
    scale: float | None,
    dropout: float,
) -> Tensor:
    """PyTorch's kernel, with the meaning of mask and causal flag that holds here."""
    shape, q_len, k_len = (*q.shape[:-1], v.shape[-1]), q.shape[-2], k.shape[-2]
    if is_causal and (q_len != k_len or mask is not None or score_bias is not None):
        # the kernel's own flag is aligned top-left and takes no mask beside it; a single query sees every key
        is_causal = False
        mask = _and_causal(mask, q, k) if q_len > 1 else mask
    empty = None
    if mask is not None and may_have_empty_rows(mask):
        # not every kernel of every version gives zeros for an empty row, so it sees all keys and is zeroed afterwards
        empty = ~mask.any(dim=-1, keepdim=True)
        mask = mask | empty
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


def _and_causal(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor:
    causal = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
    return causal if mask is None else mask & causal


def _four_axes(x: Tensor) -> Tensor:
    """Leading axes of size 1 in front: the fast kernels take (b, h, n, d) and nothing else."""
    return x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x


def _fold_groups(x: Tensor, key_heads: torch.Size) -> Tensor:
    """Queries whose heads share a key head stand below one another: (..., h, q, d) -> (..., h_kv, h / h_kv q, d)."""
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


def _check_backend(backend: str | None, return_weights: bool) -> None:
    if backend not in (None, "eager", "fused"):
        raise ValueError(f'backend must be None, "eager" or "fused", got {backend!r}')
    if backend == "fused" and return_weights:
        raise ValueError('backend "fused" never holds the weights: return_weights=True requires "eager" or None')


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless queries, keys and values fit each other, heads in groups allowed."""
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ValueError(f"q, k and v must have at least two axes, got {q.ndim}, {k.ndim} and {v.ndim}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same width d, got d = {q.shape[-1]} for q and {k.shape[-1]} for k")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k and v must have the same number of positions, got {k.shape[-2]} and {v.shape[-2]}")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v must have the same dtype, got {q.dtype}, {k.dtype} and {v.dtype}")
    lead, key_lead, value_lead = tuple(q.shape[:-2]), tuple(k.shape[:-2]), tuple(v.shape[:-2])
    if key_lead != value_lead:
        raise ValueError(f"k and v must have the same leading axes, got {key_lead} and {value_lead}")
    if lead == key_lead:
        return
    if len(lead) != len(key_lead) or lead[:-1] != key_lead[:-1]:
        raise ValueError(f"q and k must have the same leading axes but for their heads, got {lead} and {key_lead}")
    if key_lead[-1] == 0 or lead[-1] % key_lead[-1]:
        raise ValueError(f"the heads of q must be a multiple of the heads of k, got {lead[-1]} and {key_lead[-1]}")


def _check_score_bias(score_bias: Tensor, shape: tuple[int, ...]) -> None:
    missing = len(shape) - score_bias.ndim
    if missing < 0 or any(m not in (1, s) for m, s in zip(score_bias.shape, shape[missing:], strict=True)):
        raise ValueError(f"score_bias must be broadcastable to (..., q, k) = {shape}, got {tuple(score_bias.shape)}")
