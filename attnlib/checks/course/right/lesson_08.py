"""Right answers of lesson 08, written in other ways: the loss, the block and the model."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch import Tensor, nn

import attnlib
from attnlib.checks.course import find


def full(logits):
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def loss_with_the_vocabulary_second(logits, ids, ignore_index=-100):
    return F.cross_entropy(full(logits)[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=ignore_index)


def loss_by_gather(logits, ids, ignore_index=-100):
    log_p = full(logits)[:, :-1].log_softmax(-1)
    targets = ids[:, 1:]
    counts = targets.ne(ignore_index)
    found = log_p.gather(-1, targets.masked_fill(~counts, 0).unsqueeze(-1)).squeeze(-1)
    return -found[counts].mean()


def loss_by_loop(logits, ids, ignore_index=-100):
    logits, total, count = full(logits), 0.0, 0
    for row in range(ids.shape[0]):
        for i in range(ids.shape[1] - 1):
            if (target := int(ids[row, i + 1])) != ignore_index:
                total = total + torch.logsumexp(logits[row, i], 0) - logits[row, i, target]
                count += 1
    return total / count


def loss_with_targets_moved(logits, ids, ignore_index=-100):
    print(logits.shape)
    targets = torch.full_like(ids, ignore_index)
    targets[:, :-1] = ids[:, 1:]
    return F.cross_entropy(full(logits).reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=ignore_index)


def loss_by_one_hot(logits, ids, ignore_index=-100):
    logits, targets = full(logits)[:, :-1], ids[:, 1:]
    counts = (targets != ignore_index).to(logits.dtype)
    hot = F.one_hot(targets.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    p = logits - logits.logsumexp(-1, keepdim=True)
    return -einsum(p, hot, counts, "b n v, b n v, b n -> ") / counts.sum()


class Loss:
    def __call__(self, logits, ids, ignore_index=-100):
        scores = rearrange(full(logits[:, :-1]), "b n v -> (b n) v")
        return F.nll_loss(F.log_softmax(scores, 1), rearrange(ids[:, 1:], "b n -> (b n)"), ignore_index=ignore_index)


class BlockWithOptions(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.has_memory = d_memory is not None
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)
        if self.has_memory:
            self.norm3 = nn.LayerNorm(d_model)
            self.cross = attnlib.MultiHeadAttention(d_model, num_heads, d_memory=d_memory)
        self.norm2 = nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.norm1 = nn.LayerNorm(d_model)

    def forward(self, x, memory=None):
        n = x.size(1)
        h = x + self.attn(self.norm1(x), mask=attnlib.causal_mask(n, n, device=x.device))
        last = self.norm2
        if self.has_memory:
            h = h + self.cross(self.norm2(h), memory)
            last = self.norm3
        return h + self.mlp(last(h))


class OwnAttention(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.h = num_heads
        self.w_q, self.w_o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.w_k, self.w_v = (nn.Linear(d_memory or d_model, d_model) for _ in range(2))

    def forward(self, x, memory=None, causal=False):
        m = x if memory is None else memory
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.h) for t in (self.w_q(x), self.w_k(m), self.w_v(m)))
        scores = einsum(q, k, "b h i d, b h j d -> b h i j") * q.shape[-1] ** -0.5
        if causal:
            future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(future, -math.inf)
        weights = scores.softmax(-1)
        return self.w_o(rearrange(weights @ v, "b h n d -> b n (h d)")), weights


class OwnMLP(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class BlockFromNothing(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(d_model), OwnAttention(d_model, num_heads)
        self.norm2, self.mlp = nn.LayerNorm(d_model), OwnMLP(d_model)
        self.cross = self.norm3 = None
        if d_memory is not None:
            self.cross, self.norm3 = OwnAttention(d_model, num_heads, d_memory), nn.LayerNorm(d_model)

    def forward(self, x, memory=None):
        found, _ = self.attn(self.norm1(x), causal=True)
        x = x + found
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory)[0]
        return x + self.mlp((self.norm2 if self.norm3 is None else self.norm3)(x))


class BlockWithFusedAttention(BlockFromNothing):
    def look(self, attn, x, memory, is_causal):
        q, k, v = (attnlib.split_heads(t, attn.h) for t in (attn.w_q(x), attn.w_k(memory), attn.w_v(memory)))
        return attn.w_o(attnlib.merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)))

    def forward(self, x, memory=None):
        y = self.norm1(x)
        x = x + self.look(self.attn, y, y, True)
        norm = self.norm2
        if memory is not None:
            x, norm = x + self.look(self.cross, self.norm2(x), memory, False), self.norm3
        return x + self.mlp(norm(x))


class BlockOfBranches(BlockWithOptions):
    def forward(self, x, memory=None):
        branches = [lambda y: self.attn(self.norm1(y), is_causal=True)]
        if memory is not None:
            branches.append(lambda y: self.cross(self.norm2(y), memory))
            branches.append(lambda y: self.mlp(self.norm3(y)))
        else:
            branches.append(lambda y: self.mlp(self.norm2(y)))
        for branch in branches:
            x = x + branch(x)
        return x


class BlockWithFlatAttention(BlockWithOptions):
    """Dialects meet: einsum over heads that were never moved, and torch's own functional MLP."""

    def forward(self, x, memory=None):
        y, h = self.norm1(x), self.attn.num_heads
        q, k, v = (w(y).unflatten(-1, (h, -1)) for w in (self.attn.w_q, self.attn.w_k, self.attn.w_v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
        allowed = torch.ones_like(scores, dtype=torch.bool).tril()
        weights = torch.where(allowed, scores, scores.new_tensor(-math.inf)).softmax(dim=-1)
        x = x + self.attn.w_o(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))
        if memory is not None:
            x = x.add(self.cross(self.norm2(x), memory))
        normed = self.norm2(x) if memory is None else self.norm3(x)
        return x.add(F.linear(F.gelu(self.mlp.up(normed)), self.mlp.down.weight, self.mlp.down.bias))


def fitting(ids, max_len):
    if ids.shape[1] > max_len:
        raise ValueError(f"{ids.shape[1]} ids, and {max_len} positions")
    return ids


class ModelOfEncoderBlocks(nn.Module):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__()
        self.max_len = max_len
        self.embed = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList([attnlib.EncoderBlock(d_model, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(fitting(ids, self.max_len)) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.head(self.norm(x))


class ModelWithItsTables(ModelOfEncoderBlocks):
    def forward(self, ids):
        x = self.embed.weight[fitting(ids, self.max_len)] + self.positions.weight[: ids.shape[1]]
        for i in range(len(self.blocks)):
            x = self.blocks[i](x, mask=attnlib.causal_mask(x.shape[1], x.shape[1], device=x.device))
        return self.norm(x) @ self.head.weight.mT


class ModelOfOwnBlocks(ModelOfEncoderBlocks):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__(vocab, d_model, num_heads, 0, max_len, tie)
        for _ in range(depth):
            self.blocks.append(BlockFromNothing(d_model, num_heads))

    def forward(self, ids):
        x = F.embedding(fitting(ids, self.max_len), self.embed.weight)
        x = x + self.positions(torch.arange(x.shape[1], device=x.device)).unsqueeze(0)
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.head.weight)


class ModelTiedInForward(nn.Module):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__()
        self.max_len = max_len
        self.embed, self.positions = nn.Embedding(vocab, d_model), nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(BlockWithFusedAttention(d_model, num_heads))
        self.norm = nn.LayerNorm(d_model)
        if not tie:
            self.head = nn.Linear(d_model, vocab, bias=False)
        self.tie = tie

    def forward(self, ids):
        x = self.embed(fitting(ids, self.max_len)) + self.positions.weight[None, : ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return torch.einsum("bnd, vd -> bnv", x, self.embed.weight if self.tie else self.head.weight)


class ModelWithABuffer(ModelOfOwnBlocks):
    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__(vocab, d_model, num_heads, depth, max_len, tie)
        self.register_buffer("places", torch.arange(max_len))

    def forward(self, ids):
        x = self.embed(fitting(ids, len(self.places))) + self.positions(self.places[: ids.shape[1]])
        return self.head(self.norm(nn.Sequential(*self.blocks)(x)))


def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
    """Only the targets move: the last position has none, so it gets the id that does not count."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    targets = F.pad(ids[:, 1:], (0, 1), value=ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index)


class AnotherDecoderBlock(find("DecoderBlock").reference):
    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        """Every branch says the same thing, x + f(norm(x)); a memory puts one more between the other two."""
        norms, branches = [self.norm1, self.norm2], [partial(self.attn, is_causal=True), self.mlp]
        if memory is not None:
            norms.append(self.norm3)
            branches.insert(1, partial(self.cross, memory=memory))
        for norm, f in zip(norms, branches, strict=True):
            x = x + f(norm(x))
        return x


class AnotherLanguageModel(find("LanguageModel").reference):
    def forward(self, ids: Tensor) -> Tensor:
        """Positions 0 to n - 1 are the first n rows of their table; a score is a dot product with a row of the head."""
        if ids.shape[1] > self.max_len:
            raise ValueError(f"a text has at most max_len = {self.max_len} ids, got {ids.shape[1]}")
        x = self.embed(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return torch.einsum("bnd,vd->bnv", self.norm(x), self.head.weight)


ALTERNATIVES = {
    "next_token_loss": [
        next_token_loss,
        loss_with_the_vocabulary_second,
        loss_by_gather,
        loss_by_loop,
        loss_with_targets_moved,
        loss_by_one_hot,
        Loss(),
    ],
    "DecoderBlock": [
        AnotherDecoderBlock,
        BlockWithOptions,
        BlockFromNothing,
        BlockWithFusedAttention,
        BlockOfBranches,
        BlockWithFlatAttention,
    ],
    "LanguageModel": [
        AnotherLanguageModel,
        ModelOfEncoderBlocks,
        ModelWithItsTables,
        ModelOfOwnBlocks,
        ModelTiedInForward,
        ModelWithABuffer,
    ],
}
