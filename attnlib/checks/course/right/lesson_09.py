"""Right answers of lesson 09 about the cache, written in other ways."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor

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


def cached_by_einops(x, attn, cache):
    (_, h, _, d), m = cache["k"].shape, cache["length"]
    q, k, v = (rearrange(getattr(attn, f"w_{name}")(x), "b n (h d) -> b h n d", h=h) for name in "qkv")
    keys, values = appended_by_narrow(cache, k, v)
    scores = einsum(q, keys, "b h q d, b h k d -> b h q k") / math.sqrt(d)
    blocked = torch.ones_like(scores, dtype=torch.bool).triu(m + 1)
    found = scores.masked_fill(blocked, -math.inf).softmax(-1) @ values
    return attn.w_o(rearrange(found, "b h n d -> b n (h d)"))


def cached_word_by_word(x, attn, cache):
    """A word sees what is in the cache, and itself: no mask."""
    outputs = []
    for word in x.split(1, dim=1):
        heads = cache["k"].shape[1]
        q, k, v = (attnlib.split_heads(layer(word), heads) for layer in (attn.w_q, attn.w_k, attn.w_v))
        keys, values = appended_in_a_loop(cache, k, v)
        outputs.append(attn.w_o(attnlib.merge_heads(attnlib.scaled_dot_product_attention(q, keys, values))))
    return torch.cat(outputs, dim=1)


def cached_with_torch(x, attn, cache):
    b, n, _ = x.shape
    _, h, _, d = cache["k"].shape
    start = cache["length"]
    q = attn.w_q(x).view(b, n, h, d).transpose(1, 2)
    cache["k"][:, :, start : start + n] = attn.w_k(x).view(b, n, h, d).transpose(1, 2)
    cache["v"][:, :, start : start + n] = attn.w_v(x).view(b, n, h, d).transpose(1, 2)
    cache["length"] += n
    keys, values = cache["k"][:, :, : start + n], cache["v"][:, :, : start + n]
    mask = torch.ones(start + n, start + n, dtype=torch.bool, device=x.device).tril()[-n:]
    found = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    return attn.w_o(found.transpose(1, 2).reshape(b, n, h * d))


def cached_over_the_whole_buffer(x, attn, cache):
    """The mask covers what is empty, too."""
    heads, start, room = cache["k"].shape[1], cache["length"], cache["k"].shape[2]
    q, k, v = (attnlib.split_heads(layer(x), heads) for layer in (attn.w_q, attn.w_k, attn.w_v))
    appended_by_index(cache, k, v)
    mask = torch.arange(room, device=x.device) <= start + torch.arange(x.shape[1], device=x.device)[:, None]
    found = attnlib.scaled_dot_product_attention(q, cache["k"], cache["v"], mask=mask)
    return attn.w_o(attnlib.merge_heads(found))


class CachedHeads:
    """Head by head."""

    def __call__(self, x, attn, cache):
        print("cache:", cache["length"])
        heads = cache["k"].shape[1]
        q, k, v = (layer(x).unflatten(-1, (heads, -1)).transpose(1, 2) for layer in (attn.w_q, attn.w_k, attn.w_v))
        keys, values = appended_with_the_length_first(cache, k, v)
        mask = attnlib.causal_mask(x.shape[1], keys.shape[2], device=x.device)
        found = []
        for head in range(heads):
            scores = q[:, head] @ keys[:, head].mT * q.shape[-1] ** -0.5
            found.append(attnlib.masked_softmax(scores, mask) @ values[:, head])
        return attn.w_o(torch.cat(found, dim=-1))


def caches_for(model, batch, room):
    heads, weight = model.blocks[0].attn.num_heads, model.embed.weight
    shape = batch, heads, room, weight.shape[1] // heads
    return [{"k": weight.new_zeros(shape), "v": weight.new_zeros(shape), "length": 0} for _ in model.blocks]


def read_on(model, ids, caches, attend):
    x = model.embed(ids) + model.positions(caches[0]["length"] + torch.arange(ids.shape[1], device=ids.device))
    for block, cache in zip(model.blocks, caches, strict=True):
        x = x + attend(block.norm1(x), block.attn, cache)
        x = x + block.mlp(block.norm2(x))
    return model.head(model.norm(x))


@torch.no_grad()
def written_in_two_steps(model, ids, num_tokens):
    caches = caches_for(model, len(ids), ids.shape[1] + num_tokens)
    logits = read_on(model, ids, caches, cached_by_einops)
    for step in range(num_tokens):
        new = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
        if step < num_tokens - 1:
            logits = read_on(model, new, caches, cached_by_einops)
    return ids


@torch.inference_mode()
def written_token_by_token(model, ids, num_tokens):
    """The prompt as well goes in one by one."""
    caches, n = caches_for(model, len(ids), model.max_len), ids.shape[1]
    for i in range(n + num_tokens - 1):
        logits = read_on(model, ids[:, i : i + 1], caches, cached_with_torch)
        if i >= n - 1:
            ids = torch.cat([ids, logits[:, 0].argmax(-1)[:, None]], dim=1)
    return ids.clone()


@torch.no_grad()
def written_row_by_row(model, ids, num_tokens):
    """Each text has caches of its own, and each token is looked up without an axis for the words."""
    texts = []
    for prompt in ids:
        caches, text = caches_for(model, 1, len(prompt) + num_tokens), list(prompt)
        for place in range(len(prompt) + num_tokens - 1):
            x = (model.embed(text[place]) + model.positions.weight[place])[None, None]
            for block, cache in zip(model.blocks, caches, strict=True):
                x = x + cached_by_einops(block.norm1(x), block.attn, cache)
                x = x + block.mlp(block.norm2(x))
            if place == len(text) - 1:
                text.append(model.head(model.norm(x))[0, 0].argmax())
        texts.append(torch.stack(text))
    return torch.stack(texts)


@torch.no_grad()
def written_by_concatenation(model, ids, num_tokens):
    """A cache that grows by torch.cat is slower, and as right."""
    kept, unread, written = [None] * len(model.blocks), ids, [ids]
    for _ in range(num_tokens):
        start = 0 if kept[0] is None else kept[0][0].shape[2]
        x = model.embed(unread) + model.positions.weight[start : start + unread.shape[1]]
        for i, block in enumerate(model.blocks):
            attn, seen = block.attn, block.norm1(x)
            q, k, v = (attnlib.split_heads(w(seen), attn.num_heads) for w in (attn.w_q, attn.w_k, attn.w_v))
            if kept[i] is not None:
                k, v = torch.cat([kept[i][0], k], 2), torch.cat([kept[i][1], v], 2)
            kept[i] = k, v
            x = x + attn.w_o(attnlib.merge_heads(attnlib.scaled_dot_product_attention(q, k, v, is_causal=True)))
            x = x + block.mlp(block.norm2(x))
        unread = model.head(model.norm(x[:, -1:])).argmax(-1)
        written.append(unread)
    return torch.cat(written, dim=1)


@torch.no_grad()
def written_into_a_table(model, ids, num_tokens):
    n = ids.shape[1]
    table = F.pad(ids, (0, num_tokens))
    caches, start = caches_for(model, len(ids), table.shape[1]), 0
    for stop in range(n, n + num_tokens):
        table[:, stop] = read_on(model, table[:, start:stop], caches, cached_over_the_whole_buffer)[:, -1].argmax(-1)
        start = stop
    return table


class Writer:
    def __call__(self, model, ids, num_tokens):
        was_training = model.training
        model.eval()
        caches, attend = caches_for(model, ids.shape[0], ids.shape[1] + num_tokens), CachedHeads()
        unread = ids
        for _ in range(num_tokens):
            unread = read_on(model, unread, caches, attend)[:, -1:].detach().topk(1).indices[..., 0]
            ids = torch.cat((ids, unread), dim=-1)
        model.train(was_training)
        return ids


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


def append_to_cache(cache: dict[str, Any], k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The views are made first, and their last n positions written: the result is part of the buffer itself."""
    length = cache["length"] + k.shape[2]
    if length > cache["k"].shape[2]:
        raise ValueError(f"there is room for {cache['k'].shape[2]} positions, got {length}")
    keys, values = (cache[name].narrow(2, 0, length) for name in ("k", "v"))
    keys[:, :, cache["length"] :], values[:, :, cache["length"] :] = k, v
    cache["length"] = length
    return keys, values


def mend_rolling_cache(q: Tensor, k: Tensor, v: Tensor, cache: dict[str, Any]) -> Tensor:
    """All slots are read, and a mask blocks those to which nothing has been written yet."""
    window = cache["k"].shape[2]
    slot = cache["length"] % window
    cache["k"][:, :, slot], cache["v"][:, :, slot] = k[:, :, 0], v[:, :, 0]
    cache["length"] += 1
    written = torch.arange(window, device=q.device) < cache["length"]
    weights = attnlib.masked_softmax(q @ cache["k"].mT / math.sqrt(q.shape[-1]), written)
    output: Tensor = weights @ cache["v"]
    return output


ALTERNATIVES = {
    "append_to_cache": [
        append_to_cache,
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
    "write_with_cache": [
        written_in_two_steps,
        written_token_by_token,
        written_row_by_row,
        written_by_concatenation,
        written_into_a_table,
        Writer(),
    ],
    "mend_rolling_cache": [
        mend_rolling_cache,
        rolled_with_a_mask,
        rolled_by_divmod,
        rolled_in_order,
        rolled_by_scatter,
        rolled_with_blocked_scores,
    ],
}
