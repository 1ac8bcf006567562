"""Several heads of attention side by side."""

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from .attention import scaled_dot_product_attention
from .heads import merge_heads, split_heads
from .kv_cache import Cache
from .masks import check_mask, sliding_window_mask
from .positions import alibi_bias, check_positions
from .required import check_rate, check_tensors, check_whole, check_width


class MultiHeadAttention(nn.Module):
    """Project, cut into heads, attend in each, join, project: Concat(head_1 ... head_h) W^O.

    >>> import torch
    >>> attention = MultiHeadAttention(12, 3)
    >>> x, memory = torch.randn(2, 5, 12), torch.randn(2, 7, 12)
    >>> attention(x).shape, attention(x, memory).shape
    (torch.Size([2, 5, 12]), torch.Size([2, 5, 12]))
    >>> attention(x, memory, return_weights=True)[1].shape
    torch.Size([2, 3, 5, 7])

    - ``d_head``: the width of a head, d_model / num_heads unless given; num_heads * d_head can differ from d_model.
    - ``num_kv_heads``: fewer heads of keys and values, each shared by a group of query heads.
    - ``d_memory``: the memory's width, d_model unless it is given.
    - ``bias``, ``out_bias``: of ``w_q``, ``w_k``, ``w_v``, and of ``w_o`` (as ``bias`` unless it is given).
    - ``dropout``: of the weights, in training only.
    - ``rotary``: a ``Rotary``, which turns queries and keys by their positions (self-attention only).
    - ``alibi``: a bias on the scores that penalises distant keys, ``alibi_bias``.
    - ``window``: each query sees itself and the window - 1 keys before it, ``sliding_window_mask``.
    - ``is_causal``: the default for ``forward``.
    - ``backend``: as for ``scaled_dot_product_attention``.

    Layers: ``w_q``, ``w_k``, ``w_v``, ``w_o``. Raises ValueError for sizes that do not divide each other, for x
    or memory of another width, for ``memory`` with a cache or ``rotary``, and for ``positions`` without ``rotary``.
    Vaswani et al. 2017, section 3.2.2. Multi-query: Shazeer 2019; grouped queries: Ainslie et al. 2023, section 2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_head: int | None = None,
        num_kv_heads: int | None = None,
        d_memory: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        rotary: nn.Module | None = None,
        alibi: bool = False,
        window: int | None = None,
        is_causal: bool = False,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        check_whole(
            d_model=d_model,
            num_heads=num_heads,
            d_head=d_head,
            num_kv_heads=num_kv_heads,
            d_memory=d_memory,
            window=window,
        )
        check_rate(dropout)
        if d_head is None:
            if d_model % num_heads:
                raise ValueError(
                    "d_model must be divisible by num_heads unless d_head is given, "
                    f"got d_model = {d_model} and num_heads = {num_heads}"
                )
            d_head = d_model // num_heads
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads % num_kv_heads:
            raise ValueError(
                f"num_heads must be a multiple of num_kv_heads, got {num_heads} and num_kv_heads = {num_kv_heads}"
            )
        d_memory = d_model if d_memory is None else d_memory
        self.num_heads, self.num_kv_heads, self.d_head = num_heads, num_kv_heads, d_head
        self.dropout, self.is_causal, self.backend = dropout, is_causal, backend
        self.w_q = nn.Linear(d_model, num_heads * d_head, bias=bias)
        self.w_k = nn.Linear(d_memory, num_kv_heads * d_head, bias=bias)
        self.w_v = nn.Linear(d_memory, num_kv_heads * d_head, bias=bias)
        self.w_o = nn.Linear(num_heads * d_head, d_model, bias=bias if out_bias is None else out_bias)
        self.rotary, self.alibi, self.window = rotary, alibi, window

    def forward(
        self,
        x: Float[Tensor, "b q d_model"],
        memory: Float[Tensor, "b m d_memory"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        key_mask: Bool[Tensor, "b k"] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        positions: Num[Tensor, "... n"] | None = None,
        is_causal: bool | None = None,
        cache: Cache | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "b q d_model"] | tuple[Float[Tensor, "b q d_model"], Float[Tensor, "b h q k"]]:
        """Attend from ``x`` to itself, or to ``memory``.

        Shapes: x (b, q, d_model), memory (b, k, d_memory) -> output (b, q, d_model), and with ``return_weights`` also
        the weights (b, h, q, k). Masks are bool, True = may attend: ``mask`` broadcastable to (b, h, q, k), and
        ``key_mask`` (b, k) with True = a real key. A key is seen where all of them and ``is_causal`` allow it.
        ``score_bias`` is added to the scaled scores. With a ``cache``, x continues what the cache holds, and its own
        keys and values are appended; ``key_mask`` is then of all positions so far, in a ``RollingKVCache``, too.
        ``positions`` (b, n), or (n,) for all rows, of x alone, are for ``rotary``.
        """
        check_width("x", x, "d_model", self.w_q.in_features)
        source = x if memory is None else memory
        check_width("x" if memory is None else "memory", source, "d_memory", self.w_k.in_features)
        if memory is not None and (cache is not None or self.rotary is not None):
            raise ValueError("a cache and rotary positions are for self-attention: with them, memory must be None")
        if positions is not None and self.rotary is None:
            raise ValueError("positions are for rotary attention: without rotary, they must be None")
        offset = 0 if cache is None else cache.length
        _check_key_mask(key_mask, (x.shape[0], offset + source.shape[-2]))  # before the cache holds what it will hold
        q = split_heads(self.w_q(x), self.num_heads)
        k = split_heads(self.w_k(source), self.num_kv_heads)
        v = split_heads(self.w_v(source), self.num_kv_heads)
        if self.rotary is not None:
            where = None
            if positions is not None:
                check_positions(positions, x)
                where = positions[..., None, :]  # the same for every head
            q, k = (self.rotary(x, offset=offset, positions=where) for x in (q, k))
        if cache is not None:
            k, v = cache.append(k, v)
        if self.alibi:
            distant = alibi_bias(self.num_heads, q.shape[-2], k.shape[-2], device=x.device)
            score_bias = distant if score_bias is None else distant + score_bias
        attended = scaled_dot_product_attention(
            q,
            k,
            v,
            mask=_join_masks(mask, key_mask, self.window, q, k),
            score_bias=score_bias,
            is_causal=self.is_causal if is_causal is None else is_causal,
            dropout=self.dropout,
            training=self.training,
            return_weights=return_weights,
            backend=self.backend,
        )
        output, weights = attended if isinstance(attended, tuple) else (attended, None)
        output = self.w_o(merge_heads(output))
        return output if weights is None else (output, weights)


def _check_key_mask(key_mask: Tensor | None, shape: tuple[int, int]) -> None:
    if key_mask is None:
        return
    check_tensors(key_mask=key_mask)
    if tuple(key_mask.shape) != shape:
        raise ValueError(f"key_mask must have shape (b, k) = {shape}, got {tuple(key_mask.shape)}")
    if key_mask.dtype != torch.bool:
        raise TypeError(f"key_mask must be bool with True = a real key, got {key_mask.dtype}")


def _join_masks(
    mask: Tensor | None, key_mask: Tensor | None, window: int | None, q: Tensor, k: Tensor
) -> Tensor | None:
    """One mask (b, h, q, k), or axes of size 1; the key mask is of all keys so far, of which k may be the last ones."""
    q_len, k_len = q.shape[-2], k.shape[-2]
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k_len))
    if window is not None:
        near = sliding_window_mask(q_len, k_len, window, device=q.device)
        mask = near if mask is None else near & mask
    if key_mask is None:
        return mask
    keys = key_mask[:, None, None, key_mask.shape[1] - k_len :]
    return keys if mask is None else mask & keys
