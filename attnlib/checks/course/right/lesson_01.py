"""Right answers of lesson 01, written in other ways."""

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

from attnlib.checks.course import find


def project_by_loop(x, *matrices):
    return tuple(torch.stack([torch.stack([token @ w for token in sentence]) for sentence in x]) for w in matrices)


def project_concatenated(x, w_q, w_k, w_v):
    return torch.split(x @ torch.cat([w_q, w_k, w_v], dim=1), [w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1)


class AnotherOrder(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_v = nn.Linear(d_model, d_v, bias)
        self.w_k = nn.Linear(d_model, d_k, bias)
        self.w_q = nn.Linear(d_model, d_k, bias)
        self.register_buffer("unused", torch.zeros(3))

    def forward(self, x):
        return self.w_q(x), self.w_k(x), self.w_v(x)


class Fused(AnotherOrder):
    def forward(self, x):
        layers = (self.w_q, self.w_k, self.w_v)
        bias = None if self.w_q.bias is None else torch.cat([layer.bias for layer in layers])
        packed = F.linear(x, torch.cat([layer.weight for layer in layers]), bias)
        return packed.split([layer.out_features for layer in layers], dim=-1)


class ByEinsum(AnotherOrder):
    def project(self, layer, x):
        product = einsum(x, layer.weight, "b n i, o i -> b n o")
        return product if layer.bias is None else product + layer.bias

    def forward(self, x):
        return [self.project(layer, x) for layer in (self.w_q, self.w_k, self.w_v)]


class InADictionary(nn.Module):
    def __init__(self, d_model: int, d_k: int, d_v: int, bias: bool = True) -> None:
        super().__init__()
        for name, width in {"w_q": d_k, "w_k": d_k, "w_v": d_v}.items():
            setattr(self, name, nn.Linear(d_model, width, bias=bias))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(getattr(self, name)(x) for name in ("w_q", "w_k", "w_v"))


def made_by_a_function(d_model, d_k, d_v, bias=True):
    return InADictionary(d_model, d_k, d_v, bias)


def project_by_one_rearrange(x, w_q, w_k, w_v):
    packed = x @ torch.cat([w_q, w_k, w_v], dim=-1)
    q_and_k, v = packed.tensor_split([2 * w_q.shape[1]], dim=-1)
    q, k = rearrange(q_and_k, "b n (two d) -> two b n d", two=2)
    return q, k, v


def project_by_slices(x, w_q, w_k, w_v):
    d_k = w_k.size(-1)
    fused = F.linear(x, torch.cat((w_q.T, w_k.T, w_v.T)))
    return [fused[..., :d_k], fused[..., d_k : 2 * d_k], fused[..., 2 * d_k :]]


def fold_by_loop(w_q, b_q, w_k, b_k):
    m = torch.stack([torch.stack([(asks * answers).sum() for answers in w_k]) for asks in w_q])
    return m, torch.stack([(b_q * answers).sum() for answers in w_k])


def fold_by_padding(w_q, b_q, w_k, b_k):
    """The bias as one more row, for a word that is always 1."""
    both = torch.cat([w_q, b_q[None]]) @ w_k.T
    return both[:-1], both[-1]


def project_qkv(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    """Three products give the same numbers: a column of the result depends on one column of the matrices alone."""
    return x @ w_q, x @ w_k, x @ w_v


class AnotherQKVProjection(find("QKVProjection").reference):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """nn.Linear stores its weight as (out, in): calling it is a product with the transpose, plus the bias."""
        layers = (self.w_q, self.w_k, self.w_v)
        return tuple(x @ w.weight.mT + (0 if w.bias is None else w.bias) for w in layers)


def fold_query_key(w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> tuple[Tensor, Tensor]:
    """A bias is one more row of the matrix, for an input that is always 1: fold all rows, and u is the last one."""
    folded = torch.cat([w_q, b_q[None]]) @ w_k.mT
    return folded[:-1], folded[-1]


ALTERNATIVES = {
    "fold_query_key": [
        fold_query_key,
        fold_by_loop,
        fold_by_padding,
        lambda w_q, b_q, w_k, b_k: (w_q @ w_k.T, b_q @ w_k.T),
        lambda w_q, b_q, w_k, b_k: (torch.einsum("md,nd->mn", w_q, w_k), torch.einsum("nd,d->n", w_k, b_q)),
        lambda w_q, b_q, w_k, b_k: (F.linear(w_q, w_k), F.linear(b_q, w_k)),
        lambda w_q, b_q, w_k, b_k: [(w_k @ w_q.T).T, (w_k * b_q).sum(dim=1)],
    ],
    "project_qkv": [
        project_qkv,
        project_by_loop,
        project_concatenated,
        project_by_one_rearrange,
        project_by_slices,
        lambda x, w_q, w_k, w_v: [x @ w_q, x @ w_k, x @ w_v],
        lambda x, *ws: tuple(torch.einsum("bnm,md->bnd", x, w) for w in ws),
        lambda x, *ws: tuple(einsum(x, w, "b n d_model, d_model d -> b n d") for w in ws),
        lambda x, *ws: tuple(F.linear(x, w.T) for w in ws),
        lambda x, *ws: tuple(torch.tensordot(x, w, dims=1) for w in ws),
        lambda x, *ws: tuple((x.unsqueeze(-1) * w).sum(-2) for w in ws),
    ],
    "QKVProjection": [AnotherQKVProjection, AnotherOrder, Fused, ByEinsum, InADictionary, made_by_a_function],
}
