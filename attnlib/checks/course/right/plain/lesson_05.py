"""Lesson 05: the programs whose lines `slips.md` replaces."""

import math

import einops
import torch
import torch.nn.functional as F
from torch import nn


def causal_mask(q_len, k_len, window=None):
    shift = k_len - q_len
    past = torch.ones(q_len, k_len, dtype=torch.bool).tril(shift)
    mask = past if window is None else past.triu(shift - window + 1)
    return mask


def renormalised_causal_weights(scores):
    q_len, k_len = scores.shape[-2:]
    shift = k_len - q_len
    past = torch.ones(q_len, k_len, dtype=torch.bool, device=scores.device).tril(shift)
    weights = scores.softmax(dim=-1)
    kept = weights * past
    total = kept.sum(dim=-1, keepdim=True)
    return kept / total


def masked_softmax(scores, mask):
    allowed = mask
    empty = ~allowed.any(dim=-1, keepdim=True)
    masked = scores.masked_fill(~(allowed | empty), -math.inf)
    weights = masked.softmax(dim=-1).masked_fill(~allowed, 0.0)
    return weights


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide a width of {d_model}")
        d_head = d_model // num_heads
        width = num_heads * d_head
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_model, width, bias=bias)
        self.w_v = nn.Linear(d_model, width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def forward(self, x, key_mask=None):
        b, n, h = x.shape[0], x.shape[1], self.num_heads
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
        k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
        v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        past = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        allowed = past if key_mask is None else past & key_mask[:, None, None, :]
        empty = ~allowed.any(dim=-1, keepdim=True)
        masked = scores.masked_fill(~(allowed | empty), -math.inf)
        weights = masked.softmax(dim=-1).masked_fill(~allowed, 0.0)
        output = weights @ v
        joined = einops.rearrange(output, "b h n d -> b n (h d)")
        mixed = self.w_o(joined)
        return mixed, weights


def mend_padded_causal_weights(scores, real):
    n = scores.shape[-1]
    past = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril()
    allowed = past & real[:, None, None, :]
    empty = ~allowed.any(dim=-1, keepdim=True)
    masked = scores.masked_fill(~(allowed | empty), -math.inf)
    weights = masked.softmax(dim=-1).masked_fill(~allowed, 0.0)
    return weights


def packed_causal(ids):
    n = ids.shape[1]
    place = torch.arange(n, device=ids.device).expand_as(ids)
    real = ids != -1
    begins = (place == 0) | F.pad(ids[:, 1:] != ids[:, :-1], (1, 0))
    text = begins.cumsum(dim=1)
    same = text[:, :, None] == text[:, None, :]
    past = torch.ones(n, n, dtype=torch.bool, device=ids.device).tril()
    mask = same & past & real[:, :, None]
    start = (place * begins).cummax(dim=1).values
    positions = (place - start) * real
    return mask, positions


def reach(model, ids, vocab):
    n = len(ids)
    with torch.no_grad():
        before = model(ids[None])[0]
        found = torch.zeros(n, n, dtype=torch.bool, device=ids.device)
        for j in range(n):
            changed = ids.clone()
            changed[j] = (ids[j] + 1) % vocab
            after = model(changed[None])[0]
            difference = (after - before).abs().amax(dim=-1)
            found[:, j] = difference > 1e-5
    return found


def invent_control(vocab, shape, generator):
    texts = torch.randint(vocab, shape, generator=generator)
    shares = torch.full((vocab,), 1 / vocab)
    floor = -(shares * shares.log()).sum()
    return texts, floor


def train_writer(model, excerpts, rates, make=torch.optim.SGD):
    model.train()
    optimiser = make(model.parameters(), lr=1.0)
    losses = []
    for excerpt, rate in zip(excerpts, rates.tolist()):
        read, wanted = excerpt[:, :-1], excerpt[:, 1:]
        logits = model(read)
        loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def losses_by_place(model, excerpts):
    n = excerpts.shape[1] - 1
    with torch.no_grad():
        logits = model(excerpts[:, :-1])
        each = F.cross_entropy(logits.mT, excerpts[:, 1:], reduction="none")
        training = each.mean(dim=0)
        writing = []
        for t in range(n):
            guess = model(excerpts[:, : t + 1])[:, -1]
            writing.append(F.cross_entropy(guess, excerpts[:, t + 1]))
    return training, torch.stack(writing)
