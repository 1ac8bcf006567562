"""Right answers of lesson 12, written in other ways: a shared block, published weights, a mask, and a map of atoms."""

import math
from typing import Any

import einops
import torch
import torch.nn.functional as F
from torch import nn

import attnlib

AT = "albert.encoder.albert_layer_groups.0.albert_layers.0."


class SharedEncoder(nn.Module):
    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model, 1e-12), nn.LayerNorm(d_model, 1e-12)
        self.mlp = attnlib.FeedForward(d_model, d_hidden)
        self.depth = depth

    def forward(self, x):
        """The same layers are called in every round, so their weights exist once, however deep it is."""
        tables = []
        while len(tables) < self.depth:
            attended, table = self.attn(x, return_weights=True)
            x = self.norm1(attended + x)
            x = self.norm2(self.mlp(x) + x)
            tables += [table]
        return x, torch.stack(tables, 1)


class Heads(nn.Module):
    """Attention by hand."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            einops.rearrange(w(x), "b n (h d) -> b h n d", h=self.num_heads) for w in (self.w_q, self.w_k, self.w_v)
        )
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.w_o(einops.rearrange(weights @ v, "b h n d -> b n (h d)")), weights


class MLP(nn.Module):
    def __init__(self, d_model, d_hidden):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class EncoderOfOwnParts(nn.Module):
    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.depth = depth
        self.attn, self.mlp = Heads(d_model, num_heads), MLP(d_model, d_hidden)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-12)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-12)

    def block(self, x):
        attended, weights = self.attn(x)
        x = self.norm1(x + attended)
        return self.norm2(x + self.mlp(x)), weights

    def forward(self, x):
        seen = ()
        for _ in range(self.depth):
            x, weights = self.block(x)
            seen = (*seen, weights)
        return x, torch.stack(seen, dim=1)


class EncoderWithPlainNorms(nn.Module):
    class Norm(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))

        def forward(self, x):
            return attnlib.layer_norm(x, self.weight, self.bias, eps=1e-12)

    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.depth = depth
        self.norm1, self.norm2 = self.Norm(d_model), self.Norm(d_model)
        self.attn, self.mlp = Heads(d_model, num_heads), MLP(d_model, d_hidden)

    def forward(self, x):
        b, n, _ = x.shape
        tables = x.new_empty(b, self.depth, self.attn.num_heads, n, n)
        for layer in range(self.depth):
            y, table = self.attn(x)
            tables[:, layer] = table
            y = self.norm1(x + y)
            x = self.norm2(y + self.mlp(y))
        return x, tables


class EncoderByRecursion(nn.Module):
    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.rounds = depth
        self.norm1, self.norm2 = (nn.LayerNorm(d_model, eps=1e-12) for _ in range(2))
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, d_hidden, activation="gelu")

    def forward(self, x, left=None):
        left = self.rounds if left is None else left
        attended, weights = self.attn(x, return_weights=True)
        x = self.norm1(x + attended)
        x = self.norm2(x + self.mlp(x))
        if left == 1:
            return x, weights[:, None]
        x, later = self.forward(x, left - 1)
        return x, torch.cat([weights[:, None], later], dim=1)


class EncoderInSequence(nn.Module):
    """The layers' weights are joined on a new axis."""

    def __init__(self, d_model, num_heads, d_hidden, depth):
        super().__init__()
        self.depth = depth
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model, eps=1e-12)
        self.mlp = nn.Module()
        self.mlp.up = nn.Linear(d_model, d_hidden)
        self.mlp.down = nn.Linear(d_hidden, d_model)
        self.norm2 = nn.LayerNorm(d_model, eps=1e-12)

    def forward(self, x):
        kept = []
        for _ in range(self.depth):
            found, weights = self.attn(x, return_weights=True)
            x = self.norm1(x + found)
            up = self.mlp.up(x)
            x = self.norm2(x + self.mlp.down(up * 0.5 * (1 + torch.erf(up / math.sqrt(2)))))
            kept.append(weights.unsqueeze(1))
        return x, torch.cat(kept, dim=1)


