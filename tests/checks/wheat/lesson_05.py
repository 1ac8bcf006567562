"""Right answers of lesson 05, written in other ways."""

import math
import sys
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import nn


def mask_by_loop(q_len, k_len):
    return torch.tensor([[j <= i + k_len - q_len for j in range(k_len)] for i in range(q_len)], dtype=torch.bool)


def mask_by_positions(q_len, k_len):
    print("positions", q_len, k_len)
    queries, keys = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    return torch.ge(queries.unsqueeze(1), keys)


def mask_by_upper_triangle(q_len: int, k_len: int) -> torch.Tensor:
    return ~torch.triu(torch.ones(q_len, k_len), diagonal=k_len - q_len + 1).bool()


def mask_of_a_square(q_len, k_len):
    size = max(q_len, k_len)
    return torch.ones(size, size).tril().bool()[size - q_len :, size - k_len :]


def mask_from_additive(q_len, k_len):
    additive = torch.full((q_len, k_len), -math.inf).triu(1 + k_len - q_len)
    return additive == 0


class Mask:
    def __call__(self, q_len, k_len):
        mask = torch.zeros((q_len, k_len), dtype=torch.bool)
        for i in range(q_len):
            mask[i, : max(0, i + 1 + k_len - q_len)] = True
        return mask


def padding_by_loop(lengths, max_len):
    mask = torch.zeros(len(lengths), max_len, dtype=torch.bool, device=lengths.device)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    return mask


def padding_by_list(lengths, max_len):
    if lengths.device.type == "meta":
        return torch.empty(len(lengths), max_len, dtype=torch.bool, device="meta")
    rows = [[1] * length + [0] * (max_len - length) for length in lengths.tolist()]
    return torch.tensor(rows, device=lengths.device).bool()


def padding_by_einops(lengths, max_len):
    positions = torch.arange(max_len, device=lengths.device)
    return repeat(positions, "k -> b k", b=len(lengths)) < rearrange(lengths, "b -> b 1")


def padding_by_expand(lengths, max_len):
    positions = torch.arange(max_len, device=lengths.device).expand(lengths.size(0), -1)
    return ~positions.ge(lengths.unsqueeze(-1))


def padding_by_cumsum(lengths, max_len):
    return lengths.new_ones(lengths.shape[0], max_len).cumsum(1).le(lengths.reshape(-1, 1))


def open_keys(scores):
    return torch.ones(scores.shape[-2:], device=scores.device, dtype=torch.bool).tril(
        scores.shape[-1] - scores.shape[-2]
    )


def renormalised_by_where(scores):
    weights = F.softmax(scores, -1)
    kept = torch.where(open_keys(scores), weights, torch.zeros_like(weights))
    return kept / kept.sum(-1).unsqueeze(-1)


def renormalised_by_tril(scores):
    kept = torch.softmax(scores, dim=-1).tril(scores.shape[-1] - scores.shape[-2])
    kept /= kept.sum(dim=-1, keepdim=True).clone()
    return kept


def renormalised_by_norm(scores):
    return F.normalize(scores.softmax(-1) * open_keys(scores).to(scores.dtype), p=1, dim=-1)


def renormalised_by_cumsum(scores):
    *_, q, k = scores.shape
    grown = (scores - scores.amax(-1, keepdim=True)).exp()
    sums = grown.cumsum(-1).diagonal(k - q, dim1=-2, dim2=-1)
    return grown * open_keys(scores) / sums[..., None]


def renormalised_by_loop(scores):
    weights, (q, k) = scores.softmax(dim=-1), scores.shape[-2:]
    rows = []
    for i in range(q):
        seen = i + 1 + k - q
        row = weights[..., i, :seen] / weights[..., i, :seen].sum(-1, keepdim=True)
        rows.append(F.pad(row, (0, k - seen)))
    return torch.stack(rows, dim=-2)


def masked_first(scores):
    return scores.masked_fill(~open_keys(scores), -math.inf).softmax(dim=-1)


