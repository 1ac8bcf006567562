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


class PostNorm(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0):
        super().__init__()
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, key_mask=None):
        x = self.norm1(x + self.attn(x, key_mask=key_mask))
        return self.norm2(x + self.mlp(x))


class PostNormOwnLayers(nn.Module):
    """Everything by hand: layers in parts, and the norm of the lesson."""

    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0) -> None:
        super().__init__()
        hidden = int(mlp_ratio * d_model)
        self.norm2, self.norm1 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.ModuleDict({"down": nn.Linear(hidden, d_model), "up": nn.Linear(d_model, hidden)})
        self.attn = nn.ModuleDict({name: nn.Linear(d_model, d_model) for name in ("w_o", "w_v", "w_k", "w_q")})
        self.h = num_heads

    def look(self, x, key_mask):
        q, k, v = (attnlib.split_heads(self.attn[name](x), self.h) for name in ("w_q", "w_k", "w_v"))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        real = torch.ones_like(scores, dtype=torch.bool) if key_mask is None else key_mask[:, None, None]
        return self.attn["w_o"](attnlib.merge_heads(attnlib.masked_softmax(scores, real) @ v))

    def normed(self, x, norm):
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + norm.eps) * norm.weight + norm.bias

    def forward(self, x, key_mask=None):
        x = self.normed(self.look(x, key_mask) + x, self.norm1)
        thought = self.mlp["down"](torch.nn.functional.gelu(self.mlp["up"](x)))
        return self.normed(thought + x, self.norm2)


class PostNormInOneLine(PostNorm):
    def forward(self, x, key_mask=None):
        return self.norm2((s := self.norm1(x + self.attn(x, key_mask=key_mask))).add(self.mlp(s)))


class PostNormByFunction(PostNorm):
    def forward(self, x: torch.Tensor, key_mask: torch.Tensor | None = None) -> torch.Tensor:
        mask = None if key_mask is None else key_mask[:, None, None, :]
        for norm, branch in ((self.norm1, lambda y: self.attn(y, mask=mask)), (self.norm2, self.mlp)):
            x = torch.nn.functional.layer_norm(x + branch(x), x.shape[-1:], norm.weight, norm.bias)
        return x


class PostNormOneByOne(PostNorm):
    """Sentence after sentence."""

    def forward(self, x, key_mask=None):
        found = [
            self.attn(s[None], key_mask=None if key_mask is None else key_mask[i : i + 1]) for i, s in enumerate(x)
        ]
        stream = self.norm1(torch.cat(found) + x)
        return self.norm2(torch.stack([s + self.mlp(s) for s in stream]))


ALTERNATIVES = {
    "PostNormBlock": [PostNorm, PostNormOwnLayers, PostNormInOneLine, PostNormByFunction, PostNormOneByOne],
    "packed_causal": [packed, packed_and_counted, packed_by_loop, packed_row_by_row, packed_by_products],
    "PaddedCrossAttention": [Padded, PaddedByTheCourse, PaddedWithTheLowest, PaddedAndDivided, PaddedOneByOne],
}
