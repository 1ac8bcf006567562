"""The encoder: blocks of self-attention and an MLP, each inside a residual connection."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .feed_forward import FeedForward
from .kv_cache import Cache
from .layer_norm import norm_layer
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
    d_hidden = int(d_model * mlp_ratio) unless it is given. Only the MLP has dropout. ``norm`` is "layer" or "rms";
    ``activation`` and ``gated`` go to ``mlp``; ``d_head``, ``num_kv_heads``, ``rotary``, ``alibi``, ``window`` and
    ``backend`` to ``attn``.
    Vaswani et al. 2017, section 3.1; pre-LN: Xiong et al. 2020, "On Layer Normalization in the Transformer", figure 1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
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
        self.norm_first = norm_first
        self.norm1 = norm_layer(norm, d_model, eps=eps, bias=bias)
        self.attn = MultiHeadAttention(
            d_model,
            num_heads,
            d_head=d_head,
            num_kv_heads=num_kv_heads,
            bias=bias,
            rotary=rotary,
            alibi=alibi,
            window=window,
            backend=backend,
        )
        self.norm2 = norm_layer(norm, d_model, eps=eps, bias=bias)
        d_hidden = int(d_model * mlp_ratio) if d_hidden is None else d_hidden
        self.mlp = FeedForward(d_model, d_hidden, dropout=dropout, activation=activation, gated=gated, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "b n d_model"],
        key_mask: Bool[Tensor, "b k"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        score_bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "b n"] | None = None,
        is_causal: bool = False,
        cache: Cache | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Shapes: x (b, n, d_model) -> (b, n, d_model); all else as for ``MultiHeadAttention``."""
        attend = partial(
            self.attn,
            key_mask=key_mask,
            mask=mask,
            score_bias=score_bias,
            positions=positions,
            is_causal=is_causal,
            cache=cache,
        )
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + self.mlp(self.norm2(x))
        else:
            x = self.norm1(x + attend(x))
            x = self.norm2(x + self.mlp(x))
        return x


def last_norm(
    d_model: int,
    *,
    norm_first: bool = True,
    norm: str = "layer",
    eps: float = 1e-5,
    bias: bool = True,
    **_others: Any,
) -> nn.LayerNorm | nn.RMSNorm | nn.Identity:
    """The norm after a stack of pre-LN blocks; post-LN blocks end with one of their own."""
    return norm_layer(norm, d_model, eps=eps, bias=bias) if norm_first else nn.Identity()


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
        score_bias: Float[Tensor, "..."] | None = None,
        positions: Int[Tensor, "b n"] | None = None,
        is_causal: bool = False,
        caches: Sequence[Cache] | None = None,
    ) -> Float[Tensor, "b n d_model"]:
        """Shapes: x (b, n, d_model) -> (b, n, d_model); ``caches`` holds one cache for each block."""
        if caches is not None and len(caches) != len(self.layers):
            raise ValueError(f"caches must hold one cache for each of {len(self.layers)} blocks, got {len(caches)}")
        for i, layer in enumerate(self.layers):
            cache = None if caches is None else caches[i]
            x = layer(
                x,
                key_mask,
                mask=mask,
                score_bias=score_bias,
                positions=positions,
                is_causal=is_causal,
                cache=cache,
            )
        x = self.norm(x)
        return x
