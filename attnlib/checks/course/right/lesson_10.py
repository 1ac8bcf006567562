"""Right answers of lesson 10 about softmax in blocks and merging, written in other ways."""

from collections.abc import Iterator
from functools import reduce

import torch
from torch import Tensor

INF = float("inf")


def finite(m):
    return torch.where(m == -INF, torch.zeros_like(m), m)


def folded(blocks):
    def add(state, block):
        m, total = state
        new = torch.maximum(m, block.max(dim=-1).values)
        return new, total * (m - finite(new)).exp() + (block - finite(new).unsqueeze(-1)).exp().sum(-1)

    blocks = iter(blocks)
    first = next(blocks)
    start = torch.full_like(first[..., 0], -INF), torch.zeros_like(first[..., 0])
    return add(reduce(add, blocks, start), first)


def from_the_first_block(blocks):
    m = None
    for block in blocks:
        highest = torch.amax(block, -1, keepdim=True)
        if m is None:
            m = highest
            total = torch.exp(block - finite(m)).sum(-1, keepdim=True)
            continue
        new = torch.max(m, highest)
        total = torch.exp(m - finite(new)) * total + torch.exp(block - finite(new)).sum(-1, keepdim=True)
        m = new
    return m.squeeze(-1), total.squeeze(-1)


def by_parts(blocks):
    """Each block by itself, then joined."""
    m, total = None, None
    for block in blocks:
        own = block.amax(dim=-1)
        new_sum = (block - finite(own)[..., None]).exp().sum(dim=-1)
        if m is None:
            m, total = own, new_sum
        else:
            both = torch.stack([m, own]).amax(dim=0)
            total = total * (m - finite(both)).exp() + new_sum * (own - finite(both)).exp()
            m = both
    return [m, total]


def number_by_number(blocks):
    m = total = None
    for block in blocks:
        for score in block.unbind(dim=-1):
            if m is None:
                m, total = score, torch.where(score == -INF, 0.0, torch.ones_like(score))
                continue
            new = torch.where(score > m, score, m)
            total = torch.where(m == -INF, 0.0, total * torch.exp(m - finite(new))) + torch.exp(score - finite(new))
            m = new
    return m.clone(), total


def by_nan_to_num(blocks):
    m = total = None
    for block in blocks:
        if m is None:
            m = torch.full(block.shape[:-1], -INF, dtype=block.dtype, device=block.device)
            total = torch.zeros_like(m)
        new = torch.maximum(m, block.amax(-1))
        factor = torch.exp(m - new).nan_to_num(0.0)
        total = factor * total + torch.exp(block - new[..., None]).nan_to_num(0.0).sum(-1)
        m = new
    return m, total


class Running:
    """With logsumexp of each block."""

    def __call__(self, blocks):
        m, lse = None, None
        for block in blocks:
            own, own_lse = block.amax(-1), block.logsumexp(-1)
            m, lse = (own, own_lse) if m is None else (torch.maximum(m, own), torch.logaddexp(lse, own_lse))
        return m, (lse - finite(m)).exp()


def attended_at_once(scores, v, block_size):
    return (torch.softmax(scores, dim=-1).unsqueeze(-2) @ v).squeeze(-2)


def attended_and_divided_each_time(scores, v, block_size):
    m, total, output = scores.new_full(scores.shape[:-1], -INF), 0, 0
    for block, values in zip(scores.split(block_size, -1), v.split(block_size, -2), strict=True):
        new = torch.maximum(m, block.amax(-1))
        old = total * torch.exp(m - finite(new))
        powers = torch.exp(block - finite(new)[..., None])
        total = old + powers.sum(-1)
        safe = torch.where(total == 0, 1.0, total)
        output = (output * old[..., None] + torch.einsum("...k,...kd->...d", powers, values)) / safe[..., None]
        m = new
    return output


def attended_with_a_column_more(scores, v, block_size):
    wide = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    m, both = torch.full_like(scores[..., 0], -INF), torch.zeros_like(wide[..., 0, :])
    for i in range(0, scores.shape[-1], block_size):
        new = torch.max(m, scores[..., i : i + block_size].max(-1)[0])
        p = torch.exp(scores[..., i : i + block_size] - finite(new)[..., None])
        both = (
            torch.exp(m - finite(new))[..., None] * both
            + (p[..., None, :] @ wide[..., i : i + block_size, :])[..., 0, :]
        )
        m = new
    return both[..., :-1] / both[..., -1:]


