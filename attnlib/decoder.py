"""The decoder: blocks that attend to their own past and to a memory."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .encoder import last_norm
from .feed_forward import FeedForward
from .kv_cache import Cache
from .layer_norm import norm_layer
from .multi_head_attention import MultiHeadAttention


class DecoderBlock(nn.Module):
    """Masked self-attention, then cross-attention to the memory, then the MLP, each inside a residual connection.

    pre-LN (``norm_first``):  x = x + attn(norm1(x));  x = x + cross(norm2(x), memory);  x = x + mlp(norm3(x))
    post-LN, as in the paper: x = norm1(x + attn(x));  x = norm2(x + cross(x, memory));  x = norm3(x + mlp(x))

    >>> import torch
    >>> block = DecoderBlock(12, 3)
    >>> block(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
    torch.Size([2, 5, 12])

    Layers: ``norm1``, ``attn``, ``norm2``, ``cross``, ``norm3``, ``mlp`` (``up down``), where
    d_hidden = int(d_model * mlp_ratio) unless it is given. Only the MLP has dropout. ``norm`` is "layer" or "rms";
    ``activation`` and ``gated`` go to ``mlp``; ``d_head``, ``num_kv_heads`` and ``backend`` to ``attn`` and ``cross``;
    ``rotary``, ``alibi`` and ``window`` to ``attn``, ``d_memory`` to ``cross``.
    Vaswani et al. 2017, section 3.1, figure 1 (right half).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_memory: int | None = None,
        mlp_ratio: float = 4.0,
        d_hidden: int | None = None,
        dropout: float = 0.0,
        norm_first: bool = True,
        norm: str = "layer",
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
        eps: float = 1e-5,
        d_head: int | None = None,
        num_kv_heads: int | None = None,
        rotary: nn.Module | None = None,
        alibi: bool = False,
        window: int | None = None,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        attention = partial(
            MultiHeadAttention,
            d_model,
            num_heads,
            d_head=d_head,
            num_kv_heads=num_kv_heads,
            bias=bias,
            backend=backend,
        )
        self.norm_first = norm_first
        self.norm1 = norm_layer(norm, d_model, eps=eps, bias=bias)
        self.attn = attention(rotary=rotary, alibi=alibi, window=window)
        self.norm2 = norm_layer(norm, d_model, eps=eps, bias=bias)
        self.cross = attention(d_memory=d_memory)
        self.norm3 = norm_layer(norm, d_model, eps=eps, bias=bias)
        d_hidden = int(d_model * mlp_ratio) if d_hidden is None else d_hidden
        self.mlp = FeedForward(d_model, d_hidden, dropout=dropout, activation=activation, gated=gated, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "b q d_model"],
        memory: Float[Tensor, "b k d_memory"],
        key_mask: Bool[Tensor, "b n"] | None = None,
        memory_key_mask: Bool[Tensor, "b k"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "b n"] | None = None,
        is_causal: bool = True,
        cache: Cache | None = None,
    ) -> Float[Tensor, "b q d_model"]:
        """Shapes: x (b, q, d_model), memory (b, k, d_memory) -> (b, q, d_model).

        ``memory_key_mask`` and ``memory_mask`` are for the cross-attention, the rest for the self-attention, all as for
        ``MultiHeadAttention``: masks are bool, True = may attend.
        """
        attend = partial(
            self.attn,
            key_mask=key_mask,
            mask=mask,
            score_bias=score_bias,
            positions=positions,
            is_causal=is_causal,
            cache=cache,
        )
        cross = partial(self.cross, memory=memory, key_mask=memory_key_mask, mask=memory_mask)
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + cross(self.norm2(x))
            x = x + self.mlp(self.norm3(x))
        else:
            x = self.norm1(x + attend(x))
            x = self.norm2(x + cross(x))
            x = self.norm3(x + self.mlp(x))
        return x


class Decoder(nn.Module):
    """A stack of decoder blocks; pre-LN blocks leave their sum unnormalised, so a last ``norm`` follows them.

    >>> import torch
    >>> Decoder(2, 12, 3, dropout=0.1)(torch.randn(2, 5, 12), torch.randn(2, 7, 12)).shape
    torch.Size([2, 5, 12])

    A decoder-only stack, as in GPT, has no memory to attend to: it is an ``Encoder``, called with ``is_causal=True``
    (``LanguageModel`` is one with an embedding and a head).

    Layers: ``layers``, and ``norm`` (an identity for post-LN). The arguments after num_layers are ``DecoderBlock``'s.
    Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, num_layers: int, d_model: int, num_heads: int, **block: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderBlock(d_model, num_heads, **block) for _ in range(num_layers))
        self.norm = last_norm(d_model, **block)

    def forward(
        self,
        x: Float[Tensor, "b q d_model"],
        memory: Float[Tensor, "b k d_memory"],
        key_mask: Bool[Tensor, "b n"] | None = None,
        memory_key_mask: Bool[Tensor, "b k"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "b n"] | None = None,
        is_causal: bool = True,
        caches: Sequence[Cache] | None = None,
    ) -> Float[Tensor, "b q d_model"]:
        """Shapes and masks as for ``DecoderBlock``; ``caches`` holds one cache for each block."""
        if caches is not None and len(caches) != len(self.layers):
            raise ValueError(f"caches must hold one cache for each of {len(self.layers)} blocks, got {len(caches)}")
        for i, layer in enumerate(self.layers):
            x = layer(
                x,
                memory,
                key_mask,
                memory_key_mask,
                mask=mask,
                memory_mask=memory_mask,
                score_bias=score_bias,
                positions=positions,
                is_causal=is_causal,
                cache=None if caches is None else caches[i],
            )
        x = self.norm(x)
        return x