def load_by_state_dict(encoder, weights, x):
    names = {
        "attn.w_q": "attention.query",
        "attn.w_k": "attention.key",
        "attn.w_v": "attention.value",
        "attn.w_o": "attention.dense",
        "norm1": "attention.LayerNorm",
        "mlp.up": "ffn",
        "mlp.down": "ffn_output",
        "norm2": "full_layer_layer_norm",
    }
    encoder.load_state_dict(
        {
            f"{ours}.{kind}": weights[f"{AT}{theirs}.{kind}"]
            for ours, theirs in names.items()
            for kind in ("weight", "bias")
        }
    )
    return encoder(x)


def load_encoder(encoder, weights, x):
    """Each layer is named beside its place in the file, so an exchange can be seen in one line."""

    def fill(layer, name):
        layer.load_state_dict({kind: weights[f"{AT}{name}.{kind}"] for kind in ("weight", "bias")})

    fill(encoder.attn.w_q, "attention.query")
    fill(encoder.attn.w_k, "attention.key")
    fill(encoder.attn.w_v, "attention.value")
    fill(encoder.attn.w_o, "attention.dense")
    fill(encoder.norm1, "attention.LayerNorm")
    fill(encoder.norm2, "full_layer_layer_norm")
    fill(encoder.mlp.up, "ffn")
    fill(encoder.mlp.down, "ffn_output")
    return encoder(x)


def load_as_parameters(encoder, weights, x):
    def layer_of(name):
        at = encoder
        for part in name.split("."):
            at = getattr(at, part)
        return at

    ours = ["attn.w_q", "attn.w_k", "attn.w_v", "attn.w_o", "norm1", "mlp.up", "mlp.down", "norm2"]
    theirs = ["attention.query", "attention.key", "attention.value", "attention.dense", "attention.LayerNorm"]
    theirs += ["ffn", "ffn_output", "full_layer_layer_norm"]
    for mine, published in zip(ours, theirs, strict=True):
        layer_of(mine).weight = nn.Parameter(weights[f"{AT}{published}.weight"].clone())
        layer_of(mine).bias = nn.Parameter(weights[f"{AT}{published}.bias"].clone())
    return encoder(x)


def load_by_their_names(encoder, weights, x):
    """From the file's side: what isn't the block's is passed over."""
    to = {
        "query": "attn.w_q",
        "key": "attn.w_k",
        "value": "attn.w_v",
        "dense": "attn.w_o",
        "LayerNorm": "norm1",
        "ffn": "mlp.up",
        "ffn_output": "mlp.down",
        "full_layer_layer_norm": "norm2",
    }
    mine = dict(encoder.named_parameters())
    for name, tensor in weights.items():
        if name.startswith(AT):
            *_, layer, kind = name.split(".")
            mine[f"{to[layer]}.{kind}"].data.copy_(tensor)
    return encoder(x)


def load_by_replacing(encoder, weights, x):
    def renamed(name):
        name = name.removeprefix(AT).replace("attention.dense", "attn.w_o").replace("attention.LayerNorm", "norm1")
        for word in ("query", "key", "value"):
            name = name.replace(f"attention.{word}", f"attn.w_{word[0]}")
        name = name.replace("full_layer_layer_norm", "norm2").replace("ffn_output", "mlp.down")
        return name.replace("ffn", "mlp.up")

    missing, unexpected = encoder.load_state_dict(
        {renamed(name): w for name, w in weights.items() if name.startswith(AT)}, strict=False
    )
    assert not missing
    assert not unexpected
    output, tables = encoder(x)
    return output, tables


def fill_in(model, ids, position, k, mask_id):
    """The mask goes into a copy, and the softmax runs over the whole vocabulary before k are chosen."""
    masked = ids.clone()
    masked[position] = mask_id
    chances, tokens = model(masked.unsqueeze(0)).softmax(dim=-1)[0, position].topk(k)
    return tokens, chances


def fill_in_by_sorting(model, ids, position, k, mask_id):
    masked = torch.cat([ids[:position], torch.tensor([mask_id]), ids[position + 1 :]])
    with torch.no_grad():
        row = model(masked[None])[0, position]
    order = row.argsort(descending=True)[:k]
    return order, (row - row.logsumexp(0)).exp()[order]


