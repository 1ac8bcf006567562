"""Right answers to the exercises of lesson 06, written in many ways; every check must accept them all."""

import math
import sys
from functools import partial

import einops
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course import find


def norm_by_loop(x, gain, bias, eps=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    rows = []
    for row in flat:
        mean = sum(row) / len(row)
        variance = sum((entry - mean) ** 2 for entry in row) / len(row)
        rows.append((row - mean) / torch.sqrt(variance + eps) * gain + bias)
    return torch.stack(rows).reshape(x.shape)


def norm_by_var(x, gain, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + eps) + bias


def norm_by_moments(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """The famous difference, of numbers that are small: those of x minus its first entry."""
    near = x - x[..., :1].detach()
    mean, square = near.mean(-1, keepdim=True), (near * near).mean(-1, keepdim=True)
    return torch.addcmul(bias, (near - mean) * torch.rsqrt(square - mean * mean + eps), gain)


def norm_by_einops(x, gain, bias, eps=1e-5):
    centred = x - einops.reduce(x, "... d -> ... 1", "mean")
    variance = einops.reduce(centred**2, "... d -> ... 1", "mean")
    print("variance", variance.shape, file=sys.stderr)
    return centred / (variance + eps) ** 0.5 * gain + bias


def norm_by_std(x, gain, bias, eps=1e-5):
    deviation, mean = torch.std_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) / torch.hypot(deviation, torch.full_like(deviation, math.sqrt(eps))) * gain + bias


def norm_in_place(x, gain, bias, eps=1e-5):
    own = x.clone()
    own -= own.mean(dim=-1, keepdim=True)
    scale = own.pow(2).mean(dim=-1, keepdim=True).add_(eps).sqrt_()
    return own.div(scale).mul(gain).add(bias)


class NormObject:
    def __call__(self, x, gain, bias, eps=1e-5):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return (x - mean).mul((variance + eps).rsqrt()).mul(gain).add(bias)


def _norm_with(power, x, gain, bias, eps=1e-5):
    centred = x - x.sum(-1, keepdim=True) / x.size(-1)
    return centred * (centred.square().sum(-1, keepdim=True) / x.size(-1) + eps).pow(power) * gain + bias


class SequentialPerceptron(nn.Module):
    def __init__(self, d_model, d_hidden, dropout=0.0):
        super().__init__()
        self.down = nn.Linear(d_hidden, d_model)
        self.up = nn.Linear(d_model, d_hidden)
        self.dropout = nn.Dropout(dropout)
        self.act = nn.GELU()

    def forward(self, x):
        return self.dropout(self.down(self.dropout(self.act(self.up(x)))))


class TwoDropouts(nn.Module):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.drop1, self.drop2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        up = self.up(x)
        hidden = self.drop1(0.5 * up * (1 + torch.erf(up / math.sqrt(2))))
        return self.drop2(self.down(hidden))


class FunctionalPerceptron(nn.Module):
    def __init__(self, d_model, d_hidden, dropout=0.0):
        super().__init__()
        self.up, self.down, self.p = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model), dropout

    def forward(self, x):
        print("forward", x.shape)
        hidden = F.gelu(F.linear(x, self.up.weight, self.up.bias), approximate="none")
        hidden = F.dropout(hidden, p=self.p, training=self.training)
        return F.dropout(F.linear(hidden, self.down.weight, self.down.bias), self.p, self.training)


class MatrixPerceptron(nn.Module):
    def __init__(self, d_model, d_hidden, dropout=0.0):
        super().__init__()
        self.up, self.down, self.p = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model), dropout

    def drop(self, x):
        if not self.training or self.p == 0:
            return x
        keep = torch.bernoulli(torch.full_like(x, 1 - self.p))
        return x * keep / (1 - self.p)

    def forward(self, x):
        hidden = torch.einsum("b n d, e d -> b n e", x, self.up.weight) + self.up.bias
        hidden = self.drop(hidden * torch.special.ndtr(hidden))
        return self.drop(hidden @ self.down.weight.T + self.down.bias)


class PerceptronByLoop(nn.Module):
    def __init__(self, d_model, d_hidden, dropout=0.0):
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model), nn.Dropout(dropout)

    def forward(self, x):
        words = [self.down(self.drop(F.gelu(self.up(x[:, i])))) for i in range(min(x.shape[1], 64))]
        if x.shape[1] > 64:
            words += list(self.down(self.drop(F.gelu(self.up(x[:, 64:])))).unbind(1))
        return self.drop(torch.stack(words, dim=1))


class UsualBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x, key_mask=None):
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.mlp(self.norm2(x))


class OwnNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return norm_by_var(x, self.weight, self.bias)


