"""Right answers of lesson 02, written in other ways."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

from attnlib.checks.course import find


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


WISHES = {("pronoun", "alive"), ("state", "alive"), ("action", "place"), ("article", "thing")}


def matrices_of_three_wishes(features):
    """Three columns are enough: alive, place and thing."""
    w_q, w_k = torch.zeros(2, len(features), 3)
    for column, (wanted, askers) in enumerate(
        (("alive", ("pronoun", "state")), ("place", ("action",)), ("thing", ("article",)))
    ):
        w_k[features.index(wanted), column] = 4
        for asks in askers:
            w_q[features.index(asks), column] = 4
    return torch.stack([w_q, w_k])


def matrices_that_avoid(features):
    """A pronoun asks for what is alive and not a place, an action for the opposite."""
    row = {name: i for i, name in enumerate(features)}
    w_q, w_k = torch.zeros(7, 4), torch.zeros(7, 4)
    w_k[row["alive"], 0] = w_k[row["place"], 1] = w_k[row["thing"], 2] = 5
    w_q[row["pronoun"], :2] = w_q[row["state"], :2] = torch.tensor([5.0, -5.0])
    w_q[row["action"], :2] = torch.tensor([-5.0, 5.0])
    w_q[row["article"], 2] = 5
    return torch.stack((w_q, w_k))


def matrices_by_rows(features):
    """The rows written out by name, nouns asking for actions, in float64."""
    rows = {
        "thing": [0, 0, 0, 3],
        "action": [0, 0, 6, 0],
        "article": [6, 0, 0, 0],
        "pronoun": [2, 6, 0, 0],
        "state": [0, 6, 0, 0],
    }
    offers = {"thing": [3, 0, 0, 0], "alive": [0, 3, 0, 0], "place": [0, 0, 3, 0], "action": [0, 0, 0, 3]}
    return torch.tensor(
        [[table.get(name, [0] * 4) for name in features] for table in (rows, offers)], dtype=torch.float64
    )


def matrices_from_their_product(features):
    """Only the product of the two counts: take any, and factorise it."""
    at = features.index
    m = torch.zeros(len(features), len(features))
    m[
        [at("pronoun"), at("state"), at("action"), at("article")], [at("alive"), at("alive"), at("place"), at("thing")]
    ] = 30.0
    u, s, v = torch.linalg.svd(m)
    return torch.stack([u * s, v.T])


def write_matrices(features: list[str]) -> Tensor:
    """One matrix may be the identity, since only the product of the two counts: all the wishes are in the other one."""
    wishes = {"alive": ["pronoun", "state"], "place": ["action"], "thing": ["article"]}
    w_k = torch.tensor([[20.0 * (asks in wishes.get(name, [])) for asks in features] for name in features])
    return torch.stack([torch.eye(len(features)), w_k])


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """A factor may move inside a product: scaling the queries first takes q · d divisions instead of q · k."""
    return (q / math.sqrt(q.shape[-1])) @ k.mT


def softmax(scores: Tensor) -> Tensor:
    """Dividing by a sum is subtracting its logarithm before exp; logsumexp takes the maximum out by itself."""
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Dividing by the softmax's sum can wait until the values are mixed. FlashAttention (lesson 10) depends on it."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    grown = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    total = grown.sum(dim=-1, keepdim=True)
    return grown @ v / total, grown / total


class AnotherSelfAttention(find("SelfAttention").reference):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys meet only in W_q W_kᵀ: one matrix says how much two words have to do with each other."""
        between = self.w_q.weight.mT @ self.w_k.weight
        weights = (x @ between @ x.mT / math.sqrt(self.w_q.out_features)).softmax(dim=-1)
        return weights @ self.w_v(x), weights


def mend_self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Mix the words first, project the mixtures afterwards: two matrix products may be done in either order."""
    weights = (x @ w_q @ (x @ w_k).mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    return weights @ x @ w_v, weights


class AnotherAdditiveAttention(find("AdditiveAttention").reference):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """u is a single row, so a dot product with it replaces the layer: no axis of length 1 to squeeze."""
        pairs = torch.tanh(self.w_1(q).unsqueeze(2) + self.w_2(k).unsqueeze(1))
        weights = torch.einsum("bqkh,h->bqk", pairs, self.u.weight[0]).softmax(dim=-1)
        return weights @ v, weights


ALTERNATIVES = {
    "write_matrices": [
        write_matrices,
        matrices_of_three_wishes,
        matrices_that_avoid,
        matrices_by_rows,
        matrices_from_their_product,
        lambda features: torch.stack(
            [
                40.0 * torch.tensor([[(a, w) in WISHES for w in features] for a in features]),
                torch.eye(len(features)),
            ]
        ),
    ],
    "attention_scores": [
        attention_scores,
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
        softmax,
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
        scaled_dot_product_attention,
        attend_by_loop,
        attend_root_of_a_tensor,
        attend_by_einsum,
        attend_by_einops,
        attend_transposed,
        attend_detached_weights,
        Attend(),
    ],
    "SelfAttention": [AnotherSelfAttention, Plain, AnotherOrder, OnFunctions, WeightsFirst, Fused],
    "AdditiveAttention": [
        AnotherAdditiveAttention,
        Additive,
        AdditiveByLoop,
        AdditiveByEinsum,
        AdditiveConcatenated,
        AdditiveKeyByKey,
    ],
    "mend_self_attention": [
        mend_self_attention,
        lambda x, w_q, w_k, w_v: attend_by_loop(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_by_einsum(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_by_einops(F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)),
        lambda x, w_q, w_k, w_v: attend_transposed(x @ w_q, x @ w_k, x @ w_v),
        lambda x, w_q, w_k, w_v: attend_root_of_a_tensor(
            *(rearrange(w.T @ x.mT, "b d n -> b n d") for w in (w_q, w_k, w_v))
        ),
    ],
}
