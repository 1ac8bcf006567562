"""Right answers of lesson 09 about shared heads, windows and guesses, written in other ways."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange, reduce, repeat

import attnlib


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


def even(num_heads, groups):
    if num_heads % groups:
        raise ValueError(f"{groups} groups of {num_heads} heads")
    return num_heads // groups


def pooled_by_einops(w_k, w_v, num_heads, groups):
    even(num_heads, groups)
    pattern = "m (g r d) -> m (g d)"
    return tuple(reduce(w, pattern, "mean", g=groups, r=num_heads // groups) for w in (w_k, w_v))


def pooled_by_loop(w_k, w_v, num_heads, groups):
    share, d = even(num_heads, groups), w_k.shape[1] // num_heads
    both = []
    for w in (w_k, w_v):
        heads = w.split(d, dim=1)
        both.append(torch.cat([sum(heads[g * share : (g + 1) * share]) / share for g in range(groups)], dim=1))
    return both


def pooled_by_reshape(w_k, w_v, num_heads, groups):
    share = even(num_heads, groups)
    pool = lambda w: w.reshape(w.shape[0], groups, share, -1).mean(2).reshape(w.shape[0], -1)  # noqa: E731
    return pool(w_k), pool(w_v)


def pooled_by_matrix(w_k, w_v, num_heads, groups):
    share, d = even(num_heads, groups), w_k.shape[1] // num_heads
    one = torch.eye(d, dtype=w_k.dtype, device=w_k.device).repeat(share, 1) / share
    matrix = torch.block_diag(*[one] * groups)
    return w_k @ matrix, w_v @ matrix


def pooled_together(w_k, w_v, num_heads, groups):
    heads = torch.stack([w_k, w_v]).unflatten(-1, (groups, even(num_heads, groups), -1))
    return heads.mean(dim=3).flatten(2).unbind()


def positive(window):
    if window <= 0:
        raise ValueError(f"a window of {window}")


def window_by_triangles(q_len, k_len, window):
    positive(window)
    ones = torch.ones(q_len, k_len, dtype=torch.bool)
    return ones.tril(k_len - q_len) & ones.triu(k_len - q_len - window + 1)


def window_by_loop(q_len, k_len, window):
    positive(window)
    rows = [[0 <= i + k_len - q_len - j < window for j in range(k_len)] for i in range(q_len)]
    return torch.tensor(rows)


def window_of_causal(q_len, k_len, window):
    positive(window)
    return attnlib.causal_mask(q_len, k_len) & ~attnlib.causal_mask(q_len, k_len).tril(k_len - q_len - window)


def window_by_bounds(q_len, k_len, window):
    positive(window)
    last = torch.arange(q_len).add(k_len - q_len).unsqueeze(1)
    keys = torch.arange(k_len).unsqueeze(0)
    return torch.logical_and(keys <= last, keys > last - window)


def window_by_last_rows(q_len, k_len, window):
    positive(window)
    n = max(q_len, k_len)
    places = torch.arange(n)
    distance = places.view(-1, 1) - places
    return ((distance >= 0) * (distance < window))[n - q_len :, n - k_len :]


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


ALTERNATIVES = {
    "grouped_query_attention": [
        grouped_by_axes,
        grouped_by_einsum,
        grouped_by_index,
        grouped_by_loop,
        grouped_by_repeat,
    ],
    "multi_head_to_grouped": [
        pooled_by_einops,
        pooled_by_loop,
        pooled_by_reshape,
        pooled_by_matrix,
        pooled_together,
    ],
    "sliding_window_mask": [
        window_by_triangles,
        window_by_loop,
        window_of_causal,
        window_by_bounds,
        window_by_last_rows,
    ],
    "accept": [
        accepted_in_a_loop,
        accepted_row_by_row,
        accepted_by_noise,
        accepted_with_bernoulli,
        accepted_with_all_draws_made,
    ],
}
