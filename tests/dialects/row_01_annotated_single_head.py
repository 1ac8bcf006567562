"""Row 1: one head as wide as the model, so the scale is the root of the full width; no output projection."""

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:  # (b, n, dim)
        scores = torch.bmm(self.query(x), self.key(x).transpose(1, 2)) / math.sqrt(self.dim)
        return torch.bmm(scores.softmax(dim=-1), self.value(x))
