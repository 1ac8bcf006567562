"""Right answers of lesson 11, written in other ways: taking heads out, multiplying them out, patching one path."""

import contextlib
import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, einsum

import attnlib


def ablated_by_einops(model, ids, layer, head, mean=False):
    """Change the heads in place: nobody else uses the input of w_o."""
    at = model.layers[layer]

    def hook(module, args):
        (z,) = args
        heads = z.unflatten(-1, (at.num_heads, -1))
        with torch.no_grad():
            heads[:, :, head] = heads[:, :, head].mean((0, 1), keepdim=True) if mean else 0

    handle = at.w_o.register_forward_pre_hook(hook)
    with torch.no_grad():
        try:
            return model(ids)
        finally:
            handle.remove()


def ablated_in_a_copy(model, ids, layer, head, mean=False):
    model = copy.deepcopy(model)
    w_o = model.layers[layer].w_o
    d = w_o.weight.shape[1] // model.layers[layer].num_heads
    keep = torch.ones(w_o.in_features, dtype=w_o.weight.dtype)
    keep[head * d : head * d + d] = 0

    def hook(_, inputs):
        average = inputs[0].flatten(0, 1).mean(0) if mean else 0
        return inputs[0] * keep + (1 - keep) * average

    w_o.register_forward_pre_hook(hook)
    return model(ids)


def ablated_in_the_weights(model, ids, layer, head, mean=False):
    """A constant that the head hands on is a constant that w_o writes."""
    at = model.layers[layer]
    d_head, seen = at.w_o.in_features // at.num_heads, []
    columns = list(range(head * d_head, (head + 1) * d_head))
    with at.w_o.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])), torch.no_grad():
        model(ids)
    before = at.w_o.weight.detach().clone()
    constant = seen[0][..., columns].mean(dim=1).mean(dim=0) @ before[:, columns].T
    try:
        with torch.no_grad():
            at.w_o.weight[:, columns] = 0
            x = model.embed(ids)
            for i, other in enumerate(model.layers):
                x = x + other(x) + (constant if mean and i == layer else 0)
            return model.unembed(x)
    finally:
        with torch.no_grad():
            at.w_o.weight.copy_(before)


def heads_of(at, x):
    """Return what the heads of a layer pass to w_o, (b, h, n, d)."""
    q, k, v = (attnlib.split_heads(project(x), at.num_heads) for project in (at.w_q, at.w_k, at.w_v))
    places = torch.arange(x.shape[1])
    q, k = (attnlib.rotate(t, places) for t in (q, k))
    return attnlib.scaled_dot_product_attention(q, k, v, is_causal=True)


def ablated_without_hooks(model, ids, layer, head, mean=False):
    x = model.embed.weight[ids]
    for i, at in enumerate(model.layers):
        heads = list(heads_of(at, x).unbind(1))
        if i == layer:
            z = heads[head]
            heads[head] = z.mean(dim=[0, 1]).expand_as(z) if mean else z * 0
        x = x + torch.cat(heads, dim=-1) @ at.w_o.weight.mT
    return x @ model.unembed.weight.mT


def ablated_by_another_forward(model, ids, layer, head, mean=False):
    w_o = model.layers[layer].w_o
    d_head = w_o.in_features // model.layers[layer].num_heads

    def forward(z):
        own = torch.arange(z.shape[-1]) // d_head == head
        new = z.mean(dim=(0, 1), keepdim=True) if mean else torch.zeros_like(z)
        return torch.nn.functional.linear(torch.where(own, new, z), w_o.weight)

    w_o.forward = forward
    try:
        return model(ids)
    finally:
        del w_o.forward


def ablated_by_subtraction(model, ids, layer, head, mean=False):
    """The other heads do not change: take out what this one has written."""
    at, x = model.layers[layer], model.embed(ids)
    for before in model.layers[:layer]:
        x = x + before(x)
    d = at.w_o.in_features // at.num_heads
    z = heads_of(at, x)[:, head]
    gone = z - z.mean((0, 1)) if mean else z
    x = x + at(x) - gone @ at.w_o.weight[:, d * head : d * (head + 1)].T
    for behind in model.layers[layer + 1 :]:
        x = x + behind(x)
    return model.unembed(x)


def circuit_by_multi_dot(model, layer, head):
    at = model.layers[layer]
    d = at.w_v.out_features // at.num_heads
    rows = slice(head * d, head * d + d)
    w_v, w_o = at.w_v.weight[rows], at.w_o.weight[:, rows]
    return torch.linalg.multi_dot([model.embed.weight, w_v.T, w_o.T, model.unembed.weight.T])


def circuit_by_einsum(model, layer, head):
    at = model.layers[layer]
    w_v = at.w_v.weight.unflatten(0, (at.num_heads, -1))
    w_o = at.w_o.weight.unflatten(1, (at.num_heads, -1))
    return einsum("xa,da,bd,yb->xy", model.embed.weight, w_v[head], w_o[:, head], model.unembed.weight)


@torch.no_grad()
def circuit_by_the_layers(model, layer, head):
    """Each layer is a function: give it the embedding of every token."""
    at = model.layers[layer]
    own = torch.arange(at.w_v.out_features, device=model.embed.weight.device) // (at.w_v.out_features // at.num_heads)
    values = at.w_v(model.embed.weight) * (own == head)
    return model.unembed(at.w_o(values))


