"""The requirements on the arguments that the forms of attention share."""

from torch import Tensor

from .masks import check_mask
from .required import check_tensors


def check_arguments(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    backend: str | None,
    return_weights: bool,
) -> None:
    """Raise a ValueError or TypeError that says what is required and what was received, unless all arguments fit."""
    if backend not in (None, "eager", "fused"):
        raise ValueError(f'backend must be None, "eager" or "fused", got {backend!r}')
    if backend == "fused" and return_weights:
        raise ValueError('backend "fused" never holds the weights: return_weights=True requires "eager" or None')
    check_shapes(q, k, v)
    scores_shape = (*q.shape[:-1], k.shape[-2])
    if mask is not None:
        check_mask(mask, scores_shape)
    if score_bias is not None:
        _check_score_bias(score_bias, scores_shape)


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise unless queries, keys and values fit each other, heads in groups allowed."""
    check_tensors(q=q, k=k, v=v)
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
        raise ValueError(f"q and k must have the same leading axes except for heads, got {lead} and {key_lead}")
    if key_lead[-1] == 0 or lead[-1] % key_lead[-1]:
        raise ValueError(f"the heads of q must be a multiple of the heads of k, got {lead[-1]} and {key_lead[-1]}")


def _check_score_bias(score_bias: Tensor, shape: tuple[int, ...]) -> None:
    check_tensors(score_bias=score_bias)
    missing = len(shape) - score_bias.ndim
    if missing < 0 or any(m not in (1, s) for m, s in zip(score_bias.shape, shape[missing:], strict=True)):
        raise ValueError(f"score_bias must be broadcastable to (..., q, k) = {shape}, got {tuple(score_bias.shape)}")
