"""Right answers of lesson 01, written in other ways."""

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn


def embed_by_loop(token_ids, table):
    return torch.stack([torch.stack([table[int(i)] for i in sentence]) for sentence in token_ids])


def embed_by_gather(ids, table):
    return table.gather(0, ids.reshape(-1, 1).expand(-1, table.shape[1])).reshape(*ids.shape, table.shape[1])


def project_by_loop(x, *matrices):
    return tuple(torch.stack([torch.stack([token @ w for token in sentence]) for sentence in x]) for w in matrices)


def project_concatenated(x, w_q, w_k, w_v):
    return torch.split(x @ torch.cat([w_q, w_k, w_v], dim=1), [w_q.shape[1], w_k.shape[1], w_v.shape[1]], dim=-1)


def cut_weights_first(x, w, d_k, d_v):
    return [x @ w[:, :d_k], x @ w[:, d_k : d_k + d_k], x @ w[:, -d_v:]]


def cut_by_index(x, w, d_k, d_v):
    packed = x.reshape(-1, x.shape[-1]).mm(w).reshape(*x.shape[:-1], w.shape[-1])
    q = packed.narrow(-1, 0, d_k)
    k = packed.index_select(-1, torch.arange(d_k, 2 * d_k, device=x.device))
    return q, k, packed[..., 2 * d_k : 2 * d_k + d_v]


def unpack_by_rearrange(x, w):
    return tuple(rearrange(x @ w, "b n (k d) -> k b n d", k=3))


def unpack_by_columns(x, w):
    d = w.shape[1] // 3
    return x @ w[:, :d], x @ w[:, d : 2 * d], x @ w[:, 2 * d :]


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


def fold_by_loop(w_q, b_q, w_k, b_k):
    m = torch.stack([torch.stack([(asks * answers).sum() for answers in w_k]) for asks in w_q])
    return m, torch.stack([(b_q * answers).sum() for answers in w_k])


def fold_by_padding(w_q, b_q, w_k, b_k):
    """The bias as one more row, for a word that is always 1."""
    both = torch.cat([w_q, b_q[None]]) @ w_k.T
    return both[:-1], both[-1]


ALTERNATIVES = {
    "fold_query_key": [
        fold_by_loop,
        fold_by_padding,
        lambda w_q, b_q, w_k, b_k: (w_q @ w_k.T, b_q @ w_k.T),
        lambda w_q, b_q, w_k, b_k: (torch.einsum("md,nd->mn", w_q, w_k), torch.einsum("nd,d->n", w_k, b_q)),
        lambda w_q, b_q, w_k, b_k: (F.linear(w_q, w_k), F.linear(b_q, w_k)),
        lambda w_q, b_q, w_k, b_k: [(w_k @ w_q.T).T, (w_k * b_q).sum(dim=1)],
    ],
    "embed": [
        embed_by_loop,
        embed_by_gather,
        lambda ids, table: table[ids],
        lambda ids, table: F.embedding(ids, table),
        lambda ids, table: F.one_hot(ids, len(table)).to(table.dtype) @ table,
        lambda ids, table: table.index_select(0, ids.flatten()).unflatten(0, ids.shape),
        lambda ids, table: torch.take_along_dim(table, ids.reshape(-1, 1), dim=0).reshape(*ids.shape, -1),
        lambda ids, table: (
            nn.Embedding.from_pretrained(table, freeze=False)(ids) if not table.requires_grad else table[ids]
        ),
    ],
    "project_qkv": [
        project_by_loop,
        project_concatenated,
        lambda x, w_q, w_k, w_v: [x @ w_q, x @ w_k, x @ w_v],
        lambda x, *ws: tuple(torch.einsum("bnm,md->bnd", x, w) for w in ws),
        lambda x, *ws: tuple(einsum(x, w, "b n d_model, d_model d -> b n d") for w in ws),
        lambda x, *ws: tuple(F.linear(x, w.T) for w in ws),
        lambda x, *ws: tuple(torch.tensordot(x, w, dims=1) for w in ws),
        lambda x, *ws: tuple((x.unsqueeze(-1) * w).sum(-2) for w in ws),
    ],
    "project_qkv_fused": [
        cut_weights_first,
        cut_by_index,
        lambda x, w, d_k, d_v: (x @ w).split([d_k, d_k, d_v], dim=-1),
        lambda x, w, d_k, d_v: torch.tensor_split(x @ w, (d_k, 2 * d_k), dim=2),
        lambda x, w, d_k, d_v: torch.einsum("...m,md->...d", x, w).split((d_k, d_k, d_v), -1),
        lambda x, w, d_k, d_v: tuple(F.linear(x, part) for part in w.T.split([d_k, d_k, d_v])),
    ],
    "QKVProjection": [AnotherOrder, Fused, ByEinsum, InADictionary, made_by_a_function],
    "mend_unpack_qkv": [
        unpack_by_rearrange,
        unpack_by_columns,
        lambda x, w: (x @ w).chunk(3, dim=-1),
        lambda x, w: (x @ w).unflatten(-1, (3, -1)).unbind(-2),
        lambda x, w: tuple(F.linear(x, part) for part in w.T.chunk(3)),
    ],
}
