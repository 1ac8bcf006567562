"""Mistakes that students of each lesson are likely to make, written as they write them: each is told its name."""

import math

import pytest
import torch
import torch.nn.functional as F
from contradictions import contradictions
from einops import einsum, rearrange
from likely_in_first_lessons import FIRST_LESSONS
from notebook_cells import run_cell
from torch import Tensor, nn

import attnlib
from attnlib.checks import Report, run

NOTEBOOK = {
    "attnlib": attnlib,
    "F": F,
    "nn": nn,
    "torch": torch,
    "math": math,
    "einsum": einsum,
    "rearrange": rearrange,
}

LITTLE_EINSUM = """
def little_einsum(x, y, pattern):
    left, out = pattern.split("->")
    a, b = (part.split() for part in left.split(","))
    names = out.split() + [name for name in a if name not in out.split()]
    xs, ys = x.permute([a.index(n) for n in names if n in a]), y.permute([b.index(n) for n in names if n in b])
    for i, name in enumerate(names):
        xs = xs if name in a else xs.unsqueeze(i)
        ys = ys if name in b else ys.unsqueeze(i)
    gone = list(range(len(out.split()), len(names)))
    return (xs * ys).sum(gone) if gone else xs * ys
"""

PROJECT = """
def project_qkv(x, w_q, w_k, w_v):
    return F.linear(x, w_q), F.linear(x, w_k), F.linear(x, w_v)
"""

PROJECTION = """
class QKVProjection(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)

    def forward(self, x):
        return {}
"""

WRITE_GREEDILY = """
def write_greedily(model, memory, start_id, stop_id, longest):
    ids = torch.full((len(memory), 1), start_id)
    total = torch.zeros(len(memory), dtype=memory.dtype)
    with torch.no_grad():
        for _ in range(longest):
            best, new = model(memory, ids)[:, -1].log_softmax(-1).max(-1)
            total = total + best
            ids = torch.cat([ids, new[:, None]], 1)
            if (new == stop_id).all():
                break
    return ids[:, 1:], total
"""

REACH = """
def reach(model, ids, vocab):
    base = model(ids[None])[0]
    found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    for j in range(len(ids)):
        new = ids
        new[j] = (new[j] + 1) % vocab
        found[:, j] = (model(new[None])[0] != base).any(-1)
    return found
"""

READ_IN_WINDOWS = """
def read_in_windows(model, ids, window):
    losses = []
    with torch.no_grad():
        for i in range(1, ids.shape[1]):
            logits = model(ids[:, {}])[:, -1]
            losses.append(F.cross_entropy(logits, ids[:, i]))
    return torch.stack(losses)
"""

TRAIN_LANGUAGE_MODEL = """
def train_language_model(model, batches, held_out, rate, warmup, every):
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    was, losses = model.training, []

    def loss_of(ids, targets):
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), ignore_index=-100)

    def look():
        model.eval()
        with torch.no_grad():
            losses.append(loss_of(*held_out))
        model.train()

    look()
    for step, batch in enumerate(batches):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (step + 1) / warmup) * (1 - step / len(batches))
        model.train()
        optimiser.zero_grad()
        loss_of(*batch).backward()
        optimiser.step()
        if step % every == 0:
            look()
    model.train(was)
    return torch.stack(losses)
"""

WRITE_WITH_CACHE = """
def write_with_cache(model, ids, num_tokens):
    heads, room = model.blocks[0].attn.num_heads, ids.shape[1] + num_tokens
    empty = torch.zeros(len(ids), heads, room, model.embed.weight.shape[1] // heads)
    caches, new = [{"k": empty.clone(), "v": empty.clone(), "length": 0}] * len(model.blocks), ids
    with torch.no_grad():
        for _ in range(num_tokens):
            at = caches[0]["length"]
            x = model.embed(new) + model.positions(torch.arange(at, at + new.shape[1]))
            for block, cache in zip(model.blocks, caches):
                q, k, v = (attnlib.split_heads(w(block.norm1(x)), heads) for w in
                           (block.attn.w_q, block.attn.w_k, block.attn.w_v))
                stop = cache["length"] + k.shape[2]
                if stop > room:
                    raise ValueError("no room")
                cache["k"][:, :, cache["length"]:stop], cache["v"][:, :, cache["length"]:stop] = k, v
                cache["length"] = stop
                mask = attnlib.causal_mask(k.shape[2], stop)
                out = F.scaled_dot_product_attention(q, cache["k"][:, :, :stop], cache["v"][:, :, :stop], mask)
                x = x + block.attn.w_o(attnlib.merge_heads(out))
                x = x + block.mlp(block.norm2(x))
            new = model.head(model.norm(x[:, -1:])).argmax(-1)
            ids = torch.cat([ids, new], 1)
    return ids
"""

WRITE_IN_EVALUATION = (
    WRITE_WITH_CACHE.replace("0}] * len(model.blocks)", "0} for _ in model.blocks]")
    .replace("torch.zeros(", "model.embed.weight.new_zeros(")
    .replace("    heads,", "    model.eval()\n    heads,")
)

ENCODER_BLOCK = """
class EncoderBlock(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x, key_mask=None):
        x = x + self.attn(self.norm1(x), key_mask)
        return x + self.mlp(self.norm2(x))
"""

