"""Lesson 11: the programs whose lines `slips.md` replaces."""

import torch
import torch.nn.functional as F


def induction_by_hand(vocab, n):
    width = 3 * vocab + n
    matrices = torch.zeros(4, width, width)
    qk_0, ov_0, qk_1, ov_1 = matrices
    token, before, guess = (slice(i * vocab, (i + 1) * vocab) for i in range(3))
    position = slice(3 * vocab, width)
    sharp = 100.0
    one_back = torch.ones(n - 1).diag(-1)
    qk_0[position, position] = sharp * one_back
    ov_0[token, before] = torch.eye(vocab)
    qk_1[token, before] = sharp * torch.eye(vocab)
    ov_1[token, guess] = torch.eye(vocab)
    return matrices


def train_and_film(model, batches, lr, every, make=torch.optim.AdamW):
    optimiser = make(model.parameters(), lr=lr)
    shoot = lambda: torch.cat([weight.detach().flatten() for weight in model.parameters()])
    losses, frames = [], [shoot()]
    for step, ids in enumerate(batches, start=1):
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].mT, ids[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        if step % every == 0:
            frames.append(shoot())
    return torch.stack(losses), torch.stack(frames)


def find_heads(model, ids, period):
    _, layers = model(ids, return_weights=True)
    weights = torch.stack(layers).mean(dim=1)
    n, h = weights.shape[-1], weights.shape[1]
    allowed = torch.ones(n, n, dtype=weights.dtype).tril()
    even = allowed / allowed.sum(dim=-1, keepdim=True)

    def detect(table):
        back = table.diagonal(-1, dim1=-2, dim2=-1)[..., 1:]
        copy = table.diagonal(1 - period, dim1=-2, dim2=-1)[..., 2:]
        rest = table[..., 2 : period + 1, 0]
        return torch.stack([back.mean(dim=-1), copy.mean(dim=-1), rest.mean(dim=-1)])

    scores = detect(weights)
    baseline = detect(even)
    flat = scores.flatten(1).argmax(dim=-1)
    best = torch.stack([flat // h, flat % h], dim=-1)
    return scores, baseline, best


def break_repeats(ids, period):
    bos, tokens = ids[:, :1], ids[:, 1:]
    order = torch.rand(tokens.shape).argsort(dim=-1)
    control = tokens.gather(1, order)
    return torch.cat([bos, control], dim=1)


def ablate_head(model, ids, layer, head, mean=False):
    attention = model.layers[layer]
    d_head = attention.w_o.in_features // attention.num_heads
    own = slice(head * d_head, (head + 1) * d_head)

    def ablate(_, inputs):
        merged = inputs[0].clone()
        part = merged[..., own]
        merged[..., own] = part.mean(dim=(0, 1)) if mean else 0.0
        return merged

    handles = [attention.w_o.register_forward_pre_hook(ablate)]
    try:
        logits = model(ids)
    finally:
        for handle in handles:
            handle.remove()
    return logits


def ov_circuit(model, layer, head):
    attention = model.layers[layer]
    d_head = attention.w_o.in_features // attention.num_heads
    own = slice(head * d_head, (head + 1) * d_head)
    w_v = attention.w_v.weight[own].T
    w_o = attention.w_o.weight[:, own].T
    values = model.embed.weight @ w_v
    written = values @ w_o
    circuit = written @ model.unembed.weight.T
    return circuit


def path_patch(model, ids, other, head):
    attention, reader = model.layers[0], model.layers[1]
    d_head = attention.w_o.in_features // attention.num_heads
    own = slice(head * d_head, (head + 1) * d_head)
    w_o = attention.w_o.weight[:, own].T

    def heads_on(sentences):
        read = []
        recorder = attention.w_o.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
        try:
            model(sentences)
        finally:
            recorder.remove()
        return read[0]

    here, there = heads_on(ids), heads_on(other)
    old, new = here[..., own] @ w_o, there[..., own] @ w_o

    def patch(_, inputs):
        stream = inputs[0]
        return stream - old + new

    handles = [reader.w_k.register_forward_pre_hook(patch)]
    try:
        logits = model(ids)
    finally:
        for handle in handles:
            handle.remove()
    return logits
