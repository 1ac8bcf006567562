"""Lesson 04: the programs whose lines `slips.md` replaces."""

import math

import einops
import torch
import torch.nn.functional as F
from torch import nn


def train_reader(reader, ids, wanted, rate):
    steps = len(ids)
    optimiser = torch.optim.AdamW(reader.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps)
    losses = []
    for texts, characters in zip(ids, wanted):
        logits, _ = reader(texts)
        loss = F.cross_entropy(logits.flatten(0, 1), characters.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def write_greedily(model, memory, start_id, stop_id, longest):
    ids = torch.full((len(memory), 1), start_id, device=memory.device)
    ended = torch.zeros(len(memory), dtype=torch.bool, device=memory.device)
    total = torch.zeros(len(memory), dtype=memory.dtype, device=memory.device)
    for _ in range(longest):
        with torch.no_grad():
            logits = model(memory, ids)
        last = logits[:, -1]
        log_p = last.log_softmax(dim=-1)
        best, new = log_p.max(dim=-1)
        new = new.masked_fill(ended, stop_id)
        total = total + best.masked_fill(ended, 0.0)
        ended = ended | (new == stop_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if ended.all():
            break
    written = ids[:, 1:]
    return written, total


def cross_attention(x, memory, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


class MultiHeadCrossAttention(nn.Module):
    def __init__(self, d_model, d_memory, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        d_head = d_head or d_model // num_heads
        width = num_heads * d_head
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_memory, width, bias=bias)
        self.w_v = nn.Linear(d_memory, width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def forward(self, x, memory, key_mask=None):
        b, n, h = x.shape[0], x.shape[1], self.num_heads
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
        k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
        v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        everything = torch.ones(memory.shape[:2], dtype=torch.bool, device=memory.device)
        real = everything if key_mask is None else key_mask
        allowed = real[:, None, None, :]
        masked = scores.masked_fill(~allowed, -math.inf)
        weights = masked.softmax(dim=-1)
        output = weights @ v
        joined = einops.rearrange(output, "b h n d -> b n (h d)")
        mixed = self.w_o(joined)
        return mixed, weights


def mend_decoder_attention(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    allowed = memory_is_real[:, None, :]
    masked = scores.masked_fill(~allowed, -math.inf)
    weights = masked.softmax(dim=-1)
    output = weights @ v
    return output, weights
