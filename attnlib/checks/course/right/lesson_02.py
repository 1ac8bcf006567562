"""Right answers of lesson 02, written in other ways."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import nn


def scores_by_loop(q, k):
    rows = [
        torch.stack([(q[..., i, :] * k[..., j, :]).sum(-1) for j in range(k.shape[-2])], -1) for i in range(q.shape[-2])
    ]
    return torch.stack(rows, dim=-2) / math.sqrt(q.shape[-1])


def scores_scaled_before(q, k):
    return torch.matmul(q * q.size(-1) ** -0.25, (k * k.size(-1) ** -0.25).transpose(-2, -1))


def scores_by_baddbmm(q, k):
    lead, d = q.shape[:-2], q.shape[-1]
    q, k = q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:])
    result = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(d))
    return result.reshape(*lead, *result.shape[-2:])


def softmax_by_loop(scores):
    flat = scores.reshape(-1, scores.shape[-1])
    rows = []
    for row in flat:
        powers = torch.exp(row - max(row))
        rows.append(powers / sum(powers))
    return torch.stack(rows).reshape(scores.shape)


def softmax_of_detached_maximum(scores):
    powers = (scores - scores.detach().max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(-1, keepdim=True)


def softmax_online(scores):
    largest, total = torch.full_like(scores[..., 0], -math.inf), torch.zeros_like(scores[..., 0])
    for column in scores.unbind(-1):
        new = torch.maximum(largest, column)
        total = total * torch.exp(largest - new) + torch.exp(column - new)
        largest = new
    return torch.exp(scores - largest.unsqueeze(-1)) / total.unsqueeze(-1)


def softmax_by_differences(scores):
    return 1 / torch.exp(
        (scores.unsqueeze(-2) - scores.unsqueeze(-1)).clamp(max=600 if scores.dtype == torch.float64 else 80)
    ).sum(-1)


def attend_by_loop(q, k, v):
    outputs, weights = [], []
    for i in range(q.shape[-2]):
        scores = (q[..., i : i + 1, :] * k).sum(-1) / q.shape[-1] ** 0.5
        row = F.softmax(scores, dim=-1)
        weights.append(row)
        outputs.append((row.unsqueeze(-1) * v).sum(-2))
    return torch.stack(outputs, -2), torch.stack(weights, -2)


def attend_root_of_a_tensor(query, key, value):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / torch.sqrt(torch.tensor(d_k, dtype=torch.float32))
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def attend_by_einsum(q, k, v):
    weights = torch.softmax(torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5, dim=-1)
    return [torch.einsum("...qk,...kd->...qd", weights, v), weights]


def attend_by_einops(q, k, v):
    weights = (einsum(q, k, "... q d, ... k d -> ... q k") / math.sqrt(k.shape[-1])).softmax(-1)
    return einsum(weights, v, "... q k, ... k d -> ... q d"), weights


def attend_transposed(q, k, v):
    weights = (k @ q.mT / q.shape[-1] ** 0.5).softmax(dim=-2)
    return weights.mT @ v, weights.mT


def attend_detached_weights(q, k, v):
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights.detach()


class Attend(nn.Module):
    def forward(self, q, k, v):
        weights = nn.Softmax(dim=-1)(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
        return weights @ v, weights


class Plain(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.scale = d_k**-0.5

    def forward(self, x):
        weights = (self.w_q(x) @ self.w_k(x).mT * self.scale).softmax(-1)
        return weights @ self.w_v(x), weights


class AnotherOrder(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.softmax = nn.Softmax(dim=2)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.register_buffer("root", torch.tensor(float(d_k)).sqrt())

    def forward(self, x):
        print(x.shape)
        weights = self.softmax(torch.bmm(self.w_q(x), self.w_k(x).permute(0, 2, 1)) / self.root)
        return torch.bmm(weights, self.w_v(x)), weights


class OnFunctions(Plain):
    def forward(self, x):
        return attend_by_loop(self.w_q(x), self.w_k(x), self.w_v(x))


class WeightsFirst(Plain):
    """(weights x) W_v in place of weights (x W_v): matrix products may be bracketed as one likes."""

    def forward(self, x):
        scores = einsum(x, self.w_q.weight, self.w_k.weight, x, "b q m, d m, d o, b k o -> b q k") * self.scale
        weights = scores.softmax(-1)
        return self.w_v(weights @ x), weights


class Fused(Plain):
    def forward(self, x):
        packed = F.linear(x, torch.cat([self.w_q.weight, self.w_k.weight, self.w_v.weight]))
        d_k, d_v = self.w_q.out_features, self.w_v.out_features
        q, k, v = packed.split([d_k, d_k, d_v], dim=-1)
        return attend_by_einsum(q, k, v)


class Additive(nn.Module):
    def __init__(self, d_q, d_k, d_hidden):
        super().__init__()
        self.w_1 = nn.Linear(d_q, d_hidden, bias=False)
        self.w_2 = nn.Linear(d_k, d_hidden, bias=False)
        self.u = nn.Linear(d_hidden, 1, bias=False)

    def forward(self, q, k, v):
        hidden = torch.tanh(self.w_1(q)[:, :, None] + self.w_2(k)[:, None])
        weights = self.u(hidden)[..., 0].softmax(-1)
        return weights @ v, weights


class AdditiveByLoop(Additive):
    def forward(self, q, k, v):
        asks, answers = self.w_1(q), self.w_2(k)
        rows = [self.u(torch.tanh(ask[:, None] + answers)).squeeze(-1) for ask in asks.unbind(1)]
        weights = torch.stack(rows, 1).softmax(-1)
        return weights @ v, weights


class AdditiveByEinsum(Additive):
    def forward(self, q, k, v):
        asks = einsum(q, self.w_1.weight, "b q d, h d -> b q h")
        answers = einsum(k, self.w_2.weight, "b k d, h d -> b k h")
        hidden = (rearrange(asks, "b q h -> b q 1 h") + rearrange(answers, "b k h -> b 1 k h")).tanh()
        weights = einsum(hidden, self.u.weight, "b q k h, o h -> b q k").softmax(-1)
        return einsum(weights, v, "b q k, b k d -> b q d"), weights


class AdditiveConcatenated(Additive):
    """As in the paper: one matrix for query and key, one behind the other."""

    def forward(self, q, k, v):
        sizes = q.shape[1], k.shape[1]
        pairs = torch.cat(
            [q.unsqueeze(2).expand(-1, -1, sizes[1], -1), k.unsqueeze(1).expand(-1, sizes[0], -1, -1)], -1
        )
        both = torch.cat([self.w_1.weight, self.w_2.weight], 1)
        weights = F.softmax(torch.tanh(F.linear(pairs, both)) @ self.u.weight[0], dim=2)
        return torch.bmm(weights, v), weights


class AdditiveKeyByKey(Additive):
    """A softmax of one's own, and the u at the end as a sum."""

    def forward(self, q, k, v):
        asks, answers = self.w_1(q), self.w_2(k)
        scores = torch.stack(
            [(torch.tanh(asks + answers[:, j : j + 1]) * self.u.weight).sum(-1) for j in range(k.size(1))], dim=-1
        )
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        weights = powers / powers.sum(-1, keepdim=True)
        return sum(weights[..., j : j + 1] * v[:, j : j + 1] for j in range(k.size(1))), weights