def fill_in_by_a_mask(model, ids, position, k, mask_id):
    here = torch.arange(len(ids)) == position
    chances = F.softmax(model(torch.where(here, mask_id, ids).view(1, -1)), dim=-1)[0][here][0]
    values, indices = chances.sort(descending=True)
    return indices[:k], values[:k]


def fill_in_one_by_one(model, ids, position, k, mask_id):
    numbers = ids.tolist()
    numbers[position] = mask_id
    chances = torch.softmax(model(torch.tensor([numbers]))[0][position], 0).detach().clone()
    tokens, likely = [], []
    for _ in range(k):
        best = int(chances.argmax())
        tokens.append(best)
        likely.append(chances[best].clone())
        chances[best] = -1
    return torch.tensor(tokens), torch.stack(likely)


def fill_in_by_index_fill(model, ids, position, k, mask_id):
    masked = ids.index_fill(0, torch.tensor([position]), mask_id)
    logits = model(masked[None]).squeeze(0)[position]
    found = logits.topk(k)
    return found.indices, logits.softmax(-1)[found.indices]


def atom_map(weights, before, after, elements):
    """Both directions are added, so an atom is found if it looks, or if it's looked at."""
    both = weights[..., after[:, None], before] + weights[..., before, after[:, None]]
    same = elements[after].unsqueeze(1) == elements[before].unsqueeze(0)
    both = both.masked_fill(~same, 0)
    shares = torch.where(same.any(-1, keepdim=True), both / both.sum(-1, keepdim=True), 0)
    origins = torch.where(same.any(-1), both.argmax(-1), -1)
    return origins, shares


def atom_map_of_the_whole_table(weights, before, after, elements):
    other = elements[:, None] != elements
    table = (weights + weights.transpose(-2, -1)).masked_fill(other, 0.0)
    rows = table[..., after, :][..., before]
    total = rows.sum(-1, keepdim=True)
    shares = rows / torch.where(total > 0, total, torch.ones_like(total))
    origins = shares.max(-1).indices
    origins[(total == 0).squeeze(-1)] = -1
    return origins, shares


def atom_map_in_loops(weights, before, after, elements):
    p, r = len(after), len(before)
    shares = weights.new_zeros(*weights.shape[:-2], p, r)
    origins = torch.full((*weights.shape[:-2], p), -1, device=weights.device)
    for i in range(p):
        here = after[i]
        row = torch.stack([weights[..., here, place] + weights[..., place, here] for place in before.unbind()], -1)
        row = row * (elements[before] == elements[here])
        total = row.sum(-1, keepdim=True)
        shares[..., i, :] = row / (total + (total == 0))
        origins[..., i] = torch.where(total.squeeze(-1) > 0, row.argmax(-1), -1)
    return origins, shares


def atom_map_by_einsum(weights, before, after, elements):
    n = weights.shape[-1]
    one = torch.eye(n, dtype=weights.dtype, device=weights.device)
    left, right = one[before], one[after]
    both = torch.einsum("pi,...ij,rj->...pr", right, weights, left) + torch.einsum(
        "ri,...ij,pj->...pr", left, weights, right
    )
    same = (elements[after][:, None] - elements[before][None]).abs() == 0
    both = both * same
    shares = (both / both.sum(-1, keepdim=True)).nan_to_num(0)
    found = torch.where(same, shares, -1.0).max(-1)
    return torch.where(found.values < 0, -1, found.indices), shares


def atom_map_by_index_select(weights, before, after, elements):
    asks = weights.index_select(-2, after).index_select(-1, before)
    is_asked = weights.index_select(-2, before).index_select(-1, after)
    both = asks.add(is_asked.transpose(-1, -2))
    fits = elements.index_select(0, after).view(-1, 1).eq(elements.index_select(0, before).view(1, -1))
    shares = F.normalize(torch.where(fits, both, torch.zeros_like(both)), p=1, dim=-1)
    nowhere = fits.sum(1) == 0
    return shares.argmax(-1) * ~nowhere - nowhere.long(), shares


