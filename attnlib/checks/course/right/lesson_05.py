"""Right answers of lesson 05, written in other ways: masks, and weights that are masked afterwards."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange, repeat


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
}
