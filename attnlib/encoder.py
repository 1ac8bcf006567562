"""The encoder: blocks of self-attention and an MLP, each inside a residual connection."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .feed_forward import FeedForward
from .kv_cache import KVCache
from .multi_head_attention import MultiHeadAttention


class EncoderBlock(nn.Module):
    """Attention, then the MLP, each added to its own input.

    pre-LN (``norm_first``):  x = x + attn(norm1(x));  x = x + mlp(norm2(x))
    post-LN, as in the paper: x = norm1(x + attn(x));  x = norm2(x + mlp(x))

    >>> import torch
    >>> block = EncoderBlock(12, 3)
    >>> block(torch.randn(2, 5, 12)).shape
    torch.Size([2, 5, 12])

    Layers: ``norm1``, ``attn`` (``w_q w_k w_v w_o``), ``norm2``, ``mlp`` (``up down``), where
    d_hidden = int(d_model * mlp_ratio). Only the MLP has dropout. ``num_kv_heads``, ``rotary`` and ``backend``
    go to ``attn``.
    Vaswani et al. 2017, section 3.1; pre-LN: Xiong et al. 2020, "On Layer Normalization in the Transformer", figure 1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        norm_first: bool = True,
        activation: str = "gelu",
        bias: bool = True,
        eps: float = 1e-5,
        num_kv_heads: int | None = None,
        rotary: nn.Module | None = None,
        backend: str | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.norm1 = nn.LayerNorm(d_model, eps=eps, bias=bias)
        self.attn = MultiHeadAttention(
            d_model, num_heads, num_kv_heads=num_kv_heads, bias=bias, rotary=rotary, backend=backend
        )
        self.norm2 = nn.LayerNorm(d_model, eps=eps, bias=bias)
        self.mlp = FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout, activation=activation, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        key_mask: Bool[Tensor, "b k"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Shapes: x (b, n, d_model) -> (b, n, d_model); masks and cache as for ``MultiHeadAttention``."""
        if self.norm_first:
            x = x + self.attn(self.norm1(x), key_mask=key_mask, mask=mask, is_causal=is_causal, cache=cache)
            x = x + self.mlp(self.norm2(x))
        else:
            x = self.norm1(x + self.attn(x, key_mask=key_mask, mask=mask, is_causal=is_causal, cache=cache))
            x = self.norm2(x + self.mlp(x))
        return x


def last_norm(
    d_model: int, *, norm_first: bool = True, eps: float = 1e-5, bias: bool = True, **_others: Any
) -> nn.LayerNorm | nn.Identity:
    """The norm behind a stack of pre-LN blocks; post-LN blocks end with one of their own."""
    return nn.LayerNorm(d_model, eps=eps, bias=bias) if norm_first else nn.Identity()


class Encoder(nn.Module):
    """A stack of encoder blocks; pre-LN blocks leave their sum unnormalised, so a last ``norm`` follows them.

    >>> import torch
    >>> Encoder(2, 12, 3, dropout=0.1)(torch.randn(2, 5, 12)).shape
    torch.Size([2, 5, 12])

    Layers: ``layers``, and ``norm`` (an identity for post-LN). The arguments after num_layers are ``EncoderBlock``'s.
    Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, num_layers: int, d_model: int, num_heads: int, **block: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderBlock(d_model, num_heads, **block) for _ in range(num_layers))
        self.norm = last_norm(d_model, **block)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        key_mask: Bool[Tensor, "b k"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        caches: Sequence[KVCache] | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Shapes: x (b, n, d_model) -> (b, n, d_model); ``caches`` holds one ``KVCache`` for each block."""
        if caches is not None and len(caches) != len(self.layers):
            raise ValueError(f"caches must hold one cache for each of {len(self.layers)} blocks, got {len(caches)}")
        for i, layer in enumerate(self.layers):
            cache = None if caches is None else caches[i]
            x = layer(x, key_mask, mask=mask, is_causal=is_causal, cache=cache)
        x = self.norm(x)
        return x