def attended_closed_blocks_left_out(scores, v, block_size):
    rows = []
    for row, values in zip(scores.flatten(0, -2), v.flatten(0, -3), strict=True):
        m, total, output = None, None, None
        for block, part in zip(row.split(block_size), values.split(block_size), strict=True):
            if bool((block == -INF).all()):
                continue
            new = block.max() if m is None else torch.maximum(m, block.max())
            p = (block - new).exp()
            old = 0 if m is None else (m - new).exp()
            total = p.sum() + (0 if m is None else old * total)
            output = p @ part + (0 if m is None else old * output)
            m = new
        rows.append(output / total)
    return torch.stack(rows).reshape(v[..., 0, :].shape)


def attended_by_logsumexp(scores, v, block_size):
    output, lse = torch.zeros_like(v[..., 0, :]), torch.full_like(scores[..., 0], -INF)
    for i in range(0, scores.shape[-1], block_size):
        block = scores[..., i : i + block_size]
        new = torch.logaddexp(lse, block.logsumexp(-1))
        weights = (block - finite(new)[..., None]).exp()
        old = (lse - finite(new)).exp()
        output = old[..., None] * output + (weights[..., None] * v[..., i : i + block_size, :]).sum(-2)
        lse = new
    return output


def merged_with_where(o1, m1, l1, o2, m2, l2):
    m = torch.where(m1 > m2, m1, m2)
    a = torch.where(m1 == -INF, 0.0, torch.exp(m1 - m))
    b = torch.where(m2 == -INF, 0.0, torch.exp(m2 - m))
    return a.unsqueeze(-1) * o1 + b.unsqueeze(-1) * o2, m, a * l1 + b * l2


def merged_larger_first(o1, m1, l1, o2, m2, l2):
    """One of the two factors is always 1."""
    swap = m2 > m1
    high, low = torch.where(swap, m2, m1), torch.where(swap, m1, m2)
    factor = torch.exp(low - high).nan_to_num(0.0)
    total = torch.where(swap, l2, l1) + factor * torch.where(swap, l1, l2)
    swap = swap[..., None]
    return torch.where(swap, o2, o1) + factor[..., None] * torch.where(swap, o1, o2), high, total


def merged_stacked(o1, m1, l1, o2, m2, l2):
    m = torch.stack([m1, m2])
    top = m.amax(0)
    factor = (m - finite(top)).exp()
    o = torch.einsum("p...,p...d->...d", factor, torch.stack([o1, o2]))
    return [o, top, (factor * torch.stack([l1, l2])).sum(0)]


def merged_by_nan_to_num(o1, m1, l1, o2, m2, l2):
    m = torch.maximum(m1, m2)
    first, second = ((part - m).exp().nan_to_num(nan=0.0) for part in (m1, m2))
    return o1 * first[..., None] + o2 * second[..., None], m, l1 * first + l2 * second


class Merged:
    """In place, on copies."""

    def __call__(self, o1, m1, l1, o2, m2, l2):
        m = m1.clone()
        m[m2 > m1] = m2[m2 > m1]
        safe = m.masked_fill(m.isinf(), 0)
        o, total = o1.clone(), l1.clone()
        o *= (m1 - safe).exp()[..., None]
        total *= (m1 - safe).exp()
        o += o2 * (m2 - safe).exp()[..., None]
        total += l2 * (m2 - safe).exp()
        return o, m, total


def online_softmax(blocks: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Where m does not grow the factor is exp(0) = 1, so one line serves for every block, the first one included."""
    m, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        new = torch.maximum(m.to(block), block.amax(dim=-1))
        base = torch.where(new.isinf(), 0.0, new)
        total = torch.exp(m.to(block) - base) * total.to(block) + torch.exp(block - base.unsqueeze(-1)).sum(dim=-1)
        m = new
    return m, total


def merge(o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """o and l are sums of the same terms, so l may ride along as one more column of o."""
    m = torch.stack([m1, m2]).amax(dim=0)
    sums = [torch.cat([o, total.unsqueeze(-1)], dim=-1) for o, total in ((o1, l1), (o2, l2))]
    factors = [torch.exp(old - m.clamp(min=-1e38)).unsqueeze(-1) for old in (m1, m2)]
    both = factors[0] * sums[0] + factors[1] * sums[1]
    return both[..., :-1], m, both[..., -1]


ALTERNATIVES = {
    "online_softmax": [
        online_softmax,
        folded,
        from_the_first_block,
        by_parts,
        number_by_number,
        by_nan_to_num,
        Running(),
    ],
    "mend_online": [
        attended_at_once,
        attended_and_divided_each_time,
        attended_with_a_column_more,
        attended_closed_blocks_left_out,
        attended_by_logsumexp,
    ],
    "merge": [merge, merged_with_where, merged_larger_first, merged_stacked, merged_by_nan_to_num, Merged()],
}