def circuit_token_by_token(model, layer, head):
    at = model.layers[layer]
    part = [weight.detach().chunk(at.num_heads, dim) for weight, dim in ((at.w_v.weight, 0), (at.w_o.weight, 1))]
    w_v, w_o = part[0][head], part[1][head]
    rows = [model.unembed.weight @ (w_o @ (w_v @ vector)) for vector in model.embed.weight]
    return torch.stack(rows)


def circuit_as_a_transpose(model, layer, head):
    at = model.layers[layer]
    d = at.w_o.weight.shape[-1] // at.num_heads
    begin, end = head * d, (head + 1) * d
    w_ov = at.w_o.weight[:, begin:end] @ at.w_v.weight[begin:end, :]
    return (model.unembed.weight @ w_ov @ model.embed.weight.T).T


def written_by(model, ids, head):
    at = model.layers[0]
    own = slice(*(i * (at.w_o.in_features // at.num_heads) for i in (head, head + 1)))
    return heads_of(at, model.embed(ids))[:, head] @ at.w_o.weight[:, own].T


def patched_without_w_o(model, ids, other, head):
    """Compute what the head writes beside the model, and add the change."""
    change = written_by(model, other, head) - written_by(model, ids, head)
    handle = model.layers[1].w_k.register_forward_pre_hook(lambda _, inputs: (inputs[0] + change,))
    try:
        return model(ids)
    finally:
        handle.remove()


def patched_behind_w_k(model, ids, other, head):
    """w_k is linear: what is added before it may be added behind it."""
    w_k = model.layers[1].w_k
    change = w_k(written_by(model, other, head)) - w_k(written_by(model, ids, head))
    with w_k.register_forward_hook(lambda _, inputs, output: output + change):
        return model(ids)


def patched_without_hooks(model, ids, other, head):
    x = model.embed(ids)
    first, second = model.layers[0], model.layers[1]
    x = x + first(x)
    for_keys = x - written_by(model, ids, head) + written_by(model, other, head)
    q, k, v = (attnlib.split_heads(t, second.num_heads) for t in (second.w_q(x), second.w_k(for_keys), second.w_v(x)))
    turn = attnlib.Rotary(k.shape[-1])
    z = attnlib.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
    x = x + second.w_o(attnlib.merge_heads(z))
    for layer in model.layers[2:]:
        x = x + layer(x)
    return model.unembed(x)


def patched_from_a_cache(model, ids, other, head):
    cache = {}
    first, d = model.layers[0], model.layers[0].w_o.in_features // model.layers[0].num_heads
    own = torch.arange(head * d, (head + 1) * d)

    def keep(name):
        def hook(_, inputs):
            cache[name] = inputs[0].index_select(-1, own)

        return hook

    def patch(_, inputs):
        return inputs[0] + (cache["other"] - cache["ids"]) @ first.w_o.weight[:, own].T

    with torch.no_grad(), contextlib.ExitStack() as hooks:
        with first.w_o.register_forward_pre_hook(keep("other")):
            model(other)
        hooks.enter_context(first.w_o.register_forward_pre_hook(keep("ids")))
        hooks.enter_context(model.layers[1].w_k.register_forward_pre_hook(patch))
        return model(ids)


def patched_in_a_copy(model, ids, other, head):
    twin = copy.deepcopy(model)
    d = twin.layers[0].w_o.in_features // twin.layers[0].num_heads
    with torch.no_grad():
        for i in range(twin.layers[0].num_heads):
            if i != head:
                twin.layers[0].w_o.weight[:, i * d : (i + 1) * d] = 0
        there, here = (twin.layers[0](twin.embed(sentence)) for sentence in (other, ids))
    twin = copy.deepcopy(model)
    twin.layers[1].w_k.register_forward_pre_hook(lambda _, inputs: (inputs[0] - here + there,))
    return twin(ids)


def ablate_head(model: Any, ids: Tensor, layer: int, head: int, mean: bool = False) -> Tensor:
    """The sum over heads can be written out, so one of its terms can be changed without any hook."""
    x = model.embed(ids)
    for number, attn in enumerate(model.layers):
        q, k, v = (attnlib.split_heads(w(x), attn.num_heads) for w in (attn.w_q, attn.w_k, attn.w_v))
        z = F.scaled_dot_product_attention(attn.rotary(q), attn.rotary(k), v, is_causal=True)
        if number == layer:
            z = z.clone()
            z[:, head] = z[:, head].mean(dim=(0, 1)) if mean else 0.0
        x = x + attn.w_o(attnlib.merge_heads(z))
    logits: Tensor = model.unembed(x)
    return logits


def ov_circuit(model: Any, layer: int, head: int) -> Tensor:
    """Each layer is a function of vectors: give it all embeddings at once, and close the other heads' columns."""
    attn = model.layers[layer]
    values = attn.w_v(model.embed.weight).unflatten(-1, (attn.num_heads, -1))  # (V, h, d_head)
    own = torch.zeros_like(values)
    own[:, head] = values[:, head]
    logits: Tensor = model.unembed(attn.w_o(own.flatten(-2)))
    return logits


ALTERNATIVES = {
    "ablate_head": [
        ablate_head,
        ablated_by_einops,
        ablated_in_a_copy,
        ablated_in_the_weights,
        ablated_without_hooks,
        ablated_by_another_forward,
        ablated_by_subtraction,
    ],
    "ov_circuit": [
        ov_circuit,
        circuit_by_multi_dot,
        circuit_by_einsum,
        circuit_by_the_layers,
        circuit_token_by_token,
        circuit_as_a_transpose,
    ],
    "path_patch": [
        patched_without_w_o,
        patched_behind_w_k,
        patched_without_hooks,
        patched_from_a_cache,
        patched_in_a_copy,
    ],
}