def softmax_swept(scores, mask):
    return torch.nan_to_num(torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1), nan=0.0)


def softmax_lowest_then_zero(scores, mask):
    print("blocked:", int((~mask).sum()) if mask.device.type != "meta" else "?", file=sys.stderr)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(mask.logical_not(), lowest).softmax(-1) * mask


def softmax_by_hand(scores, mask):
    shift = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True).detach()
    grown = torch.where(mask, scores - shift, -math.inf).exp()
    total = grown.sum(-1, keepdim=True)
    return grown / total.masked_fill(total == 0, 1)


def softmax_opened_rows(scores, mask):
    mask = mask.expand(scores.shape)
    some = mask.any(-1, keepdim=True)
    weights = F.softmax(torch.where(mask | ~some, scores, -torch.inf), dim=-1)
    return torch.where(some, weights, 0.0)


def softmax_by_logsumexp(scores, mask):
    blocked = scores.masked_fill(~mask, -math.inf)
    total = torch.logsumexp(blocked.masked_fill(~mask.any(-1, keepdim=True), 0.0), dim=-1, keepdim=True)
    return (blocked - total).exp().masked_fill(~mask, 0.0)


def softmax_row_by_row(scores, mask):
    flat, open_ = scores.reshape(-1, scores.shape[-1]), mask.broadcast_to(scores.shape).reshape(-1, scores.shape[-1])
    if scores.device.type == "meta":
        return torch.zeros_like(scores)
    rows = []
    for row, seen in zip(flat, open_, strict=True):
        made = torch.zeros_like(row)
        made[seen] = row[seen].softmax(0)
        rows.append(made + 0 * row)
    return torch.stack(rows).reshape(scores.shape)


def masked_shares(scores, mask, fill):
    some = mask.any(-1, keepdim=True)
    return scores.masked_fill(~mask, fill).softmax(-1).masked_fill(~some, 0)


class FusedLike(nn.Module):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} is not divisible by {num_heads}")
        self.num_heads = num_heads
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_q = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x, key_mask=None):
        weight = torch.cat([self.w_q.weight, self.w_k.weight, self.w_v.weight])
        bias = None if self.w_q.bias is None else torch.cat([self.w_q.bias, self.w_k.bias, self.w_v.bias])
        packed = F.linear(x, weight, bias)
        q, k, v = rearrange(packed, "b n (three h d) -> three b h n d", three=3, h=self.num_heads)
        scores = torch.einsum("b h q d, b h k d -> b h q k", q, k) / math.sqrt(q.shape[-1])
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
        if key_mask is not None:
            mask = mask & rearrange(key_mask, "b k -> b 1 1 k")
        weights = torch.nan_to_num(scores.masked_fill(~mask, -math.inf).softmax(-1))
        output = rearrange(torch.einsum("b h q k, b h k d -> b h q d", weights, v), "b h n d -> b n (h d)")
        return [self.w_o(output), weights.detach()]


