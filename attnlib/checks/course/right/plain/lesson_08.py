"""Lesson 08: the programs whose lines `slips.md` replaces."""

import math

import torch
import torch.nn.functional as F
from torch import nn

import attnlib


def next_token_loss(logits, ids, ignore_index=-100):
    scores, targets = logits[:, :-1], ids[:, 1:]
    full = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    log_p = full.log_softmax(dim=-1)
    counted = targets != ignore_index
    chosen = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    surprise = -chosen.masked_fill(~counted, 0.0)
    mean = surprise.sum() / counted.sum()
    return mean


class DecoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        if d_memory is not None:
            self.cross = attnlib.MultiHeadAttention(d_model, num_heads, d_memory=d_memory)
            self.norm3 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)

    def forward(self, x, memory=None):
        found = self.attn(self.norm1(x), is_causal=True)
        own = x + found
        both = own if memory is None else own + self.cross(self.norm2(own), memory)
        norm = self.norm2 if memory is None else self.norm3
        result = both + self.mlp(norm(both))
        return result


class LanguageModel(nn.Module):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(attnlib.EncoderBlock(d_model, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        n = ids.shape[1]
        if n > self.max_len:
            raise ValueError(f"a text has at most max_len = {self.max_len} ids, got {n}")
        places = torch.arange(n, device=ids.device)
        x = self.embed(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x, is_causal=True)
        logits = self.head(self.norm(x))
        return logits


def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return logits.argmax(dim=-1)
    scores = logits / temperature
    if top_k is not None:
        kth = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < kth, -math.inf)
    probabilities = scores.softmax(dim=-1)
    if top_p is not None:
        ordered, order = probabilities.sort(descending=True, stable=True)
        before = ordered.cumsum(dim=-1) - ordered
        outside = before >= top_p
        closed = outside.scatter(-1, order, outside)
        probabilities = probabilities.masked_fill(closed, 0.0)
    drawn = torch.multinomial(probabilities, 1, generator=generator)
    return drawn[:, 0]


def generate(model, ids, num_tokens, temperature=1.0, top_k=None, top_p=None, stop_id=None, generator=None):
    was_training = model.training
    model.eval()
    stopped = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for _ in range(num_tokens):
        window = ids[:, -model.max_len :]
        with torch.no_grad():
            logits = model(window)
        last = logits[:, -1]
        new = attnlib.sample_next(last, temperature, top_k, top_p, generator)
        if stop_id is not None:
            new = new.masked_fill(stopped, stop_id)
            stopped = stopped | (new == stop_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if stopped.all():
            break
    model.train(was_training)
    return ids


def witten_bell(text, test, order, vocab):
    seen, read = text.tolist(), test.tolist()
    lengths = range(order)
    followers = {}
    for k in lengths:
        for i in range(k, len(seen)):
            followers.setdefault(tuple(seen[i - k : i]), []).append(seen[i])
    found = []
    for i in range(order - 1, len(read)):
        p = 1 / vocab
        for k in lengths:
            after = followers.get(tuple(read[i - k : i]), [])
            count, total, kinds = after.count(read[i]), len(after), len(set(after))
            if after:
                p = (count + kinds * p) / (total + kinds)
        found.append(p)
    return torch.tensor(found)


def train_language_model(model, batches, held_out, rate, warmup, every):
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    was_training, steps, losses = model.training, len(batches), []
    for step in range(steps + 1):
        if step % every == 0:
            model.eval()
            with torch.no_grad():
                guesses, known = model(held_out[0]), held_out[1]
                tested = F.cross_entropy(guesses[:, :-1].flatten(0, 1), known[:, 1:].flatten(), ignore_index=-100)
            losses.append(tested)
        if step == steps:
            break
        model.train()
        ids, targets = batches[step]
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), ignore_index=-100)
        rise = min(1.0, (step + 1) / warmup)
        fall = 1 - step / steps
        for group in optimiser.param_groups:
            group["lr"] = rate * rise * fall
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.train(was_training)
    return torch.stack(losses)
