"""Right answers to lesson 04, differently written: all of them must be accepted."""

import math
import sys
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

from attnlib.checks.course import find


def attend_plainly(x, memory, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    weights = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1)
    return weights @ v, weights


def attend_by_einsum(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.einsum("bqm,md,bkn,nd->bqk", x, w_q, memory, w_k) / math.sqrt(w_q.size(1))
    weights = F.softmax(scores, dim=2)
    return torch.einsum("bqk,bkn,nv->bqv", weights, memory, w_v), weights


def attend_by_einops(x, memory, w_q, w_k, w_v):
    q = einsum(x, w_q, "b q m, m d -> b q d") * w_q.shape[1] ** -0.25
    k = einsum(memory, w_k, "b k m, m d -> b k d") * w_k.shape[1] ** -0.25
    weights = einsum(q, k, "b q d, b k d -> b q k").softmax(dim=-1)
    return [einsum(weights, memory @ w_v, "b q k, b k v -> b q v"), weights.detach()]


def attend_one_at_a_time(x, memory, w_q, w_k, w_v):
    outputs, tables = [], []
    for asker, answers in zip(x, memory, strict=True):
        rows = []
        for position in asker:
            query = position @ w_q
            scores = torch.stack([query.dot(answer @ w_k) for answer in answers]) / len(query) ** 0.5
            rows.append(scores.softmax(0))
        tables.append(torch.stack(rows))
        outputs.append(tables[-1] @ (answers @ w_v))
    return torch.stack(outputs), torch.stack(tables)


def attend_by_bmm(x, memory, w_q, w_k, w_v):
    print("asking", file=sys.stderr)
    q, k, v = F.linear(x, w_q.T), F.linear(memory, w_k.T), F.linear(memory, w_v.T)
    start = x.new_zeros(x.shape[0], x.shape[1], memory.shape[1])
    scores = torch.baddbmm(start, q, k.mT, beta=0, alpha=1 / math.sqrt(k.shape[-1]))
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return torch.bmm(weights, v), weights


def attend_from_the_memory(x, memory, w_q, w_k, w_v):
    """Scores the other way round, (b, k, q), and the softmax over axis 1."""
    scores = (memory @ w_k) @ (x @ w_q).mT * w_k.shape[-1] ** -0.5
    weights = nn.Softmax(dim=1)(scores).mT
    return (weights @ memory) @ w_v, weights


class CrossAttend:
    def __init__(self, scale: float) -> None:
        self.power = scale

    def __call__(self, x, memory, w_q, w_k, w_v):
        root = torch.sqrt(torch.tensor(w_k.shape[-1])).to(x.device)
        keys, values = torch.split(memory @ torch.cat([w_k, w_v], dim=1), [w_k.shape[1], w_v.shape[1]], dim=-1)
        scores = torch.matmul(x @ w_q, keys.permute(0, 2, 1)).div(root)
        return torch.matmul(scores.softmax(-1), values), scores.softmax(-1) * self.power


def _head_width(d_model, num_heads, d_head):
    if d_head is None:
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError(f"{d_model} / {num_heads}")
    return d_head


class WithEinops(nn.Module):
    def __init__(self, d_model, d_memory, num_heads, d_head=None, bias=True):
        super().__init__()
        self.h = num_heads
        width = num_heads * _head_width(d_model, num_heads, d_head)
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_memory, width, bias=bias)
        self.w_v = nn.Linear(d_memory, width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def forward(self, x, memory, key_mask=None):
        q, k, v = (
            rearrange(layer(text), "b n (h d) -> b h n d", h=self.h)
            for layer, text in ((self.w_q, x), (self.w_k, memory), (self.w_v, memory))
        )
        scores = einsum(q, k, "b h q d, b h k d -> b h q k") / q.shape[-1] ** 0.5
        if key_mask is not None:
            scores = scores.masked_fill(rearrange(~key_mask, "b k -> b 1 1 k"), -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.w_o(rearrange(weights @ v, "b h q d -> b q (h d)")), weights


class OtherOrder(nn.Module):
    """Layers made in another order; view and transpose; typed; with a buffer that nobody asked for."""

    def __init__(
        self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.d = _head_width(d_model, num_heads, d_head)
        inner = num_heads * self.d
        self.w_o = nn.Linear(inner, d_model, bias)
        self.w_v = nn.Linear(d_memory, inner, bias)
        self.w_k = nn.Linear(d_memory, inner, bias)
        self.w_q = nn.Linear(d_model, inner, bias)
        self.register_buffer("scale", torch.tensor(self.d**-0.5, dtype=torch.float64), persistent=False)
        self.factor = self.d**-0.5

    def heads(self, t: Tensor) -> Tensor:
        return t.view(t.size(0), t.size(1), -1, self.d).transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = self.heads(self.w_q(x)), self.heads(self.w_k(memory)), self.heads(self.w_v(memory))
        scores = torch.matmul(q * self.factor, k.transpose(-2, -1))
        real = scores.new_ones(memory.shape[:2]).bool() if key_mask is None else key_mask
        weights = F.softmax(torch.where(real[:, None, None], scores, torch.finfo(scores.dtype).min), dim=-1)
        mixed = (weights @ v).transpose(1, 2).contiguous().view(x.size(0), x.size(1), -1)
        return self.w_o(mixed), weights


class HeadAfterHead(WithEinops):
    """A loop over the heads, on slices of the columns."""

    def forward(self, x, memory, key_mask=None):
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        d = q.shape[-1] // self.h
        found, tables = [], []
        for head in range(self.h):
            columns = slice(head * d, (head + 1) * d)
            scores = q[..., columns] @ k[..., columns].mT / math.sqrt(d)
            if key_mask is not None:
                scores = scores + torch.zeros_like(scores[:, :1]).masked_fill(~key_mask[:, None], -torch.inf)
            weights = scores.softmax(dim=-1)
            found.append(weights @ v[..., columns])
            tables.append(weights)
        return self.w_o(torch.cat(found, dim=-1)), torch.stack(tables, dim=1)


class FoldedIntoTheBatch(WithEinops):
    """Heads folded into the batch, where `bmm` wants them; the weights are cut off the graph."""

    def forward(self, x, memory, key_mask=None):
        q, k, v = (
            rearrange(t, "b n (h d) -> (b h) n d", h=self.h) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory))
        )
        scores = torch.bmm(q, k.mT) / q.shape[-1] ** 0.5
        if key_mask is not None:
            scores = scores.masked_fill(~key_mask.repeat_interleave(self.h, dim=0)[:, None], -torch.inf)
        weights = scores.softmax(-1)
        output = rearrange(torch.bmm(weights, v), "(b h) n d -> b n (h d)", h=self.h)
        return self.w_o(output), rearrange(weights.detach(), "(b h) q k -> b h q k", h=self.h)


class ByEinsum(WithEinops):
    """The weights of the layers cut into heads, (h, d, in), in place of the projected texts."""

    def cut(self, layer: nn.Linear, text: Tensor) -> Tensor:
        weight = rearrange(layer.weight, "(h d) i -> h d i", h=self.h)
        projected = torch.einsum("bni,hdi->bhnd", text, weight)
        return projected if layer.bias is None else projected + layer.bias.view(self.h, 1, -1)

    def forward(self, x, memory, key_mask=None):
        q, k, v = self.cut(self.w_q, x), self.cut(self.w_k, memory), self.cut(self.w_v, memory)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k).mul(q.shape[-1] ** -0.5)
        real = torch.ones_like(memory[..., 0], dtype=torch.bool) if key_mask is None else key_mask
        powers = (scores - scores.amax(-1, keepdim=True)).masked_fill(~real[:, None, None], -torch.inf).exp()
        weights = powers / powers.sum(-1, keepdim=True)
        out = rearrange(self.w_o.weight, "o (h d) -> h d o", h=self.h)
        output = torch.einsum("bhqk,bhkd,hdo->bqo", weights, v, out)
        return output if self.w_o.bias is None else output + self.w_o.bias, weights


