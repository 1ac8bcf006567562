"""Right answers of lesson 00, written in other ways."""

import sys
from functools import partial

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn


def loops(x: Tensor, y: Tensor) -> Tensor:
    result = x.new_zeros(x.shape[0], x.shape[1], y.shape[1])
    for b in range(x.shape[0]):
        for q in range(x.shape[1]):
            for k in range(y.shape[1]):
                for d in range(x.shape[2]):
                    result[b, q, k] = result[b, q, k] + x[b, q, d] * y[b, k, d]
    return result


def stacked(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([torch.stack([F.linear(row, other) for row in one]) for one, other in zip(x, y, strict=True)])


def noisy(x, y):
    print("x is", x.shape)
    print("careful!", file=sys.stderr)
    return x @ y.mT


class Callable:
    def __call__(self, x, y):
        return torch.baddbmm(x.new_zeros(()), x, y.transpose(1, 2), beta=0)


class AsModule(nn.Module):
    def forward(self, x, y):
        return torch.matmul(x, rearrange(y, "b k d -> b d k"))


def closure():
    pattern = "bqd,bkd->bqk"

    def inner(*tensors):
        return torch.einsum(pattern, *tensors)

    return inner


def plain_python(x, y):
    products = [
        [[sum(a * b for a, b in zip(u, v, strict=True)) for v in ys] for u in xs] for xs, ys in zip(x, y, strict=True)
    ]
    return torch.stack([torch.stack([torch.stack(row) for row in block]) for block in products])


def squared_distances_in_full(x, y):
    return ((x.unsqueeze(2) - y.unsqueeze(1)) ** 2).sum(-1)


def squared_distances_by_polarisation(x, y):
    return (x * x).sum(-1, keepdim=True) - 2 * x @ y.mT + (y * y).sum(-1).unsqueeze(-2)


def pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
    """Broadcasting pairs every x with every y; einsum adds up the same products without holding them all in memory."""
    return (x[:, :, None] * y[:, None]).sum(dim=-1)


def mend_squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Subtract, then square: nothing to expand, but (b, q, k, d) numbers to hold instead of (b, q, k)."""
    return (x[:, :, None] - y[:, None]).square().sum(dim=-1)


ALTERNATIVES = {
    "pairwise_dot": [
        pairwise_dot,
        loops,
        stacked,
        noisy,
        Callable(),
        AsModule(),
        closure(),
        plain_python,
        partial(torch.einsum, "b q d, b k d -> b q k"),
        lambda x, y: einsum(x, y, "batch query width, batch key width -> batch query key"),
        lambda x, y: (x[:, :, None, :] * y[:, None, :, :]).sum(dim=3),
        lambda x, y: (y @ x.transpose(-1, -2)).transpose(-1, -2),
        lambda x, y: torch.bmm(x, y.permute(0, 2, 1)),
        lambda x, y: torch.vmap(lambda one, other: one @ other.T)(x, y),
        lambda x, y: (0.5 * ((x[:, :, None] + y[:, None]) ** 2 - (x[:, :, None] - y[:, None]) ** 2) / 2).sum(-1),
    ],
    "mend_squared_distances": [
        mend_squared_distances,
        squared_distances_in_full,
        squared_distances_by_polarisation,
        lambda x, y: torch.stack([(x - row.unsqueeze(1)).square().sum(-1) for row in y.unbind(1)], dim=-1),
        lambda x, y: torch.vmap(torch.vmap(lambda a, b: ((a - b) ** 2).sum(-1), in_dims=(0, None)))(x, y),
        lambda x, y: einsum((z := x[:, :, None] - y[:, None]), z, "b q k d, b q k d -> b q k"),
    ],
}
