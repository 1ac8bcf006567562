"""Right answers of lesson 09 about shared heads, windows and guesses, written in other ways."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange, repeat
from torch import Tensor


def refused(q, k):
    if q.shape[1] % k.shape[1] != 0:
        raise ValueError(f"{q.shape[1]} heads cannot share {k.shape[1]} groups")
    return q.shape[1] // k.shape[1]


def grouped_by_axes(q, k, v):
    q = q.unflatten(1, (-1, refused(q, k)))
    weights = (q @ k.unsqueeze(2).mT * q.shape[-1] ** -0.5).softmax(dim=-1)
    return (weights @ v.unsqueeze(2)).flatten(1, 2)


def grouped_by_einsum(q, k, v):
    refused(q, k)
    q = rearrange(q, "b (g r) q d -> b g r q d", g=k.shape[1])
    scores = einsum(q, k, "b g r q d, b g k d -> b g r q k") / q.shape[-1] ** 0.5
    return rearrange(einsum(scores.softmax(-1), v, "b g r q k, b g k d -> b g r q d"), "b g r q d -> b (g r) q d")


def grouped_by_index(q, k, v):
    group = torch.arange(q.shape[1], device=q.device) // refused(q, k)
    weights = torch.softmax(q @ k[:, group].transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return torch.matmul(weights, v[:, group])


def grouped_by_loop(q, k, v):
    share = refused(q, k)
    heads = []
    for i in range(q.shape[1]):
        scores = torch.einsum("bqd,bkd->bqk", q[:, i], k[:, i // share]) / math.sqrt(q.shape[-1])
        heads.append(scores.softmax(-1) @ v[:, i // share])
    return torch.stack(heads, dim=1)


def grouped_by_repeat(q, k, v):
    share = refused(q, k)
    k, v = (repeat(t, "b g n d -> b (g r) n d", r=share) for t in (k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers @ v / powers.sum(-1, keepdim=True)


def accepted_in_a_loop(draft_p, target_p, tokens):
    b, n = tokens.shape
    result = tokens.new_full((b, n + 1), -1)
    running = torch.ones_like(tokens[:, 0], dtype=torch.bool)
    rows = torch.arange(b, device=tokens.device)
    for i in range(n):
        q, p = draft_p[rows, i, tokens[:, i]], target_p[rows, i, tokens[:, i]]
        accepted = running & (torch.rand_like(p) < p / q)
        rejected = running & ~accepted
        result[accepted, i] = tokens[accepted, i]
        left = torch.relu(target_p[rejected, i] - draft_p[rejected, i])
        result[rejected, i] = torch.multinomial(left, 1)[:, 0]
        running = accepted
    result[running, n] = torch.multinomial(target_p[running, n], 1)[:, 0]
    return result


def accepted_row_by_row(draft_p, target_p, tokens):
    limits = torch.rand(tokens.shape).tolist()
    last = torch.multinomial(target_p[:, -1], 1)
    result = torch.cat([tokens, last], dim=1)
    taken = target_p[:, :-1].gather(2, tokens[..., None])[..., 0].tolist()
    given = draft_p.gather(2, tokens[..., None])[..., 0].tolist()
    for row in range(len(tokens)):
        for i in range(tokens.shape[1]):
            if limits[row][i] >= min(1, taken[row][i] / given[row][i]):
                left = (target_p[row, i] - draft_p[row, i]).clamp_min(0)
                result[row, i] = torch.multinomial(left / left.sum(), 1)
                result[row, i + 1 :] = -1
                break
    return result


def accepted_by_noise(draft_p, target_p, tokens):
    """Gumbel's trick in place of multinomial."""
    chance = target_p[:, :-1].gather(-1, tokens[..., None]) / draft_p.gather(-1, tokens[..., None])
    stopped = (torch.rand_like(chance) >= chance)[..., 0].cummax(dim=1).values
    count = (~stopped).sum(dim=1, keepdim=True)
    rest = torch.cat([(target_p[:, :-1] - draft_p).clamp(min=0), target_p[:, -1:]], dim=1)
    rest = rest.take_along_dim(count[..., None], dim=1)[:, 0]
    noise = -torch.log(-torch.log(torch.rand_like(rest).clamp(1e-12, 1 - 1e-7)))
    drawn = (rest.log() + noise).argmax(dim=-1, keepdim=True)
    row = F.pad(tokens, (0, 1)).scatter(1, count, drawn)
    return torch.where(torch.arange(row.shape[1], device=row.device) <= count, row, -1)


def accepted_with_bernoulli(draft_p, target_p, tokens):
    pick = torch.nn.functional.one_hot(tokens, draft_p.shape[-1]).to(draft_p.dtype)
    chance = ((target_p[:, :-1] * pick).sum(-1) / (draft_p * pick).sum(-1)).clamp(max=1)
    count = torch.bernoulli(chance).cumprod(1).sum(1).long()
    padded = torch.cat(
        [draft_p, torch.zeros_like(draft_p[:, :1])], dim=1
    )  # behind the last guess the draft has nothing
    rows = torch.arange(len(tokens), device=tokens.device)
    drawn = torch.multinomial((target_p - padded).clamp(min=0)[rows, count], 1)[:, 0]
    result = F.pad(tokens, (0, 1), value=-1)
    result[rows, count] = drawn
    result[torch.arange(result.shape[1], device=count.device)[None] > count[:, None]] = -1
    return result


def accepted_with_all_draws_made(draft_p, target_p, tokens):
    """A replacement is drawn for every place, and the first that is needed is used."""
    b, n, vocab = draft_p.shape
    left = (target_p[:, :-1] - draft_p).clamp(min=0)
    left = torch.where(left.sum(-1, keepdim=True) > 0, left, 1.0)
    others_drawn = torch.multinomial(left.reshape(-1, vocab), 1).view(b, n)
    final = torch.multinomial(target_p[:, n], 1)
    q, p = (t.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) for t in (draft_p, target_p[:, :n]))
    fits = torch.rand_like(q) * q < p
    before = torch.cat([torch.ones_like(fits[:, :1]), fits.cumprod(dim=1).bool()], dim=1)
    row = torch.cat([torch.where(fits, tokens, others_drawn), final], dim=1)
    return row.masked_fill(~before, -1)


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Without copies: the heads of a group get an axis of their own, and keys and values broadcast over it."""
    h, g = q.shape[1], k.shape[1]
    if h % g:
        raise ValueError(f"{h} heads cannot share {g} groups")
    q, k, v = q.unflatten(1, (g, h // g)), k.unsqueeze(2), v.unsqueeze(2)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return (weights @ v).flatten(1, 2)


ALTERNATIVES = {
    "grouped_query_attention": [
        grouped_query_attention,
        grouped_by_axes,
        grouped_by_einsum,
        grouped_by_index,
        grouped_by_loop,
        grouped_by_repeat,
    ],
    "accept": [
        accepted_in_a_loop,
        accepted_row_by_row,
        accepted_by_noise,
        accepted_with_bernoulli,
        accepted_with_all_draws_made,
    ],
}