ALTERNATIVES = {
    "attention_scores": [
        scores_by_loop,
        scores_scaled_before,
        scores_by_baddbmm,
        lambda q, k: q @ k.mT / q.shape[-1] ** 0.5,
        lambda q, k: (q @ k.transpose(-1, -2)).div(torch.sqrt(torch.tensor(k.shape[-1]))),
        lambda q, k: torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(k.size(-1)),
        lambda q, k: einsum(q, k, "... q d, ... k d -> ... q k") * q.shape[-1] ** -0.5,
        lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / q.shape[-1] ** 0.5,
        lambda q, k: (k @ q.mT).mT.div_(math.sqrt(q.shape[-1])),
    ],
    "softmax": [
        softmax_by_loop,
        softmax_of_detached_maximum,
        softmax_online,
        softmax_by_differences,
        lambda s: torch.exp(s - s.logsumexp(dim=-1, keepdim=True)),
        lambda s: F.normalize((s - s.amax(-1, keepdim=True)).exp(), p=1, dim=-1),
        lambda s: (e := torch.exp(s - torch.max(s, dim=-1, keepdim=True)[0])) / torch.einsum("...k->...", e)[..., None],
        lambda s: (e := torch.exp(s - s.max(-1).values.unsqueeze(-1))).div(e.sum(-1).unsqueeze(-1)),
        lambda s: (e := 2.0 ** ((s - s.amax(-1, keepdim=True)) / math.log(2))) / e.sum(-1, keepdim=True),
    ],
    "scaled_dot_product_attention": [
        attend_by_loop,
        attend_root_of_a_tensor,
        attend_by_einsum,
        attend_by_einops,
        attend_transposed,
        attend_detached_weights,
        Attend(),
    ],
    "SelfAttention": [Plain, AnotherOrder, OnFunctions, WeightsFirst, Fused],
    "AdditiveAttention": [Additive, AdditiveByLoop, AdditiveByEinsum, AdditiveConcatenated, AdditiveKeyByKey],
    "mend_self_attention": [
        lambda x, w_q, w_k, w_v: attend_by_loop(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_by_einsum(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_by_einops(F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)),
        lambda x, w_q, w_k, w_v: attend_transposed(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_root_of_a_tensor(
            *(rearrange(w.T @ x.mT, "b d n -> b n d") for w in (w_q, w_k, w_v))
        ),
    ],
}
