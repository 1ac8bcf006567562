"""Lesson 12: the programs whose lines `slips.md` replaces."""

import torch
import torch.nn.functional as F
from torch import nn

import attnlib


class SharedEncoder(nn.Module):
    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.depth = depth
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-12)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-12)
        self.mlp = attnlib.FeedForward(d_model, d_hidden)

    def forward(self, x):
        seen = []
        for _ in range(self.depth):
            found, weights = self.attn(x, return_weights=True)
            first = self.norm1(x + found)
            thought = self.mlp(first)
            x = self.norm2(first + thought)
            seen.append(weights)
        tables = torch.stack(seen, dim=1)
        return x, tables


def load_encoder(encoder, weights, x):
    at = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    attn, mlp = encoder.attn, encoder.mlp
    layers = {
        "attention.query": attn.w_q,
        "attention.key": attn.w_k,
        "attention.value": attn.w_v,
        "attention.dense": attn.w_o,
        "attention.LayerNorm": encoder.norm1,
        "ffn": mlp.up,
        "ffn_output": mlp.down,
        "full_layer_layer_norm": encoder.norm2,
    }
    with torch.no_grad():
        for name, layer in layers.items():
            weight = weights[at + name + ".weight"]
            bias = weights[at + name + ".bias"]
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
    output, tables = encoder(x)
    return output, tables


def fill_in(model, ids, position, k, mask_id):
    masked = ids.clone()
    masked[position] = mask_id
    logits = model(masked[None])[0]
    row = logits[position]
    chances = row.softmax(dim=-1)
    top = chances.topk(k)
    return top.indices, top.values


def mend_tables(weights, ids):
    words = weights["albert.embeddings.word_embeddings.weight"][ids]
    places = weights["albert.embeddings.position_embeddings.weight"][: ids.shape[1]]
    kinds = weights["albert.embeddings.token_type_embeddings.weight"]
    gain = weights["albert.embeddings.LayerNorm.weight"]
    bias = weights["albert.embeddings.LayerNorm.bias"]
    total = words + places + kinds[0]
    normed = F.layer_norm(total, gain.shape, gain, bias, eps=1e-12)
    widen = weights["albert.encoder.embedding_hidden_mapping_in.weight"]
    shift = weights["albert.encoder.embedding_hidden_mapping_in.bias"]
    return F.linear(normed, widen, shift)


def atom_map(weights, before, after, elements):
    asks = weights[..., after, :][..., before]
    is_asked = weights[..., before, :][..., after].mT
    same = elements[after][:, None] == elements[before]
    both = asks + is_asked
    own = both * same
    total = own.sum(dim=-1, keepdim=True)
    shares = own / total.masked_fill(total == 0, 1)
    largest = shares.argmax(dim=-1)
    origins = largest.masked_fill(~same.any(dim=-1), -1)
    return origins, shares


def find_head(origins, truths, partners):
    right, guessed = [], []
    for origin, truth, partner in zip(origins, truths, partners):
        atoms = torch.arange(len(truth))
        found = truth[atoms, origin]
        hit = found & (origin >= 0)
        good = (truth & partner).sum(dim=1)
        possible = partner.sum(dim=1).clamp(min=1)
        right.append(hit)
        guessed.append(good / possible)
    every = torch.cat(right, dim=-1).float()
    hits = every.mean(dim=-1)
    chance = torch.cat(guessed).mean()
    best = hits.argmax()
    layer, head = best // hits.shape[1], best % hits.shape[1]
    return hits, chance, torch.stack([layer, head])
