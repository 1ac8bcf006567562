"""Lesson 07: the programs whose lines `slips.md` replaces."""

import math

import torch
import torch.nn.functional as F

import attnlib


def sinusoidal_positions(n, d_model, base=10000.0):
    columns = torch.arange(0, d_model, 2, dtype=torch.float64)
    exponents = columns / d_model
    speeds = base**-exponents
    positions = torch.arange(n, dtype=torch.float64)
    angles = positions[..., None] * speeds
    table = torch.zeros(n, d_model)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : d_model // 2]
    return table


def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"d must be even, got {d}")
    columns = torch.arange(0, d, 2, dtype=torch.float64, device=x.device)
    exponents = columns / d
    speeds = base**-exponents
    positions = positions.double()
    angles = positions[..., None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned_first = first * cos - second * sin
    turned_second = first * sin + second * cos
    return torch.stack([turned_first, turned_second], dim=-1).flatten(-2)


def alibi_bias(num_heads, q_len, k_len):
    below = 2 ** math.floor(math.log2(num_heads))
    i = torch.arange(1, below + 1)
    series = 2.0 ** (-8 * i / below)
    longer = 2.0 ** (-8 * torch.arange(1, 2 * below + 1) / (2 * below))
    slopes = torch.cat([series, longer[0::2]])[:num_heads]
    queries = torch.arange(k_len - q_len, k_len)
    keys = torch.arange(k_len)
    distance = queries[:, None] - keys
    return -slopes[:, None, None] * distance


def mend_rotary(q, k, v, past_k, past_v):
    m = past_k.shape[-2]
    positions = torch.arange(m, m + q.shape[-2], device=q.device)
    queries = attnlib.rotate(q, positions)
    keys = torch.cat([past_k, attnlib.rotate(k, positions)], dim=-2)
    values = torch.cat([past_v, v], dim=-2)
    products = queries @ keys.mT
    scores = products / math.sqrt(q.shape[-1])
    allowed = attnlib.causal_mask(q.shape[-2], keys.shape[-2], device=q.device)
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
    return weights @ values


def train_with_warmup(model, ids, targets, lr, warmup, make=torch.optim.SGD):
    optimiser = make(model.parameters(), lr=lr)
    steps, m = len(ids), targets.shape[-1]
    losses = []
    for step in range(steps):
        rise = min(1.0, (step + 1) / warmup)
        fall = 1 - step / steps
        rate = lr * rise * fall
        for group in optimiser.param_groups:
            group["lr"] = rate
        logits = model(ids[step])
        compared = logits[:, -m:]
        loss = F.cross_entropy(compared.flatten(0, 1), targets[step].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def read_in_windows(model, ids, window):
    losses = []
    with torch.no_grad():
        for i in range(1, ids.shape[1]):
            start = max(0, i - window)
            seen = ids[:, start:i]
            logits = model(seen)[:, -1]
            loss = F.cross_entropy(logits, ids[:, i])
            losses.append(loss)
    return torch.stack(losses)