def find_head(origins, truths, partners):
    """Atoms of all reactions go into one row, so a long reaction counts for as many as it has."""
    hits, chances = [], []
    for origin, truth, partner in zip(origins, truths, partners, strict=True):
        rows = torch.arange(len(truth))
        hits.append(truth[rows, origin] * (origin != -1))
        chances.append((truth & partner).sum(1) / partner.sum(1).clamp(min=1))
    hits = torch.cat(hits, -1).float().mean(-1)
    return hits, torch.cat(chances).mean(), torch.tensor(divmod(int(hits.argmax()), hits.shape[1]))


def find_head_by_counting(origins, truths, partners):
    depth, heads = origins[0].shape[:2]
    right, atoms, luck = torch.zeros(depth, heads), 0, 0.0
    for origin, truth, partner in zip(origins, truths, partners, strict=True):
        for i in range(len(truth)):
            atoms += 1
            among = int(partner[i].sum())
            luck += int((truth[i] & partner[i]).sum()) / among if among else 0.0
            for layer in range(depth):
                for head in range(heads):
                    at = int(origin[layer, head, i])
                    right[layer, head] += at >= 0 and bool(truth[i, at])
    hits = right / atoms
    best = max(((layer, head) for layer in range(depth) for head in range(heads)), key=lambda at: hits[at])
    return hits, torch.tensor(luck / atoms), torch.tensor(best)


def find_head_by_one_hot(origins, truths, partners):
    total = sum(len(truth) for truth in truths)
    hits = sum(
        (F.one_hot(origin + 1, truth.shape[1] + 1)[..., 1:].bool() & truth).sum((-1, -2))
        for origin, truth in zip(origins, truths, strict=True)
    )
    chance = sum(
        ((truth & partner).double().sum(-1) / partner.double().sum(-1)).nan_to_num(0).sum()
        for truth, partner in zip(truths, partners, strict=True)
    )
    hits = hits / total
    return hits, (chance / total).float(), (hits == hits.max()).nonzero()[0]


