"""Lesson 10: the programs whose lines `slips.md` replaces."""

import math

import torch


def online_softmax(blocks):
    highest = None
    for block in blocks:
        if highest is None:
            highest = torch.full_like(block[..., 0], -torch.inf)
            total = torch.zeros_like(highest)
        new = torch.maximum(highest, block.amax(dim=-1))
        base = new.masked_fill(new == -torch.inf, 0.0)
        shrink = (highest - base).exp()
        powers = (block - base[..., None]).exp()
        total = shrink * total + powers.sum(dim=-1)
        highest = new
    return highest, total


def mend_online(scores, v, block_size):
    highest = torch.full_like(scores[..., 0], -torch.inf)
    total = torch.zeros_like(highest)
    output = torch.zeros_like(v[..., 0, :])
    for start in range(0, scores.shape[-1], block_size):
        block = scores[..., start : start + block_size]
        values = v[..., start : start + block_size, :]
        new = torch.maximum(highest, block.amax(dim=-1))
        base = new.masked_fill(new == -torch.inf, 0.0)
        shrink = (highest - base).exp()
        powers = (block - base[..., None]).exp()
        mixed = (powers[..., None] * values).sum(dim=-2)
        total = shrink * total + powers.sum(dim=-1)
        output = shrink[..., None] * output + mixed
        highest = new
    return output / total[..., None]


def merge(o1, m1, l1, o2, m2, l2):
    m = torch.maximum(m1, m2)
    base = m.masked_fill(m == -torch.inf, 0.0)
    first = (m1 - base).exp()
    second = (m2 - base).exp()
    total = first * l1 + second * l2
    output = first[..., None] * o1 + second[..., None] * o2
    return output, m, total


def flash_attention(q, k, v, block_size, is_causal):
    n = q.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    outputs, sums = [], []
    for start in range(0, n, block_size):
        rows = slice(start, min(start + block_size, n))
        output = torch.zeros_like(v[..., rows, :])
        highest = torch.full_like(output[..., 0], -torch.inf)
        total = torch.zeros_like(highest)
        for begin in range(0, n, block_size):
            columns = slice(begin, min(begin + block_size, n))
            if is_causal and columns.start >= rows.stop:
                continue
            products = q[..., rows, :] @ k[..., columns, :].mT
            block = products * scale
            if is_causal:
                i = torch.arange(rows.start, rows.stop, device=q.device)
                j = torch.arange(columns.start, columns.stop, device=q.device)
                block = block.masked_fill(i[:, None] < j, -torch.inf)
            new = torch.maximum(highest, block.amax(dim=-1))
            base = new.masked_fill(new == -torch.inf, 0.0)
            shrink = (highest - base).exp()
            powers = (block - base[..., None]).exp()
            mixed = powers @ v[..., columns, :]
            total = shrink * total + powers.sum(dim=-1)
            output = shrink[..., None] * output + mixed
            highest = new
        outputs.append(output / total[..., None])
        sums.append(highest + total.log())
    output, lse = torch.cat(outputs, dim=-2), torch.cat(sums, dim=-1)
    return output, lse


def softmax_gradient(weights, grad_weights):
    products = weights * grad_weights
    shared = products.sum(dim=-1, keepdim=True)
    grad_scores = weights * (grad_weights - shared)
    return grad_scores


def flash_backward(q, k, v, o, lse, grad_o, block_size, is_causal):
    n = q.shape[-2]
    scale = 1 / math.sqrt(q.shape[-1])
    along = (grad_o * o).sum(dim=-1)
    grad_q, grad_k, grad_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for start in range(0, n, block_size):
        rows = slice(start, min(start + block_size, n))
        for begin in range(0, n, block_size):
            columns = slice(begin, min(begin + block_size, n))
            if is_causal and columns.start >= rows.stop:
                continue
            products = q[..., rows, :] @ k[..., columns, :].mT
            block = products * scale
            if is_causal:
                i = torch.arange(rows.start, rows.stop, device=q.device)
                j = torch.arange(columns.start, columns.stop, device=q.device)
                block = block.masked_fill(i[:, None] < j, -torch.inf)
            weights = (block - lse[..., rows, None]).exp()
            d_weights = grad_o[..., rows, :] @ v[..., columns, :].mT
            d_block = weights * (d_weights - along[..., rows, None])
            grad_q[..., rows, :] += d_block @ k[..., columns, :]
            grad_k[..., columns, :] += d_block.mT @ q[..., rows, :]
            grad_v[..., columns, :] += weights.mT @ grad_o[..., rows, :]
    return scale * grad_q, scale * grad_k, grad_v
