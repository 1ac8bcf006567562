"""Lesson 06: the programs whose lines `slips.md` replaces."""

import math

import einops
import torch
import torch.nn.functional as F
from torch import nn

import attnlib


def layer_norm(x, gain, bias, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, correction=0, keepdim=True)
    centred = x - mean
    normalised = centred / (variance + eps).sqrt()
    output = normalised * gain + bias
    return output


def mlp_by_hand(d, one, other, to):
    up, down = torch.zeros(2, d, d)
    steep = 20.0
    threshold = 1
    up[one, 0] = steep
    up[other, 0] = steep
    up[one, 1] = steep
    up[other, 1] = steep
    up[0, 1] = -threshold * steep
    down[0, to] = 1 / steep
    down[1, to] = -2 / steep
    return torch.stack([up, down])


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        d_head = d_model // num_heads
        width = num_heads * d_head
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, width)
        self.w_k = nn.Linear(d_model, width)
        self.w_v = nn.Linear(d_model, width)
        self.w_o = nn.Linear(width, d_model)

    def forward(self, x, memory=None, allowed=None):
        memory = x if memory is None else memory
        b, n, h = x.shape[0], x.shape[1], self.num_heads
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
        k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
        v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        empty = ~allowed.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~(allowed | empty), -math.inf).softmax(dim=-1).masked_fill(~allowed, 0.0)
        output = weights @ v
        joined = einops.rearrange(output, "b h n d -> b n (h d)")
        mixed = self.w_o(joined)
        return mixed


class FeedForward(nn.Module):
    def __init__(self, d_model, d_hidden, dropout):
        super().__init__()
        self.up = nn.Linear(d_model, d_hidden)
        self.down = nn.Linear(d_hidden, d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        wide = self.up(x)
        bent = F.gelu(wide)
        kept = self.drop(bent)
        narrow = self.down(kept)
        result = self.drop(narrow)
        return result


class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        d_hidden = int(d_model * mlp_ratio)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.mlp = FeedForward(d_model, d_hidden, dropout)

    def forward(self, x, key_mask=None):
        everything = torch.ones(1, 1, dtype=torch.bool, device=x.device)
        allowed = everything if key_mask is None else key_mask[:, None, None, :]
        normed = self.norm1(x)
        found = self.attn(normed, allowed=allowed)
        stream = x + found
        ready = self.norm2(stream)
        thought = self.mlp(ready)
        total = stream + thought
        return total


class mend_encoder_block(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x, key_mask=None):
        everything = torch.ones(1, 1, dtype=torch.bool, device=x.device)
        allowed = everything if key_mask is None else key_mask[:, None, None, :]
        normed = self.norm1(x)
        found = self.attn(normed, mask=allowed)
        stream = x + found
        ready = self.norm2(stream)
        thought = self.mlp(ready)
        total = stream + thought
        return total


class DigitReader(nn.Module):
    def __init__(self, side, patch, d_model, num_heads, depth, dropout=0.0):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch**2, d_model)
        self.positions = nn.Parameter(torch.randn((side // patch) ** 2, d_model))
        self.blocks = nn.ModuleList(
            attnlib.EncoderBlock(d_model, num_heads, mlp_ratio=2.0, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, 10)

    def forward(self, images):
        p = self.patch
        patches = einops.rearrange(images, "b (row p) (column q) -> b (row column) (p q)", p=p, q=p)
        x = self.embed(patches) + self.positions
        for block in self.blocks:
            x = block(x)
        words = self.norm(x)
        image = words.mean(dim=1)
        logits = self.head(image)
        return logits


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        d_head = d_model // num_heads
        width = num_heads * d_head
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, width)
        self.w_k = nn.Linear(d_model, width)
        self.w_v = nn.Linear(d_model, width)
        self.w_o = nn.Linear(width, d_model)

    def forward(self, x, allowed):
        b, n, h = x.shape[0], x.shape[1], self.num_heads
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
        k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
        v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        empty = ~allowed.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~(allowed | empty), -math.inf).softmax(dim=-1).masked_fill(~allowed, 0.0)
        output = weights @ v
        joined = einops.rearrange(output, "b h n d -> b n (h d)")
        mixed = self.w_o(joined)
        return mixed


class PostNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0):
        super().__init__()
        d_hidden = int(d_model * mlp_ratio)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, d_hidden)

    def forward(self, x, key_mask=None):
        everything = torch.ones(1, 1, dtype=torch.bool, device=x.device)
        allowed = everything if key_mask is None else key_mask[:, None, None, :]
        found = self.attn(x, allowed)
        first = self.norm1(x + found)
        thought = self.mlp(first)
        second = self.norm2(first + thought)
        return second


def block_cost(lengths, d_model, num_heads, d_hidden):
    head_width = d_model // num_heads
    projections = 4 * d_model**2
    mlp = 2 * d_model * d_hidden
    one_word = projections + mlp
    word_by_word = one_word * lengths
    between_words = 2 * num_heads * head_width * lengths**2
    tables = num_heads * lengths**2
    return word_by_word, between_words, tables