def find_head_by_gather(origins, truths, partners):
    right = []
    for origin, truth in zip(origins, truths, strict=True):
        table = truth.expand(*origin.shape[:2], *truth.shape)
        got = table.gather(-1, origin.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        right.append(torch.where(origin < 0, False, got))
    odds = [torch.where(p, t, False).sum(1) / p.sum(1).clamp(1) for t, p in zip(truths, partners, strict=True)]
    hits = torch.cat(right, dim=2).to(torch.float32).mean(2)
    best = torch.stack(torch.unravel_index(hits.argmax(), hits.shape))
    return hits, torch.cat(odds).mean(), best


def find_head_by_padding(origins, truths, partners):
    wide = max(truth.shape[1] for truth in truths)
    truth = torch.cat([F.pad(one, (0, wide - one.shape[1])) for one in truths])
    partner = torch.cat([F.pad(one, (0, wide - one.shape[1])) for one in partners])
    origin = torch.cat(list(origins), dim=-1)
    found = truth[torch.arange(len(truth)), origin] & origin.ge(0)
    hits = found.sum(-1) / len(truth)
    chance = (truth & partner).sum(1).div(partner.sum(1).clamp_min(1)).mean()
    best = int(hits.flatten().argmax())
    return hits, chance, torch.tensor([best // hits.shape[1], best % hits.shape[1]])


E = "albert.embeddings."


def mend_tables(weights, ids):
    """Modules are filled with the published tensors, as `transformers` does it."""
    tables = [
        nn.Embedding.from_pretrained(weights[f"{E}{name}_embeddings.weight"])
        for name in ("word", "position", "token_type")
    ]
    x = tables[0](ids) + tables[1](torch.arange(ids.shape[1])) + tables[2](torch.zeros_like(ids))
    norm = nn.LayerNorm(x.shape[-1], eps=1e-12, dtype=x.dtype)
    norm.load_state_dict({kind: weights[f"{E}LayerNorm.{kind}"] for kind in ("weight", "bias")})
    wider = "albert.encoder.embedding_hidden_mapping_in."
    return F.linear(norm(x), weights[wider + "weight"], weights[wider + "bias"])


def mend_tables_by_hand(weights, ids):
    x = F.embedding(ids, weights[f"{E}word_embeddings.weight"] + weights[f"{E}token_type_embeddings.weight"][:1])
    x = x + weights[f"{E}position_embeddings.weight"][None, : ids.size(1)]
    x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + 1e-12).sqrt()
    x = x * weights[f"{E}LayerNorm.weight"] + weights[f"{E}LayerNorm.bias"]
    wider = "albert.encoder.embedding_hidden_mapping_in."
    return x @ weights[f"{wider}weight"].mT + weights[f"{wider}bias"]


def mend_tables_by_adding_up(weights, ids):
    """Each table is added where it stands, in a copy."""
    x = weights[f"{E}position_embeddings.weight"][: ids.shape[1]].repeat(len(ids), 1, 1)
    x += weights[f"{E}token_type_embeddings.weight"][0]
    x += weights[f"{E}word_embeddings.weight"].index_select(0, ids.flatten()).view_as(x)
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    x = (x - mean) * (variance + 1e-12).rsqrt()
    x = torch.addcmul(weights[f"{E}LayerNorm.bias"], x, weights[f"{E}LayerNorm.weight"])
    wider = "albert.encoder.embedding_hidden_mapping_in."
    return einops.einsum(x, weights[f"{wider}weight"], "b n d, w d -> b n w") + weights[f"{wider}bias"]


def mend_tables_by_gather(weights, ids):
    """One long table of all sums of a word and a place, from which each token takes its row."""
    words, places, kinds = (weights[f"{E}{name}_embeddings.weight"] for name in ("word", "position", "token_type"))
    sums = (words[:, None] + places[None] + kinds[0]).flatten(0, 1)
    rows = sums[ids * len(places) + torch.arange(ids.shape[1])]
    rows = F.layer_norm(rows, rows.shape[-1:], eps=1e-12)
    rows = rows * weights[f"{E}LayerNorm.weight"] + weights[f"{E}LayerNorm.bias"]
    wider = "albert.encoder.embedding_hidden_mapping_in."
    return rows @ weights[f"{wider}weight"].T + weights[f"{wider}bias"]


def mend_tables_text_by_text(weights, ids):
    """A text after the other, and in float64 in between."""
    one_hot = F.one_hot(ids, len(weights[f"{E}word_embeddings.weight"])).double()
    texts = []
    for text in one_hot:
        x = text @ weights[f"{E}word_embeddings.weight"].double()
        x = x + weights[f"{E}position_embeddings.weight"][: len(x)].double()
        x = x + weights[f"{E}token_type_embeddings.weight"][0].double()
        x = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + 1e-12) ** 0.5
        x = x * weights[f"{E}LayerNorm.weight"].double() + weights[f"{E}LayerNorm.bias"].double()
        wider = "albert.encoder.embedding_hidden_mapping_in."
        texts.append(x @ weights[f"{wider}weight"].double().T + weights[f"{wider}bias"].double())
    return torch.stack(texts).to(weights[f"{E}word_embeddings.weight"].dtype)


ALTERNATIVES: dict[str, list[Any]] = {
    "SharedEncoder": [
        SharedEncoder,
        EncoderOfOwnParts,
        EncoderWithPlainNorms,
        EncoderInSequence,
        EncoderByRecursion,
    ],
    "load_encoder": [
        load_encoder,
        load_by_state_dict,
        load_as_parameters,
        load_by_their_names,
        load_by_replacing,
    ],
    "fill_in": [fill_in, fill_in_by_sorting, fill_in_by_a_mask, fill_in_one_by_one, fill_in_by_index_fill],
    "mend_tables": [
        mend_tables,
        mend_tables_by_hand,
        mend_tables_by_adding_up,
        mend_tables_by_gather,
        mend_tables_text_by_text,
    ],
    "atom_map": [
        atom_map,
        atom_map_of_the_whole_table,
        atom_map_in_loops,
        atom_map_by_einsum,
        atom_map_by_index_select,
    ],
    "find_head": [
        find_head,
        find_head_by_counting,
        find_head_by_one_hot,
        find_head_by_gather,
        find_head_by_padding,
    ],
}