ROTATE = """
def rotate(x, positions, base=10000.0):
    if x.shape[-1] % 2:
        raise ValueError("an odd width has a column without a partner")
    speeds = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64, device=x.device) / x.shape[-1])
    angles = positions.double()[..., None] * speeds
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    a, b = x.chunk(2, dim=-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
"""

NEXT_TOKEN_LOSS = """
def next_token_loss(logits, ids, ignore_index=-100):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), ignore_index=ignore_index)
"""

SAMPLE_NEXT = """
def sample_next(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return logits.argmax(-1)
    scores = logits / temperature
    if top_k is not None:
        scores = scores.masked_fill(scores < scores.topk(min(top_k, scores.shape[-1])).values[:, -1:], -torch.inf)
    shares = scores.softmax(-1)
    if top_p is not None:
        ordered, order = shares.sort(descending=True)
        shares = torch.zeros_like(ordered).scatter(-1, order, ordered * (ordered.cumsum(-1) - ordered < top_p))
    return torch.multinomial(shares, 1, generator=generator).squeeze()
"""

MERGE = """
def merge(o1, m1, l1, o2, m2, l2):
    m = torch.maximum(m1, m2)
    base = m.masked_fill(m == -torch.inf, 0)
    a, b = (m1 - base).exp(), (m2 - base).exp()
    return a * o1 + b * o2, m, a * l1 + b * l2
"""

TRAIN_AND_FILM = """
def train_and_film(model, batches, lr, every, make=torch.optim.AdamW):
    optimiser, losses = make(model.parameters(), lr=lr), []
    frames = [torch.cat([p.flatten() for p in model.parameters()]).detach()]
    for step, ids in enumerate(batches):
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        if step % every == 0:
            frames.append(torch.cat([p.flatten() for p in model.parameters()]).detach())
    return torch.stack(losses), torch.stack(frames)
"""


def told(exercise: str, source: str) -> Report:
    return run(exercise, run_cell(source, NOTEBOOK)[exercise])


@pytest.mark.parametrize(
    ("exercise", "source", "name"),
    [
        ("little_einsum", LITTLE_EINSUM, "second_input_forgotten"),
        ("project_qkv", PROJECT, "linear_transposes"),
        ("QKVProjection", PROJECTION.format("w_q(x), w_k(x), w_v(x)"), "self_missing"),
        ("write_greedily", WRITE_GREEDILY, "ended_texts_go_on"),
        ("reach", REACH, "changed_on_the_way"),
        ("read_in_windows", READ_IN_WINDOWS.format("i - window : i"), "window_before_the_text"),
        (
            "read_in_windows",
            READ_IN_WINDOWS.format("max(0, i - window + 1) : i + 1"),
            "answer_among_the_read",
        ),
        ("train_language_model", TRAIN_LANGUAGE_MODEL, "looks_one_step_early"),
        ("write_with_cache", WRITE_WITH_CACHE, "one_object_repeated"),
        ("write_with_cache", WRITE_IN_EVALUATION, "left_in_evaluation"),
        ("EncoderBlock", ENCODER_BLOCK, "key_mask_as_memory"),
        ("EncoderBlock", ENCODER_BLOCK.replace(", key_mask)", ", mask=key_mask)"), "key_mask_as_mask"),
        ("rotate", ROTATE, "halves_put_among_one_another"),
        ("next_token_loss", NEXT_TOKEN_LOSS, "in_half_precision"),
        ("sample_next", SAMPLE_NEXT, "batch_of_one_lost"),
        ("merge", MERGE, "factors_on_the_wrong_axis"),
        ("train_and_film", TRAIN_AND_FILM, "frames_one_step_early"),
        *FIRST_LESSONS,
    ],
)
def test_a_likely_mistake_has_a_name(exercise: str, source: str, name: str) -> None:
    report = told(exercise, source)
    assert report.diagnosis == name
    assert contradictions(report) == []


def test_a_layer_read_without_self_is_not_called_unused() -> None:
    said = told("QKVProjection", PROJECTION.format("w_q(x), w_k(x), w_v(x)")).message
    assert "`w_q` needs `self.` before it" in said
    assert "never used" not in said


def test_all_layers_that_are_never_used_are_named_together() -> None:
    said = " ".join(told("QKVProjection", PROJECTION.format("self.w_q(x), self.w_q(x), x")).message.split())
    assert "`self.w_k` and `self.w_v` are made and never used" in said


def sample_as_nano_gpt_does(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    if top_k is not None:
        kept, _ = torch.topk(logits, min(top_k, logits.shape[-1]))
        logits[logits < kept[:, [-1]]] = -float("inf")
    shares = (logits / temperature).softmax(-1)
    if top_p is not None:
        ordered, order = shares.sort(descending=True)
        ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered >= top_p, 0)
        shares = torch.zeros_like(ordered).scatter(-1, order, ordered)
    return torch.multinomial(shares, 1, generator=generator)[:, 0]


def test_an_input_changed_in_the_cases_of_one_part_costs_that_part() -> None:
    report = run("sample_next", sample_as_nano_gpt_does)
    lost = {part for part, earned in report.parts.items() if not earned}
    assert lost == {"top_k", "top_p"}  # both have cases with top_k
    assert report.points == 3


def test_a_name_that_is_not_defined_comes_before_what_else_the_code_shows() -> None:
    report = told("QKVProjection", PROJECTION.format("self.w_q(x), self.w_k(x), zebra"))
    assert report.diagnosis == "name_not_defined"
    assert "`self.w_v` is made and never used" in report.message