class OwnAttention(nn.Module):
    """Filled with a large finite number, as many do: what padded queries get is left open."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.h = num_heads
        self.w_o, self.w_v, self.w_k, self.w_q = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, key_mask):
        q, k, v = (
            einops.rearrange(layer(x), "b n (h d) -> b h n d", h=self.h) for layer in (self.w_q, self.w_k, self.w_v)
        )
        scores = torch.einsum("b h q d, b h k d -> b h q k", q, k) / math.sqrt(q.shape[-1])
        if key_mask is not None:
            scores = scores.masked_fill(~key_mask[:, None, None], torch.finfo(x.dtype).min)
        return self.w_o(einops.rearrange(scores.softmax(-1) @ v, "b h n d -> b n (h d)"))


class BlockFromScratch(nn.Module):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__()
        self.mlp = TwoDropouts(d_model, int(d_model * mlp_ratio), dropout)
        self.norm2, self.norm1 = OwnNorm(d_model), OwnNorm(d_model)
        self.attn = OwnAttention(d_model, num_heads)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        residual = x
        x = self.attn(self.norm1(x), key_mask)
        x = residual + x
        residual = x
        x = self.mlp(self.norm2(x))
        return residual + x


class FusedAttention(OwnAttention):
    def forward(self, x, key_mask):
        q, k, v = (layer(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for layer in (self.w_q, self.w_k, self.w_v))
        mask = None if key_mask is None else key_mask[:, None, None, :] | ~key_mask.any(-1)[:, None, None, None]
        return self.w_o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class FusedBlock(UsualBlock):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__(d_model, num_heads, mlp_ratio, dropout)
        self.attn = FusedAttention(d_model, num_heads)
        self.mlp = SequentialPerceptron(d_model, int(d_model * mlp_ratio), dropout)

    def forward(self, x, key_mask=None):
        x = self.attn(self.norm1(x), key_mask).add(x)
        return self.mlp(self.norm2(x)).add(x)


class AdditiveMaskBlock(UsualBlock):
    """-1e9 added to the scores of padding; every sentence and every head in its own turn."""

    def attend(self, x, key_mask):
        h = self.attn.num_heads
        heads = [layer(x).chunk(h, dim=-1) for layer in (self.attn.w_q, self.attn.w_k, self.attn.w_v)]
        outputs = []
        for q, k, v in zip(*heads, strict=True):
            scores = torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5
            if key_mask is not None:
                scores = scores + (1 - key_mask.to(x.dtype))[:, None, :] * -1e9
            outputs.append(torch.softmax(scores, dim=-1) @ v)
        return self.attn.w_o(torch.cat(outputs, dim=-1))

    def forward(self, x, key_mask=None):
        attended = x + self.attend(self.norm1(x), key_mask)
        return attended + self.mlp(self.norm2(attended))


class BlockByFunctions(UsualBlock):
    def forward(self, x, key_mask=None):
        for norm, layer in ((self.norm1, partial(self.attn, key_mask=key_mask)), (self.norm2, self.mlp)):
            x = x + layer(F.layer_norm(x, (x.shape[-1],), norm.weight, norm.bias, 1e-5))
        return x


def _block_with(perceptron):
    """The usual block with another MLP."""

    class Block(UsualBlock):
        def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
            super().__init__(d_model, num_heads, mlp_ratio, dropout)
            self.mlp = perceptron(d_model, int(d_model * mlp_ratio), dropout)

    return Block


class BlockWithBuffer(UsualBlock):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__(d_model, num_heads, mlp_ratio, dropout)
        self.register_buffer("unused", torch.zeros(3))


def make_block(d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
    return UsualBlock(d_model, num_heads, mlp_ratio, dropout)


BLOCKS = [UsualBlock, BlockFromScratch, FusedBlock, AdditiveMaskBlock, BlockByFunctions, BlockWithBuffer, make_block]
BLOCKS += [_block_with(perceptron) for perceptron in (FunctionalPerceptron, MatrixPerceptron, PerceptronByLoop)]


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`var_mean` reads x once for both numbers; correction=0 divides by d_model, not by d_model - 1."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt() * gain + bias


class AnotherEncoderBlock(find("EncoderBlock").reference):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Both halves say the same thing, x + f(norm(x)); only f differs."""
        attend = partial(self.attn, key_mask=key_mask)
        for norm, f in ((self.norm1, attend), (self.norm2, self.mlp)):
            x = x + f(norm(x))
        return x


class AnotherMend_encoder_block(find("mend_encoder_block").reference):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """The stream is a sum: the input, plus what attention adds, plus what the MLP adds to both."""
        attended = self.attn(self.norm1(x), key_mask=key_mask)
        x = x + attended + self.mlp(self.norm2(x + attended))
        return x


ALTERNATIVES = {
    "layer_norm": [
        layer_norm,
        norm_by_loop,
        norm_by_var,
        norm_by_moments,
        norm_by_einops,
        norm_by_std,
        norm_in_place,
        NormObject(),
        partial(_norm_with, -0.5),
        lambda x, gain, bias, eps=1e-5: torch.lerp(bias, bias + gain, norm_by_var(x, 1, 0, eps)),
    ],
    "EncoderBlock": [AnotherEncoderBlock, *BLOCKS],
    "mend_encoder_block": [AnotherMend_encoder_block, *BLOCKS],
}
