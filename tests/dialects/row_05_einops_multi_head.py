"""Row 5: heads of free width, packed `(d k h)`: the heads are the fastest axis; True in the mask = blocked."""

import torch
from einops import rearrange
from torch import Tensor, einsum, nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int = 8, dim_head: int | None = None) -> None:
        super().__init__()
        self.dim_head = dim // heads if dim_head is None else dim_head
        self.heads = heads
        inner = self.dim_head * heads  # need not be dim
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.w_out = nn.Linear(inner, dim, bias=False)
        self.scale_factor = self.dim_head**-0.5

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        assert x.dim() == 3, "three axes are needed: (batch, tokens, dim)"
        q, k, v = tuple(rearrange(self.to_qkv(x), "b t (d k h) -> k b h t d", k=3, h=self.heads))
        scores = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale_factor
        if mask is not None:
            assert mask.shape == scores.shape[2:], f"mask must be {tuple(scores.shape[2:])}, is {tuple(mask.shape)}"
            scores = scores.masked_fill(mask, -torch.inf)
        out = einsum("b h i j, b h j d -> b h i d", torch.softmax(scores, dim=-1), v)
        return self.w_out(rearrange(out, "b h t d -> b t (h d)"))
