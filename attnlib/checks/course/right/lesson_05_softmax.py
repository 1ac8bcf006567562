"""Right answers of lesson 05, written in other ways: the masked softmax, and what is built on it."""

import math
import sys
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from attnlib.checks.course import find


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
    """Of what is left once the largest score is subtracted: a logsumexp near -10¹² is as coarse as the scores."""
    blocked = scores.masked_fill(~mask, -math.inf).masked_fill(~mask.any(-1, keepdim=True), 0.0)
    blocked = blocked - blocked.amax(-1, keepdim=True)
    return (blocked - torch.logsumexp(blocked, dim=-1, keepdim=True)).exp().masked_fill(~mask, 0.0)


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


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The lowest *finite* number blocks just as -inf does; a row without True stays finite, and the mask makes it 0."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1) * mask


class AnotherCausalSelfAttention(find("CausalSelfAttention").reference):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The lowest finite number blocks, too, and the product with the mask empties the rows that have no keys."""
        layers, order = (self.w_q, self.w_k, self.w_v), torch.arange(x.shape[1], device=x.device)
        q, k, v = (rearrange(layer(x), "b n (h d) -> b h n d", h=self.num_heads) for layer in layers)
        mask = order <= order[:, None]
        mask = mask if key_mask is None else mask & key_mask[:, None, None]
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, torch.finfo(x.dtype).min)
        weights = scores.softmax(dim=-1) * mask
        return self.w_o(rearrange(weights @ v, "b h n d -> b n (h d)")), weights


def mend_padded_causal_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Two masks may be applied one after the other: what the first has blocked, the second cannot open."""
    past, lowest = torch.ones_like(scores, dtype=torch.bool).tril(), torch.finfo(scores.dtype).min
    blocked = scores.masked_fill(~past, lowest).masked_fill(~real[:, None, None], lowest)
    return blocked.softmax(dim=-1) * past * real[:, None, None]


ALTERNATIVES = {
    "masked_softmax": [
        masked_softmax,
        softmax_swept,
        softmax_lowest_then_zero,
        softmax_by_hand,
        softmax_opened_rows,
        softmax_by_logsumexp,
        softmax_row_by_row,
        lambda scores, mask: masked_shares(scores, mask, torch.finfo(scores.dtype).min),
    ],
    "CausalSelfAttention": [AnotherCausalSelfAttention, FusedLike, StoredMask, HeadByHead, QueryByQuery, AdditiveMask],
    "mend_padded_causal_weights": [
        mend_padded_causal_weights,
        mended,
        partial(mended, softmax=softmax_swept),
        partial(mended, softmax=softmax_by_hand),
        partial(mended, softmax=softmax_by_logsumexp),
        mended_by_loop,
    ],
}
