"""Row 4: one head, packed `(d k)`: q, k and v interleaved column by column; True in the mask = blocked."""

import torch
from einops import rearrange
from torch import Tensor, einsum, nn


class SelfAttention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.scale_factor = dim**-0.5

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        assert x.dim() == 3, "three axes are needed: (batch, tokens, dim)"
        q, k, v = tuple(rearrange(self.to_qkv(x), "b t (d k) -> k b t d", k=3))
        scores = einsum("b i d, b j d -> b i j", q, k) * self.scale_factor
        if mask is not None:
            assert mask.shape == scores.shape[1:], f"mask must be {tuple(scores.shape[1:])}, is {tuple(mask.shape)}"
            scores = scores.masked_fill(mask, -torch.inf)
        return einsum("b i j, b j d -> b i d", torch.softmax(scores, dim=-1), v)
