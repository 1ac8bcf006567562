"""Right answers of lesson 09 about the cache, written in other ways."""

import math

import torch
import torch.nn.functional as F
from einops import einsum, rearrange

import attnlib


def appended_in_a_loop(cache, k, v):
    n = k.size(2)
    if cache["length"] + n > cache["k"].size(2):
        raise ValueError("full")
    for i in range(n):
        cache["k"][:, :, cache["length"]] = k[:, :, i]
        cache["v"][:, :, cache["length"]] = v[:, :, i]
        cache["length"] += 1
    return cache["k"][:, :, : cache["length"]], cache["v"][:, :, : cache["length"]]


def appended_by_narrow(cache, k, v):
    old, new = cache["length"], k.shape[-2]
    if old + new > cache["v"].shape[-2]:
        raise ValueError(f"{old} and {new} positions do not fit into {cache['v'].shape[-2]}")
    for name, numbers in (("k", k), ("v", v)):
        cache[name].narrow(2, old, new).copy_(numbers)
    cache.update(length=old + new)
    return [cache[name].narrow(2, 0, old + new) for name in ("k", "v")]


def appended_by_index(cache, k, v):
    places = torch.arange(cache["length"], cache["length"] + k.shape[2], device=k.device)
    if places[-1:].tolist() and cache["length"] + len(places) > cache["k"].shape[2]:
        raise ValueError("no room")
    cache["k"].index_copy_(2, places, k)
    cache["v"].index_copy_(2, places, v)
    cache["length"] = cache["length"] + len(places)
    return cache["k"][..., : cache["length"], :], cache["v"][..., : cache["length"], :]


def appended_with_the_length_first(cache, k, v):
    room = cache["k"].shape[2] - cache["length"]
    if room < k.shape[2]:
        raise ValueError(f"room for {room} more, got {k.shape[2]}")
    cache["length"] += k.shape[2]
    keys, values = cache["k"][:, :, : cache["length"]], cache["v"][:, :, : cache["length"]]
    keys[:, :, -k.shape[2] :], values[:, :, -v.shape[2] :] = k, v
    return keys, values


@torch.no_grad()
def appended_through_views(cache, k, v):
    """Writes to each buffer through another view of its memory."""
    a, b = cache["length"], cache["length"] + k.shape[2]
    if b > cache["k"].shape[2]:
        raise ValueError("full")
    for name, new in {"k": k, "v": v}.items():
        cache[name].transpose(1, 2)[:, a:b].copy_(new.transpose(1, 2))
    cache["length"] = b
    return cache["k"][:, :, :b], cache["v"][:, :, :b].clone()


def cached_by_einops(x, weights, cache):
    (_, h, _, d), m = cache["k"].shape, cache["length"]
    q, k, v = (rearrange(x @ weights[f"w_{name}"], "b n (h d) -> b h n d", h=h) for name in "qkv")
    places = m + torch.arange(x.shape[1], device=x.device)
    keys, values = appended_by_narrow(cache, attnlib.rotate(k, places), v)
    scores = einsum(attnlib.rotate(q, places), keys, "b h q d, b h k d -> b h q k") / math.sqrt(d)
    blocked = torch.ones_like(scores, dtype=torch.bool).triu(m + 1)
    found = scores.masked_fill(blocked, -math.inf).softmax(-1) @ values
    return rearrange(found, "b h n d -> b n (h d)") @ weights["w_o"]


def cached_word_by_word(x, weights, cache):
    """A word sees what is in the cache, and itself: no mask."""
    outputs = []
    for word in x.split(1, dim=1):
        place = torch.tensor([cache["length"]], device=x.device)
        heads = cache["k"].shape[1]
        q, k, v = (attnlib.split_heads(word @ weights[n], heads) for n in ("w_q", "w_k", "w_v"))
        keys, values = appended_in_a_loop(cache, attnlib.rotate(k, place), v)
        found = attnlib.scaled_dot_product_attention(attnlib.rotate(q, place), keys, values)
        outputs.append(attnlib.merge_heads(found) @ weights["w_o"])
    return torch.cat(outputs, dim=1)


def cached_with_torch(x, weights, cache):
    b, n, _ = x.shape
    _, h, _, d = cache["k"].shape
    start = cache["length"]
    q = (x @ weights["w_q"]).view(b, n, h, d).transpose(1, 2)
    k = (x @ weights["w_k"]).view(b, n, h, d).transpose(1, 2)
    v = (x @ weights["w_v"]).view(b, n, h, d).transpose(1, 2)
    rotary = attnlib.Rotary(d)
    cache["k"][:, :, start : start + n] = rotary(k, offset=start)
    cache["v"][:, :, start : start + n] = v
    cache["length"] += n
    keys, values = cache["k"][:, :, : start + n], cache["v"][:, :, : start + n]
    mask = torch.ones(start + n, start + n, dtype=torch.bool, device=x.device).tril()[-n:]
    found = F.scaled_dot_product_attention(rotary(q, offset=start), keys, values, attn_mask=mask)
    return found.transpose(1, 2).reshape(b, n, h * d) @ weights["w_o"]


def cached_over_the_whole_buffer(x, weights, cache):
    """The mask covers what is empty, too."""
    heads, start, room = cache["k"].shape[1], cache["length"], cache["k"].shape[2]
    q, k, v = (attnlib.split_heads(x @ weights[name], heads) for name in ("w_q", "w_k", "w_v"))
    places = torch.arange(start, start + x.shape[1], device=x.device)
    appended_by_index(cache, attnlib.rotate(k, places), v)
    mask = torch.arange(room, device=x.device) <= places[:, None]
    found = attnlib.scaled_dot_product_attention(attnlib.rotate(q, places), cache["k"], cache["v"], mask=mask)
    return attnlib.merge_heads(found) @ weights["w_o"]


