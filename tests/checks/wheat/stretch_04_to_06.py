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


ALTERNATIVES = {
    "PaddedCrossAttention": [Padded, PaddedByTheCourse, PaddedWithTheLowest, PaddedAndDivided, PaddedOneByOne],
}