class StoredMask(FusedLike):
    """A buffer, grown where it is too small; -1e9, which leaves padded queries what they like."""

    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.register_buffer("past", torch.ones(64, 64, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x, key_mask=None):
        b, n, _ = x.shape
        q, k, v = (w(x).view(b, n, self.num_heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.past[:n, :n], -1e9)
        if key_mask is not None:
            scores = scores.masked_fill(~key_mask[:, None, None], -1e9)
        weights = scores.softmax(-1)
        return self.w_o((weights @ v).transpose(1, 2).reshape(b, n, -1)), weights


class HeadByHead(FusedLike):
    def forward(self, x, key_mask=None):
        outputs, weights = [], []
        for q, k, v in zip(*(w(x).chunk(self.num_heads, dim=-1) for w in (self.w_q, self.w_k, self.w_v)), strict=True):
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()[None]
            mask = mask if key_mask is None else mask & key_mask[:, None]
            shares = masked_shares(torch.bmm(q, k.mT) * k.shape[-1] ** -0.5, mask, torch.finfo(x.dtype).min)
            outputs.append(shares @ v)
            weights.append(shares)
        return self.w_o(torch.cat(outputs, dim=-1)), torch.stack(weights, dim=1)


class QueryByQuery(FusedLike):
    """Slow: each query attends to the keys up to its own, one after the other. Padded queries get zeros."""

    def forward(self, x, key_mask=None):
        b, n, _ = x.shape
        real = torch.ones(b, n, dtype=torch.bool, device=x.device) if key_mask is None else key_mask
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)) for w in (self.w_q, self.w_k, self.w_v))
        outputs, weights = [], []
        for i in range(n):
            scores = torch.einsum("b h d, b k h d -> b h k", q[:, i], k[:, : i + 1]) / math.sqrt(q.shape[-1])
            shares = masked_shares(scores, (real[:, : i + 1] & real[:, i, None])[:, None], torch.finfo(x.dtype).min)
            outputs.append(torch.einsum("b h k, b k h d -> b h d", shares, v[:, : i + 1]).flatten(1))
            weights.append(F.pad(shares, (0, n - i - 1)))
        return self.w_o(torch.stack(outputs, 1)), torch.stack(weights, 2)


class AdditiveMask(FusedLike):
    """0 and the lowest number, added; zeros where nothing is open."""

    def forward(self, x, key_mask=None):
        n = x.shape[1]
        added = torch.full((n, n), torch.finfo(x.dtype).min / 4, dtype=x.dtype, device=x.device).triu(1)
        q, k, v = (rearrange(w(x), "b n (h d) -> b h n d", h=self.num_heads) for w in (self.w_q, self.w_k, self.w_v))
        if key_mask is not None:
            added = added + (~key_mask)[:, None, None].to(x.dtype) * torch.finfo(x.dtype).min / 4
        weights = F.softmax(q @ k.mT / q.shape[-1] ** 0.5 + added, dim=-1)
        return self.w_o(rearrange(weights @ v, "b h n d -> b n (h d)")), weights


def mended(scores, real, softmax=softmax_opened_rows):
    n = scores.shape[-1]
    mask = torch.ones(n, n, dtype=torch.bool, device=scores.device).tril() & real[:, None, None, :]
    return softmax(scores, mask)


def mended_by_loop(scores, real):
    rows = []
    for i in range(scores.shape[-1]):
        seen = real.clone()
        seen[:, i + 1 :] = False
        rows.append(softmax_swept(scores[:, :, i], seen[:, None]))
    return torch.stack(rows, dim=2)


ALTERNATIVES = {
    "causal_mask": [
        mask_by_loop,
        mask_by_positions,
        mask_by_upper_triangle,
        mask_of_a_square,
        mask_from_additive,
        Mask(),
        lambda q_len, k_len: torch.arange(k_len) <= torch.arange(q_len)[:, None] + k_len - q_len,
    ],
    "padding_mask": [
        padding_by_loop,
        padding_by_list,
        padding_by_einops,
        padding_by_expand,
        padding_by_cumsum,
        lambda lengths, max_len: lengths.unsqueeze(1) > torch.arange(0, max_len, device=lengths.device),
    ],
    "renormalised_causal_weights": [
        renormalised_by_where,
        renormalised_by_tril,
        renormalised_by_norm,
        renormalised_by_cumsum,
        renormalised_by_loop,
        masked_first,
    ],
    "masked_softmax": [
        softmax_swept,
        softmax_lowest_then_zero,
        softmax_by_hand,
        softmax_opened_rows,
        softmax_by_logsumexp,
        softmax_row_by_row,
        lambda scores, mask: masked_shares(scores, mask, torch.finfo(scores.dtype).min),
    ],
    "CausalSelfAttention": [FusedLike, StoredMask, HeadByHead, QueryByQuery, AdditiveMask],
    "mend_padded_causal_weights": [
        mended,
        partial(mended, softmax=softmax_swept),
        partial(mended, softmax=softmax_by_hand),
        partial(mended, softmax=softmax_by_logsumexp),
        mended_by_loop,
    ],
}
