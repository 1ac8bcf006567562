"""Row 10: causal weights two ways. Both are equal; the first leaks nothing only because it renormalises."""

import torch
from torch import Tensor


def softmax_then_renormalise(scores: Tensor, d_k: int) -> Tensor:  # (n, n)
    attn_weights = torch.softmax(scores / d_k**0.5, dim=-1)
    masked_simple = attn_weights * torch.tril(torch.ones_like(scores))
    return masked_simple / masked_simple.sum(dim=-1, keepdim=True)


def fill_then_softmax(scores: Tensor, d_k: int) -> Tensor:
    future = torch.triu(torch.ones_like(scores), diagonal=1).bool()
    return torch.softmax(scores.masked_fill(future, -torch.inf) / d_k**0.5, dim=-1)
