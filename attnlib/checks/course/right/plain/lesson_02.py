"""Lesson 02: the programs whose lines `slips.md` replaces."""

import math

import torch
from torch import nn


def write_matrices(features):
    looks_for = {"pronoun": "alive", "state": "alive", "action": "place", "article": "thing"}
    w_q = torch.zeros(len(features), len(features))
    strength = 16.0
    for asks, wanted in looks_for.items():
        w_q[features.index(asks), features.index(wanted)] = strength
    w_k = torch.eye(len(features))
    return torch.stack([w_q, w_k])


def attention_scores(q, k):
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    return scores


def softmax(scores):
    highest = scores.amax(dim=-1, keepdim=True)
    shifted = scores - highest
    powers = shifted.exp()
    sums = powers.sum(dim=-1, keepdim=True)
    shares = powers / sums
    return shares


def scaled_dot_product_attention(q, k, v):
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x):
        q, k, v = self.w_q(x), self.w_k(x), self.w_v(x)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        output = weights @ v
        return output, weights


def train_head(words, wanted, position, w_q, w_k, w_v, lr):
    trained = [w.detach().clone().requires_grad_() for w in (w_q, w_k, w_v)]
    optimiser = torch.optim.SGD(trained, lr=lr)

    def loss_of(x, target):
        q, k, v = (x @ w for w in trained)
        products = q @ k.mT
        scores = products / math.sqrt(q.shape[-1])
        weights = scores.softmax(dim=-1)
        output = weights @ v
        error = output[:, position] - target
        return error.square().mean()

    losses = []
    for x, target in zip(words, wanted):
        loss = loss_of(x, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    trained_q, trained_k, trained_v = (w.detach() for w in trained)
    return torch.stack(losses), trained_q, trained_k, trained_v


def mend_self_attention(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output, weights


class AdditiveAttention(nn.Module):
    def __init__(self, d_q, d_k, d_hidden):
        super().__init__()
        self.w_1 = nn.Linear(d_q, d_hidden, bias=False)
        self.w_2 = nn.Linear(d_k, d_hidden, bias=False)
        self.u = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q, k, v):
        asks, answers = self.w_1(q), self.w_2(k)
        met = asks.unsqueeze(-2) + answers.unsqueeze(-3)
        judged = self.u(met.tanh())
        scores = judged.squeeze(-1)
        weights = scores.softmax(dim=-1)
        output = weights @ v
        return output, weights
