"""Lesson 03: the programs whose lines `slips.md` replaces."""

import math

import einops
import torch
from torch import nn


def two_heads_by_hand(n, who, whom):
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n)
    score = 10 * math.sqrt(n)
    asks = n - 1
    first = who
    second = whom
    w_q[asks, 0] = score
    w_q[asks, n] = score
    w_k[first, 0] = 1
    w_k[second, n] = 1
    w_v[n:, :n] = torch.eye(n)
    w_v[n:, n:] = torch.eye(n)
    w_o = torch.eye(2 * n)
    return torch.stack([w_q, w_k, w_v, w_o])


def split_heads(x, num_heads):
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not divide a width of {x.shape[-1]}")
    b, n, width = x.shape
    split = x.reshape(b, n, num_heads, width // num_heads).transpose(1, 2)
    return split


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        d_head = d_head or d_model // num_heads
        width = num_heads * d_head
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_model, width, bias=bias)
        self.w_v = nn.Linear(d_model, width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def forward(self, x):
        b, n, h = x.shape[0], x.shape[1], self.num_heads
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
        k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
        v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        output = weights @ v
        joined = einops.rearrange(output, "b h n d -> b n (h d)")
        mixed = self.w_o(joined)
        return mixed, weights


def train_with_adam(model, words, wanted, position, lr):
    beta1, beta2 = 0.9, 0.999
    weights = [*model.parameters()]
    means = [torch.zeros_like(w) for w in weights]
    squares = [torch.zeros_like(w) for w in weights]
    losses = []
    for step, (x, target) in enumerate(zip(words, wanted), 1):
        output = model(x)[0]
        error = output[:, position] - target
        loss = error.square().mean()
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for i, w in enumerate(weights):
                means[i] = beta1 * means[i] + (1 - beta1) * w.grad
                squares[i] = beta2 * squares[i] + (1 - beta2) * w.grad.square()
                mean = means[i] / (1 - beta1**step)
                square = squares[i] / (1 - beta2**step)
                update = mean / (square.sqrt() + 1e-8)
                w -= lr * update
        losses.append(loss.detach())
    return torch.stack(losses)


def head_contributions(x, w_q, w_k, w_v, w_o, num_heads):
    b, n, h = x.shape[0], x.shape[1], num_heads
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
    k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
    v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    rows = einops.rearrange(w_o, "(h d) m -> h d m", h=h)
    added = output @ rows
    return added


def mend_multi_head(x, w_q, w_k, w_v, w_o, num_heads):
    b, n, h = x.shape[0], x.shape[1], num_heads
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
    k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
    v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    joined = einops.rearrange(output, "b h n d -> b n (h d)")
    mixed = joined @ w_o
    return mixed, weights


def from_packed(weight, packing, num_heads):
    names = packing.strip("()").split()
    sizes = {"3": 3, "h": num_heads, "d": len(weight) // (3 * num_heads)}
    cut = weight.reshape(*[sizes[name] for name in names], -1)
    parts = cut.permute(*[names.index(name) for name in ("3", "h", "d")], 3)
    w_q, w_k, w_v = parts.reshape(3, len(weight) // 3, -1)
    return w_q, w_k, w_v
