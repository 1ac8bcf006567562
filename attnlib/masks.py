"""Who may look at whom: bool, True = may attend.

Combine masks that must all hold with ``&``: ``causal_mask(n, n) & padding_mask(lengths, n)[:, None, :]``. Every mask
that depends on order is aligned bottom-right: the last query is at the last key's position, as when a cache already
holds the first k - q keys. Query i is therefore at position i + (k - q).
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from .required import check_lengths, check_tensors


def distances(q_len: int, k_len: int, device: torch.device | str | None = None) -> Int[Tensor, "q k"]:
    """The number of positions by which key j is behind query i; negative in the query's future."""
    check_lengths(q_len=q_len, k_len=k_len)
    queries = torch.arange(q_len, device=device) + (k_len - q_len)
    return queries[:, None] - torch.arange(k_len, device=device)


def causal_mask(q_len: int, k_len: int, *, device: torch.device | str | None = None) -> Bool[Tensor, "q k"]:
    """Query i sees key j only if j <= i + (k - q): itself and the past, never the future.

    >>> causal_mask(4, 4).int()
    tensor([[1, 0, 0, 0],
            [1, 1, 0, 0],
            [1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    >>> causal_mask(2, 4).int()  # two new queries, two keys from before
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)

    Vaswani et al. 2017, section 3.2.3, "to prevent leftward information flow in the decoder".
    """
    check_lengths(q_len=q_len, k_len=k_len)
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)


def padding_mask(lengths: Int[Tensor, " b"], max_len: int) -> Bool[Tensor, "b k"]:
    """The first ``lengths[b]`` keys of each sequence are real; the rest are padding, which no query sees.

    >>> padding_mask(torch.tensor([3, 1, 4]), 4).int()
    tensor([[1, 1, 1, 0],
            [1, 0, 0, 0],
            [1, 1, 1, 1]], dtype=torch.int32)

    The result is a key mask, (b, k). As a mask for (b, h, q, k) it is ``padding_mask(...)[:, None, None, :]``.
    Raises ValueError for a length outside 0 ... max_len, TypeError for lengths that are not integers.
    """
    check_tensors(lengths=lengths)
    check_lengths(max_len=max_len)
    if lengths.dtype == torch.bool or lengths.is_floating_point():
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have shape (b,), got {tuple(lengths.shape)}")
    if lengths.numel() and not (int(lengths.min()) >= 0 and int(lengths.max()) <= max_len):
        raise ValueError(f"lengths must be between 0 and max_len = {max_len}, got {lengths.tolist()}")
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]


def sliding_window_mask(
    q_len: int, k_len: int, window: int, *, device: torch.device | str | None = None
) -> Bool[Tensor, "q k"]:
    """Each query sees itself and the window - 1 keys before it.

    >>> sliding_window_mask(6, 6, 3).int()
    tensor([[1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [0, 1, 1, 1, 0, 0],
            [0, 0, 1, 1, 1, 0],
            [0, 0, 0, 1, 1, 1]], dtype=torch.int32)

    Raises ValueError for a window below 1.
    Beltagy et al. 2020, "Longformer", section 3.1, in its causal form.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
    distance = distances(q_len, k_len, device)
    return (distance >= 0) & (distance < window)


def attention_sink_mask(
    q_len: int, k_len: int, sinks: int, *, window: int | None = None, device: torch.device | str | None = None
) -> Bool[Tensor, "q k"]:
    """The first ``sinks`` keys stay in sight of every later query; with ``window``, so do the last ``window`` keys.

    >>> attention_sink_mask(6, 6, 1, window=2).int()
    tensor([[1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [1, 0, 1, 1, 0, 0],
            [1, 0, 0, 1, 1, 0],
            [1, 0, 0, 0, 1, 1]], dtype=torch.int32)

    Sinks and window are two ways to be seen, so they are joined by "or": the mask above is
    ``attention_sink_mask(6, 6, 1) | sliding_window_mask(6, 6, 2)``.
    Raises ValueError for a negative number of sinks, and for a window below 1.
    Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks", section 3.2.
    """
    if sinks < 0:
        raise ValueError(f"sinks must be at least 0, got {sinks}")
    first = torch.arange(k_len, device=device) < sinks
    seen = (distances(q_len, k_len, device) >= 0) & first
    return seen if window is None else seen | sliding_window_mask(q_len, k_len, window, device=device)


def check_mask(mask: Tensor, shape: torch.Size | tuple[int, ...]) -> None:
    """Raise unless the mask is bool and broadcasts to the scores' ``shape``, (..., q, k)."""
    check_tensors(mask=mask)
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask must be bool with True = may attend, got {mask.dtype}; "
            "attnlib.mask_conventions converts from the other conventions"
        )
    missing = len(shape) - mask.ndim
    if missing < 0 or any(m not in (1, s) for m, s in zip(mask.shape, shape[missing:], strict=True)):
        is_key_mask = len(shape) > 2 and tuple(mask.shape) == (shape[0], shape[-1])
        hint = f"; a key mask (b, k) has to become mask[:, {'None, ' * (len(shape) - 2)}:]" if is_key_mask else ""
        raise ValueError(f"mask must be broadcastable to (..., q, k) = {tuple(shape)}, got {tuple(mask.shape)}{hint}")


def may_have_empty_rows(mask: Bool[Tensor, "..."]) -> bool:
    """True if some query may attend to nothing; also True where finding out would cost more than it saves."""
    if mask.device.type != "cpu" or torch.compiler.is_compiling():
        return True  # reading the answer would stall the GPU, or break the graph
    try:
        return not bool(mask.any(dim=-1).all())
    except RuntimeError:  # torch.func.vmap: the answer is not one bool
        return True


def open_empty_rows(mask: Bool[Tensor, "..."]) -> tuple[Bool[Tensor, "..."], Bool[Tensor, "..."] | None]:
    """Let a query that may attend to nothing see every key, and return which queries these are, or None.

    The softmax of a row of -inf is 0 / 0, so such a row keeps its scores, and is set to zero afterwards.
    """
    if not may_have_empty_rows(mask):
        return mask, None
    empty = ~mask.any(dim=-1, keepdim=True)
    return mask | empty, empty


def with_causal(mask: Tensor | None, q: Tensor, k: Tensor) -> Bool[Tensor, "..."]:
    """The causal mask of these queries and keys, combined with the mask if there is one."""
    causal = causal_mask(q.shape[-2], k.shape[-2], device=q.device)
    return causal if mask is None else mask & causal
