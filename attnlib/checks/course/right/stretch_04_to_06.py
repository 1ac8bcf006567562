"""Right answers to the stretch exercises of lessons 04 to 06, differently written: all of them must be accepted."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from attnlib.checks.course import find


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
    seen = mask.double() @ torch.ones_like(ids, dtype=torch.double)[..., None]
    return mask, seen[..., 0].long().sub(1).clamp_min(0)


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


def packed_causal(ids: Tensor) -> tuple[Tensor, Tensor]:
    """A word's position in its text is the number of words that it may see, not counting itself."""
    begins = F.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True)
    text = begins.cumsum(dim=1)
    mask = ((text[:, :, None] == text[:, None]) & (ids != -1)[:, :, None]).tril()
    return mask, (mask.sum(dim=-1) - 1).clamp(min=0)


class AnotherPostNormBlock(find("PostNormBlock").reference):
    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Both halves say the same thing, norm(x + f(x)): whatever is added, the norm brings it back to one size."""
        attend = partial(self.attn, key_mask=key_mask)
        for norm, f in ((self.norm1, attend), (self.norm2, self.mlp)):
            x = norm(x + f(x))
        return x


ALTERNATIVES = {
    "PostNormBlock": [
        AnotherPostNormBlock,
        PostNorm,
        PostNormOwnLayers,
        PostNormInOneLine,
        PostNormByFunction,
        PostNormOneByOne,
    ],
    "packed_causal": [packed_causal, packed, packed_and_counted, packed_by_loop, packed_row_by_row, packed_by_products],
}
