"""Lesson 09: the programs whose lines `slips.md` replaces."""

import math

import einops
import torch

import attnlib


def append_to_cache(cache, k, v):
    all_k, all_v = cache["k"], cache["v"]
    room = all_k.shape[2]
    start = cache["length"]
    stop = start + k.shape[2]
    if stop > room:
        raise ValueError(f"the cache has room for {room} positions, got {start} + {k.shape[2]}")
    all_k[:, :, start:stop] = k
    all_v[:, :, start:stop] = v
    cache["length"] = stop
    return all_k[:, :, :stop], all_v[:, :, :stop]


def cached_attention(x, attn, cache):
    b, n, h = x.shape[0], x.shape[1], cache["k"].shape[1]
    q, k, v = attn.w_q(x), attn.w_k(x), attn.w_v(x)
    q = einops.rearrange(q, "b n (h d) -> b h n d", h=h)
    k = einops.rearrange(k, "b n (h d) -> b h n d", h=h)
    v = einops.rearrange(v, "b n (h d) -> b h n d", h=h)
    start, stop = cache["length"], cache["length"] + n
    cache["k"][:, :, start:stop] = k
    cache["v"][:, :, start:stop] = v
    cache["length"] += n
    keys, values = cache["k"][:, :, :stop], cache["v"][:, :, :stop]
    products = q @ keys.mT
    scores = products / math.sqrt(q.shape[-1])
    allowed = attnlib.causal_mask(n, keys.shape[2], device=x.device)
    masked = scores.masked_fill(~allowed, -math.inf)
    shares = masked.softmax(dim=-1)
    output = shares @ values
    joined = einops.rearrange(output, "b h n d -> b n (h d)")
    mixed = attn.w_o(joined)
    return mixed


# fmt: off
def write_with_cache(model, ids, num_tokens):
    heads = model.blocks[0].attn.num_heads
    width = model.embed.weight.shape[1] // heads
    room = ids.shape[1] + num_tokens
    empty = model.embed.weight.new_zeros(len(ids), heads, room, width)
    caches = [{"k": empty.clone(), "v": empty.clone(), "length": 0} for _ in model.blocks]
    unread = ids
    for _ in range(num_tokens):
        begin = caches[0]["length"]
        places = torch.arange(begin, begin + unread.shape[1], device=ids.device)
        with torch.no_grad():
            x = model.embed(unread) + model.positions(places)
            for block, cache in zip(model.blocks, caches):
                seen = block.norm1(x)
                q, k, v = (attnlib.split_heads(w(seen), heads) for w in (block.attn.w_q, block.attn.w_k, block.attn.w_v))
                stop = cache["length"] + k.shape[2]
                cache["k"][:, :, cache["length"] : stop] = k
                cache["v"][:, :, cache["length"] : stop] = v
                cache["length"] = stop
                keys, values = cache["k"][:, :, :stop], cache["v"][:, :, :stop]
                allowed = attnlib.causal_mask(k.shape[2], stop, device=ids.device)
                found = attnlib.scaled_dot_product_attention(q, keys, values, mask=allowed)
                x = x + block.attn.w_o(attnlib.merge_heads(found))
                x = x + block.mlp(block.norm2(x))
            logits = model.head(model.norm(x))
        newest = logits[:, -1:].argmax(dim=-1)
        ids = torch.cat([ids, newest], dim=1)
        unread = newest
    return ids
# fmt: on


def grouped_query_attention(q, k, v):
    h, g = q.shape[1], k.shape[1]
    if h % g:
        raise ValueError(f"the number of heads must be a multiple of the number of groups, got {h} and {g}")
    k, v = k.repeat_interleave(h // g, dim=1), v.repeat_interleave(h // g, dim=1)
    products = q @ k.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    output = weights @ v
    return output


def mend_rolling_cache(q, k, v, cache):
    window = cache["k"].shape[2]
    slot = cache["length"] % window
    seen = min(cache["length"] + 1, window)
    cache["k"][:, :, slot], cache["v"][:, :, slot] = k[:, :, 0], v[:, :, 0]
    cache["length"] += 1
    keys, values = cache["k"][:, :, :seen], cache["v"][:, :, :seen]
    products = q @ keys.mT
    scores = products / math.sqrt(q.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ values


def accept(draft_p, target_p, tokens):
    q = draft_p.gather(-1, tokens[..., None])[..., 0]
    p = target_p[:, :-1].gather(-1, tokens[..., None])[..., 0]
    chance = p / q
    draws = torch.rand(tokens.shape, device=tokens.device)
    accepted = draws < chance
    count = accepted.long().cumprod(dim=-1).sum(dim=-1)
    missing = (target_p[:, :-1] - draft_p).clamp(min=0)
    shares = torch.cat([missing, target_p[:, -1:]], dim=1)
    chosen = shares[torch.arange(len(count), device=count.device), count]
    last = torch.multinomial(chosen, 1)
    places = torch.arange(shares.shape[1], device=count.device)
    row = torch.cat([tokens, last], dim=1)
    written = torch.where(places == count[:, None], last, row)
    return written.masked_fill(places > count[:, None], -1)
