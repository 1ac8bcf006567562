"""Right answers to the stretch exercises of lessons 04 to 06, differently written: all of them must be accepted."""

import math

import torch
from einops import einsum, rearrange
from torch import nn

import attnlib


class Padded(nn.Module):
    """Scores of real positions alone; an empty memory keeps its scores, and gets no weights."""

    def __init__(self, d_model, d_memory, num_heads):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("no")
        self.h, self.d = num_heads, d_model // num_heads
        self.w_q, self.w_k = nn.Linear(d_model, d_model), nn.Linear(d_memory, d_model)
        self.w_v, self.w_o = nn.Linear(d_memory, d_model), nn.Linear(d_model, d_model)

    def heads(self, x, memory):
        return (
            rearrange(layer(text), "b n (h d) -> b h n d", h=self.h)
            for layer, text in ((self.w_q, x), (self.w_k, memory), (self.w_v, memory))
        )

    def share(self, scores, real):
        empty = ~real.any(dim=-1, keepdim=True)
        return scores.masked_fill(~real & ~empty, -torch.inf).softmax(dim=-1).masked_fill(empty, 0.0)

    def forward(self, x, memory, key_mask):
        q, k, v = self.heads(x, memory)
        weights = self.share(q @ k.mT / math.sqrt(self.d), key_mask[:, None, None, :])
        return self.w_o(rearrange(weights @ v, "b h q d -> b q (h d)")), weights


class PaddedByTheCourse(Padded):
    def share(self, scores, real):
        return attnlib.masked_softmax(scores, real)


class PaddedWithTheLowest(Padded):
    """The lowest number in place of -inf, and zeros afterwards."""

    def share(self, scores, real):
        filled = torch.where(real, scores, torch.finfo(scores.dtype).min)
        return filled.softmax(-1) * real


class PaddedAndDivided(Padded):
    """exp by hand, of the real positions, over a sum that is never zero."""

    def share(self, scores, real):
        highest = scores.masked_fill(~real, -torch.inf).amax(-1, keepdim=True).detach()
        powers = (scores - highest.nan_to_num(neginf=0.0)).masked_fill(~real, -torch.inf).exp()
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)


class PaddedOneByOne(Padded):
    """Each text of the batch with its own real positions, cut out."""

    def forward(self, x, memory, key_mask):
        outputs, tables = [], []
        for asks, answers, real in zip(x, memory, key_mask, strict=True):
            q, k, v = self.heads(asks[None], answers[None])
            scores = einsum(q, k, "b h q d, b h k d -> b h q k")[0] * self.d**-0.5
            weights = self.share(scores, real)
            outputs.append(rearrange(weights @ v[0], "h q d -> q (h d)"))
            tables.append(weights)
        return self.w_o(torch.stack(outputs)), torch.stack(tables)


def packed(ids):
    place = torch.arange(ids.shape[1], device=ids.device)
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[:, 1:] = ids[:, 1:] != ids[:, :-1]
    text = begins.cumsum(1)
    mask = (text.unsqueeze(2) == text.unsqueeze(1)).tril() & (ids != -1).unsqueeze(2)
    return mask, (place - (place * begins).cummax(1).values).masked_fill(ids == -1, 0)


def packed_and_counted(ids):
    """A token's position is the number of keys that it sees, but for itself."""
    changes = torch.nn.functional.pad((ids.diff(dim=1) != 0).long(), (1, 0)).cumsum(1)
    same = torch.eq(changes[:, :, None], changes[:, None, :])
    mask = torch.tril(same) & (ids >= 0)[:, :, None] & (ids >= 0)[:, None, :]
    return mask, (mask.sum(-1) - 1).clamp(min=0)


def packed_by_loop(ids):
    b, n = ids.shape
    mask = ids.new_zeros(b, n, n, dtype=torch.bool)
    positions = torch.zeros_like(ids)
    for i in range(n):
        same = ids[:, i] != -1
        for j in range(i, -1, -1):
            same = same & (ids[:, j] == ids[:, i])
            mask[:, i, j] = same
        positions[:, i] = (mask[:, i].sum(-1) - 1).clamp(min=0)
    return mask, positions


def packed_row_by_row(ids):
    masks, positions = [], []
    for row in ids:
        starts = torch.cat([row.new_ones(1), (row[1:] != row[:-1]).long()])
        number = torch.cumsum(starts, 0)
        places = torch.arange(len(row), device=row.device)
        real = row.ne(-1)
        masks.append(((number[:, None] == number) & (places[:, None] >= places)) & real[:, None] & real)
        first = torch.where(starts == 1, places, 0).cummax(0).values
        positions.append(torch.where(real, places - first, 0))
    return [torch.stack(masks), torch.stack(positions)]


def packed_by_products(ids):
    """Key j is open to query i if nothing changes between them: no beginning after j, up to i."""
    begins = torch.zeros_like(ids)
    begins[:, 1:] = (ids[:, 1:] != ids[:, :-1]).long()
    count = begins.cumsum(-1)
    n = ids.size(1)
    past = torch.ones(n, n, dtype=torch.bool, device=ids.device).tril()
    mask = ((count[..., None] - count[..., None, :]) == 0) & past & ids.ne(-1)[..., None]
    return mask, (mask.long() @ torch.ones_like(ids)[..., None])[..., 0].sub(1).clamp_min(0)


ALTERNATIVES = {
    "packed_causal": [packed, packed_and_counted, packed_by_loop, packed_row_by_row, packed_by_products],
    "PaddedCrossAttention": [Padded, PaddedByTheCourse, PaddedWithTheLowest, PaddedAndDivided, PaddedOneByOne],
}