def mended(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
    scores = scores.masked_fill(~memory_is_real[:, None, :], float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


def mended_with_a_large_number(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v, closed=-1e9):
    scores = (x @ w_q) @ (memory @ w_k).mT / w_k.shape[1] ** 0.5
    weights = torch.where(memory_is_real.unsqueeze(1), scores, scores.new_tensor(closed)).softmax(-1)
    return weights @ memory @ w_v, weights


def mended_by_addition(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    mask = torch.zeros_like(memory[..., 0]).masked_fill(memory_is_real.logical_not(), -torch.inf)
    weights = F.softmax(torch.baddbmm(mask[:, None], x @ w_q, (memory @ w_k).mT, alpha=w_k.shape[-1] ** -0.5), dim=-1)
    return torch.bmm(weights, memory @ w_v), weights


def mended_and_renormalised(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    weights = torch.softmax(x @ w_q @ (memory @ w_k).mT * w_k.shape[-1] ** -0.5, dim=-1)
    weights = weights * memory_is_real[:, None, :].to(weights.dtype)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ (memory @ w_v), weights


def mended_on_both_sides(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    """Padded questions get zeros: what is computed there is left open."""
    scores = einsum(x @ w_q, memory @ w_k, "b q d, b k d -> b q k") / math.sqrt(w_k.shape[-1])
    weights = scores.masked_fill(~memory_is_real[:, None], -torch.inf).softmax(-1) * x_is_real[..., None]
    return weights @ (memory @ w_v), weights


def trained_by_counting(reader, ids, wanted, rate):
    optimiser = torch.optim.AdamW(reader.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=len(wanted))
    losses = torch.zeros(len(ids), dtype=next(reader.parameters()).dtype)
    for step in range(len(ids)):
        logits = reader(ids[step])[0]
        optimiser.zero_grad(set_to_none=False)
        loss = F.cross_entropy(logits.transpose(1, 2), wanted[step])
        loss.backward()
        losses[step] = loss.item()
        optimiser.step()
        schedule.step()
    return losses


def trained_by_gathering(reader, ids, wanted, rate):
    """Cross-entropy by hand: the mean of -ln p of what is right."""
    optimiser = torch.optim.AdamW(reader.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, epochs=1, steps_per_epoch=len(ids))
    losses = []
    for texts, right in zip(ids, wanted, strict=True):
        reader.zero_grad()
        log_p = reader(texts)[0].log_softmax(dim=-1)
        loss = -log_p.gather(-1, right.unsqueeze(-1)).mean()
        losses.append(loss.detach().clone())
        loss.backward()
        optimiser.step()
        schedule.step()
    return torch.stack(losses)


def trained_with_gradients_cleared_last(reader, ids, wanted, rate):
    optimiser = torch.optim.AdamW([{"params": [weight]} for weight in reader.parameters()], lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=len(ids))
    losses = []
    for batch in zip(ids, wanted, strict=True):
        (logits, _), places = reader(batch[0]), batch[1].reshape(-1)
        losses.append(F.cross_entropy(logits.reshape(len(places), -1), places))
        losses[-1].backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    return torch.stack(losses).detach()


class TrainedByAnObject:
    def __call__(self, reader, ids, wanted, rate):
        self.reader, self.optimiser = reader, torch.optim.AdamW(list(reader.parameters()), lr=rate)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimiser, [rate], len(ids))
        return torch.stack([self.step(*batch) for batch in zip(ids, wanted, strict=True)])

    def step(self, texts, right):
        self.optimiser.zero_grad()
        logits, _ = self.reader(texts)
        loss = F.cross_entropy(logits.flatten(end_dim=1), right.flatten(), reduction="sum") / right.numel()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        return loss.detach()


def trained_by_its_state(reader, ids, wanted, rate):
    """The rates of the schedule, read off beforehand, and written into the optimiser at each step."""
    dummy = torch.optim.AdamW([torch.zeros(1)], lr=rate)
    schedule, settings = torch.optim.lr_scheduler.OneCycleLR(dummy, rate, total_steps=len(ids)), []
    for _ in ids:
        settings.append({key: dummy.param_groups[0][key] for key in ("lr", "betas")})
        dummy.step()
        schedule.step()
    optimiser, losses = torch.optim.AdamW(reader.parameters()), []
    for texts, right, now in zip(ids, wanted, settings, strict=True):
        optimiser.param_groups[0].update(now)
        optimiser.zero_grad()
        loss = F.cross_entropy(reader(texts)[0].mT, right)
        loss.backward()
        optimiser.step()
        losses += [loss.detach()]
    return torch.stack(losses)


def cross_attention(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Translate each question into the memory's terms, x W_q W_kᵀ: then the memory needs no keys and no values."""
    asked = x @ w_q @ w_k.mT
    weights = (asked @ memory.mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    return weights @ memory @ w_v, weights


class AnotherMultiHeadCrossAttention(find("MultiHeadCrossAttention").reference):
    def forward(self: Any, x: Tensor, memory: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """One head after the other: heads know nothing of one another before w_o mixes what they found."""
        asked, keys, values = self.w_q(x), self.w_k(memory), self.w_v(memory)
        heads = zip(*(t.chunk(self.num_heads, dim=-1) for t in (asked, keys, values)), strict=True)
        added = (
            0.0
            if key_mask is None
            else torch.zeros_like(keys[:, None, :, 0]).masked_fill(~key_mask[:, None], -math.inf)
        )
        outputs, tables = [], []
        for q, k, v in heads:
            tables.append((q @ k.mT / math.sqrt(q.shape[-1]) + added).softmax(dim=-1))
            outputs.append(tables[-1] @ v)
        return self.w_o(torch.cat(outputs, dim=-1)), torch.stack(tables, dim=1)


def train_reader(reader: Any, ids: list[Tensor], wanted: list[Tensor], rate: float) -> Tensor:
    """autograd.grad returns fresh gradients, so there is nothing left over to set to zero."""
    weights, losses = [*reader.parameters()], []
    optimiser = torch.optim.AdamW(weights, lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=len(ids))
    for texts, characters in zip(ids, wanted, strict=True):
        loss = F.cross_entropy(reader(texts)[0].mT, characters)
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def mend_decoder_attention(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    """A mask can be *added*: 0 changes nothing, and exp(-inf) is 0."""
    scores = x @ w_q @ (memory @ w_k).mT / math.sqrt(w_k.shape[-1])
    added = torch.zeros_like(memory[..., 0]).masked_fill(~memory_is_real, -torch.inf)
    weights = (scores + added[:, None]).softmax(dim=-1)
    return weights @ (memory @ w_v), weights


ALTERNATIVES = {
    "train_reader": [
        train_reader,
        trained_by_counting,
        trained_by_gathering,
        trained_with_gradients_cleared_last,
        TrainedByAnObject(),
        trained_by_its_state,
    ],
    "cross_attention": [
        cross_attention,
        attend_plainly,
        attend_by_einsum,
        attend_by_einops,
        attend_one_at_a_time,
        attend_by_bmm,
        attend_from_the_memory,
        CrossAttend(1.0),
    ],
    "MultiHeadCrossAttention": [
        AnotherMultiHeadCrossAttention,
        WithEinops,
        OtherOrder,
        HeadAfterHead,
        FoldedIntoTheBatch,
        ByEinsum,
    ],
    "mend_decoder_attention": [
        mend_decoder_attention,
        mended,
        partial(mended_with_a_large_number, closed=-1e8),
        mended_by_addition,
        mended_and_renormalised,
        mended_on_both_sides,
    ],
}