class CachedHeads:
    """Head by head, with a packed product."""

    def __call__(self, x, weights, cache):
        print("cache:", cache["length"])
        heads, start = cache["k"].shape[1], cache["length"]
        packed = x @ torch.cat([weights["w_q"], weights["w_k"], weights["w_v"]], dim=1)
        q, k, v = packed.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        places = torch.arange(x.shape[1], device=x.device).add(start)
        keys, values = appended_with_the_length_first(cache, attnlib.rotate(k, places), v)
        mask, q = attnlib.causal_mask(len(places), keys.shape[2], device=x.device), attnlib.rotate(q, places)
        found = []
        for head in range(heads):
            scores = q[:, head] @ keys[:, head].mT * q.shape[-1] ** -0.5
            found.append(attnlib.masked_softmax(scores, mask) @ values[:, head])
        return torch.cat(found, dim=-1) @ weights["w_o"]


def bytes_by_loop(batch, layers, kv_heads, lengths, d_head, number_bytes):
    total = torch.zeros_like(lengths)
    for _ in range(layers):
        for _what in ("keys", "values"):
            total = total + batch * kv_heads * d_head * lengths * number_bytes
    return total


def bytes_one_by_one(batch, layers, kv_heads, lengths, d_head, number_bytes):
    return torch.tensor([2 * batch * layers * kv_heads * n * d_head * number_bytes for n in lengths.tolist()])


def bytes_by_factor(*sizes):
    lengths = sizes[3]
    return lengths * math.prod(size for i, size in enumerate(sizes) if i != 3) * 2


def bytes_of_a_token(batch, layers, kv_heads, lengths, d_head, number_bytes):
    token = layers * (kv_heads * d_head + kv_heads * d_head) * number_bytes
    return torch.mul(lengths, token * batch)


def bytes_of_tensors(batch, layers, kv_heads, lengths, d_head, number_bytes):
    one = torch.empty(2, batch, layers, kv_heads, d_head, dtype=torch.uint8, device="meta").numel()
    return (lengths.long() * one) * number_bytes


def rolled_with_a_mask(q, k, v, cache):
    window = cache["k"].shape[2]
    slot = cache["length"] % window
    cache["k"][:, :, slot : slot + 1], cache["v"][:, :, slot : slot + 1] = k, v
    cache["length"] += 1
    filled = torch.arange(window, device=q.device) < cache["length"]
    return attnlib.scaled_dot_product_attention(q, cache["k"], cache["v"], mask=filled)


def rolled_by_divmod(q, k, v, cache):
    rounds, slot = divmod(cache["length"], cache["k"].size(-2))
    for name, new in (("k", k), ("v", v)):
        cache[name][..., slot, :] = new.squeeze(-2)
    cache["length"] = cache["length"] + 1
    seen = cache["k"].size(-2) if rounds else slot + 1
    scores = q @ cache["k"][..., :seen, :].mT * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ cache["v"][..., :seen, :]


def rolled_in_order(q, k, v, cache):
    """The oldest is always in front: everything moves by one. Slower, and as right, if the ring is given in order."""
    window, length = cache["k"].shape[2], cache["length"]
    slot = length % window
    cache["k"][:, :, [slot]], cache["v"][:, :, [slot]] = k, v
    cache["length"] += 1
    order = [i % window for i in range(max(0, length + 1 - window), length + 1)]
    return F.scaled_dot_product_attention(q, cache["k"][:, :, order], cache["v"][:, :, order])


def rolled_by_scatter(q, k, v, cache):
    window = cache["k"].shape[2]
    place = torch.tensor([cache["length"] % window], device=q.device)
    cache["k"].index_copy_(2, place, k)
    cache["v"].index_copy_(2, place, v)
    cache.update(length=cache["length"] + 1)
    seen = min(window, cache["length"])
    weights = torch.einsum("bhqd,bhkd->bhqk", q, cache["k"][:, :, :seen]).div(q.shape[-1] ** 0.5).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, cache["v"][:, :, :seen])


def rolled_with_blocked_scores(q, k, v, cache):
    window = cache["k"].shape[2]
    slot = cache["length"]
    while slot >= window:
        slot -= window
    cache["k"][:, :, slot] = k[:, :, 0]
    cache["v"][:, :, slot] = v[:, :, 0]
    scores = q @ cache["k"].transpose(-2, -1) / q.shape[-1] ** 0.5
    if cache["length"] < window - 1:
        scores[..., cache["length"] + 1 :] = -torch.inf
    cache["length"] += 1
    return scores.softmax(dim=-1) @ cache["v"]


ALTERNATIVES = {
    "append_to_cache": [
        appended_in_a_loop,
        appended_by_narrow,
        appended_by_index,
        appended_with_the_length_first,
        appended_through_views,
    ],
    "cached_attention": [
        cached_by_einops,
        cached_word_by_word,
        cached_with_torch,
        cached_over_the_whole_buffer,
        CachedHeads(),
    ],
    "cache_bytes": [
        bytes_by_loop,
        bytes_one_by_one,
        bytes_by_factor,
        bytes_of_a_token,
        bytes_of_tensors,
    ],
    "mend_rolling_cache": [
        rolled_with_a_mask,
        rolled_by_divmod,
        rolled_in_order,
        rolled_by_scatter,
        rolled_with_blocked_scores,
    ],
}
