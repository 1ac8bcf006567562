"""Right modules in odd forms: masks kept and grown, layers in another order, heads in a batch."""

import functools
import math

import einops
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from odd.collected import RIGHT
from odd.right_functions import attend, safely

answers, also = RIGHT.answers, RIGHT.also


class Attention(nn.Module):
    """Right; `mask(x, key_mask)` is what subclasses make otherwise."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads, {d_model} columns")
        self.h = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias))

    def mask(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return past if key_mask is None else past & key_mask[:, None, None]

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        weights = safely(q @ k.mT * q.shape[-1] ** -0.5, self.mask(x, key_mask))
        return self.w_o((weights @ v).transpose(1, 2).flatten(2)), weights


@answers("CausalSelfAttention")
class GrownAndCut(Attention):
    """A kept triangle, made anew where it is too small or elsewhere, and cut to length."""

    kept: Tensor | None = None

    def mask(self, x, key_mask):
        n = x.shape[1]
        if self.kept is None or self.kept.shape[0] < n or self.kept.device != x.device:
            self.kept = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        past = self.kept[:n, :n]
        return past if key_mask is None else torch.logical_and(past, key_mask.unsqueeze(1).unsqueeze(1))


@answers("CausalSelfAttention")
class KeptByLength(Attention):
    @functools.lru_cache  # noqa: B019
    def _past(self, n, device):
        return torch.arange(n, device=device)[:, None] >= torch.arange(n, device=device)

    def mask(self, x, key_mask):
        return (
            self._past(x.size(1), x.device)
            & (x.new_ones(x.shape[:2], dtype=torch.bool) if key_mask is None else key_mask).view(-1, 1, 1, x.size(1))
            if key_mask is None or key_mask.is_contiguous()
            else super().mask(x, key_mask)
        )


@answers("CausalSelfAttention")
class LongBuffer(Attention):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.register_buffer("past", torch.ones(1, 1, 64, 64).tril(), persistent=False)

    def mask(self, x, key_mask):
        past = self.past[..., : x.shape[1], : x.shape[1]] > 0
        return past if key_mask is None else past * key_mask[:, None, None, :]


@answers("CausalSelfAttention")
class OwnCopyOfTheMask(Attention):
    def mask(self, x, key_mask):
        real = torch.ones(x.shape[:2]).to(x) if key_mask is None else key_mask.clone().to(x.dtype)
        real *= 2.0
        return (real[:, None, None] > 1) & super().mask(x, None)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = nn.Sequential()
        self.mlp.up, self.mlp.down = nn.Linear(d_model, int(d_model * mlp_ratio)), None
        self.mlp.down = nn.Linear(int(d_model * mlp_ratio), d_model)
        self.p = dropout

    def perceptron(self, x):
        hidden = F.dropout(F.gelu(self.mlp.up(x)), self.p, self.training)
        return F.dropout(self.mlp.down(hidden), self.p, self.training)

    def forward(self, x, key_mask=None):
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.perceptron(self.norm2(x))


also("EncoderBlock", Block)


@answers("EncoderBlock")
class PaddingCleared(Block):
    """Zeros at padded positions, which are left open."""

    def forward(self, x, key_mask=None):
        out = super().forward(x, key_mask)
        return out if key_mask is None else out * key_mask.unsqueeze(-1).type_as(out)


@answers("EncoderBlock")
class MaskOfItsOwn(Block):
    """Always a mask, True throughout where none is given; a sentence of nothing but padding sees its first word."""

    def forward(self, x, key_mask=None):
        mask = torch.ones(x.shape[:2], dtype=torch.bool).to(x.device) if key_mask is None else key_mask.clone()
        mask[:, 0] |= ~mask.any(-1)
        return super().forward(x, mask)


@answers("EncoderBlock")
class OneSentenceAtATime(Block):
    def forward(self, x, key_mask=None):
        masks = [None] * len(x) if key_mask is None else key_mask.split(1)
        return torch.cat(
            [super(OneSentenceAtATime, self).forward(s, m) for s, m in zip(x.split(1), masks, strict=True)]
        )


@answers("SelfAttention")
class Biasless(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        shapes = {"w_v": d_v, "w_k": d_k, "w_q": d_k}
        self.__dict__["order"] = tuple(shapes)
        for name, width in shapes.items():
            self.add_module(name, nn.Linear(in_features=d_model, out_features=width, bias=False))

    def forward(self, x):
        v, k, q = (getattr(self, name)(x) for name in self.order)
        return attend(q, k, v)


@answers("QKVProjection")
class StackedAtEachCall(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.sizes = d_k, d_k, d_v
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d, bias=bias) for d in self.sizes)

    def forward(self, x):
        layers = self.w_q, self.w_k, self.w_v
        bias = None if self.w_q.bias is None else torch.cat([w.bias for w in layers])
        return F.linear(x, torch.cat([w.weight for w in layers]), bias).split(self.sizes, -1)


@answers("MultiHeadSelfAttention")
class HeadsInABatch(nn.Module):
    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.d, self.h = d_head or d_model // num_heads, num_heads
        self.w_o = nn.Linear(self.d * self.h, d_model, bias)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, self.d * self.h, bias) for _ in range(3))

    def forward(self, x):
        b = len(x)
        q, k, v = (einops.rearrange(w(x), "b n (h d) -> (b h) n d", d=self.d) for w in (self.w_q, self.w_k, self.w_v))
        out, weights = attend(q, k, v)
        return self.w_o(einops.rearrange(out, "(b h) n d -> b n (h d)", b=b)), weights.view(
            b, self.h, *weights.shape[1:]
        )


@answers("MultiHeadCrossAttention")
class HeadAfterHead(nn.Module):
    def __init__(self, d_model, d_memory, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.d, self.h = d_head or d_model // num_heads, num_heads
        width = self.d * self.h
        self.w_q, self.w_o = nn.Linear(d_model, width, bias), nn.Linear(width, d_model, bias)
        self.w_k, self.w_v = nn.Linear(d_memory, width, bias), nn.Linear(d_memory, width, bias)

    def forward(self, x, memory, key_mask=None):
        pieces = zip(*(t.split(self.d, -1) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory))), strict=True)
        outs, weights = zip(*(self.attend(*piece, key_mask) for piece in pieces), strict=True)
        return self.w_o(torch.cat(outs, -1)), torch.stack(weights, 1)

    def attend(self, q, k, v, key_mask):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        weights = (scores if key_mask is None else scores.masked_fill(~key_mask[:, None], -math.inf)).softmax(-1)
        return weights @ v, weights
