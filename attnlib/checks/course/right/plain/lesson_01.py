"""Lesson 01: the programs whose lines `slips.md` replaces."""

import torch
from torch import nn


def recurrent_states(x, w):
    words = x.unbind(dim=1)
    state = x.new_zeros(len(x), x.shape[-1])
    states = []
    for word in words:
        product = state @ w
        state = torch.tanh(product + word)
        states.append(state)
    return torch.stack(states, dim=1)


def company(texts, vocabulary, window):
    counts = torch.zeros(vocabulary, vocabulary)
    for text in texts.tolist():
        for i, word in enumerate(text):
            start = max(0, i - window)
            stop = min(len(text), i + window + 1)
            places = [j for j in range(start, stop) if j != i]
            for j in places:
                counts[word, text[j]] += 1
    often = counts.sum(dim=1)
    by_chance = often[:, None] * often / counts.sum()
    ratio = counts / by_chance
    logarithms = torch.where(counts > 0, ratio.log(), 0.0)
    return logarithms.clamp(min=0)


def project_qkv(x, w_q, w_k, w_v):
    d_k, d_v = w_q.shape[1], w_v.shape[1]
    w_qkv = torch.cat([w_q, w_k, w_v], dim=1)
    fused = x @ w_qkv
    q, k, v = fused.split([d_k, d_k, d_v], dim=-1)
    return q, k, v


class QKVProjection(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)

    def forward(self, x):
        q = self.w_q(x)
        k = self.w_k(x)
        v = self.w_v(x)
        return q, k, v


def fold_query_key(w_q, b_q, w_k, b_k):
    m = w_q @ w_k.T
    u = w_k @ b_q
    return m, u
