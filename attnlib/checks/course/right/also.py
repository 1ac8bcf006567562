"""One more right answer to each exercise, shown once the student's own is right, with a line on why it works.

A function is called like its exercise. It computes the answer, or is the `forward` of a module, whose layers are those
of the contract. Each of them passes the exercise's own check (tests/checks/test_wheat.py).
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

import attnlib


def pairwise_dot(x: Tensor, y: Tensor) -> Tensor:
    """Broadcasting pairs every x with every y; einsum adds up the same products without holding them all in memory."""
    return (x[:, :, None] * y[:, None]).sum(dim=-1)


def mend_squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Subtract, then square: nothing to expand, but (b, q, k, d) numbers to hold instead of (b, q, k)."""
    return (x[:, :, None] - y[:, None]).square().sum(dim=-1)


def search(questions: list[str], texts: list[str]) -> Tensor:
    """A dictionary holds only the words that a text has, which is how a real engine keeps millions of them."""
    bags = [Counter(text.lower().split()) for text in texts]
    rarity = {word: math.log(len(bags) / sum(word in bag for bag in bags)) for bag in bags for word in bag}

    def weighed(line: str) -> dict[str, float]:
        vector = {word: times * rarity.get(word, 0.0) for word, times in Counter(line.lower().split()).items()}
        length = math.hypot(*vector.values()) or 1.0
        return {word: number / length for word, number in vector.items()}

    asked, offered = [weighed(line) for line in questions], [weighed(line) for line in texts]
    return torch.tensor([[sum(x.get(word, 0.0) * y[word] for word in y) for y in offered] for x in asked])


def company(texts: Tensor, vocabulary: int, window: int) -> Tensor:
    """One-hot rows, times a table of what is near, times one-hot rows: matrix products count all pairs at once."""
    one_hot, places = F.one_hot(texts, vocabulary).float(), torch.arange(texts.shape[1], device=texts.device)
    apart = (places[:, None] - places).abs()
    counts = (one_hot.mT @ ((apart > 0) & (apart <= window)).float() @ one_hot).sum(dim=0)
    by_chance = counts.sum(dim=1, keepdim=True) * counts.sum(dim=0) / counts.sum()
    return torch.where(counts > 0, counts / by_chance, 1.0).log().clamp(min=0)


def project_qkv(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    """Three products give the same numbers: a column of the result depends on one column of the matrices alone."""
    return x @ w_q, x @ w_k, x @ w_v


def QKVProjection(self: Any, x: Tensor) -> tuple[Tensor, ...]:
    """nn.Linear stores its weight as (out, in): calling it is a product with the transpose, plus the bias."""
    layers = (self.w_q, self.w_k, self.w_v)
    return tuple(x @ w.weight.mT + (0 if w.bias is None else w.bias) for w in layers)


def fold_query_key(w_q: Tensor, b_q: Tensor, w_k: Tensor, b_k: Tensor) -> tuple[Tensor, Tensor]:
    """A bias is one more row of the matrix, for an input that is always 1: fold all rows, and u is the last one."""
    folded = torch.cat([w_q, b_q[None]]) @ w_k.mT
    return folded[:-1], folded[-1]


def write_matrices(features: list[str]) -> Tensor:
    """One matrix may be the identity, since only the product of the two counts: all the wishes are in the other one."""
    wishes = {"alive": ["pronoun", "state"], "place": ["action"], "thing": ["article"]}
    w_k = torch.tensor([[20.0 * (asks in wishes.get(name, [])) for asks in features] for name in features])
    return torch.stack([torch.eye(len(features)), w_k])


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    """A factor may move inside a product: scaling the queries first takes q · d divisions instead of q · k."""
    return (q / math.sqrt(q.shape[-1])) @ k.mT


def softmax(scores: Tensor) -> Tensor:
    """Dividing by a sum is subtracting its logarithm before exp; logsumexp takes the maximum out by itself."""
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Dividing by the softmax's sum can wait until the values are mixed. FlashAttention (lesson 10) depends on it."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    grown = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    total = grown.sum(dim=-1, keepdim=True)
    return grown @ v / total, grown / total


def SelfAttention(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys meet only in W_q W_kᵀ: one matrix says how much two words have to do with each other."""
    between = self.w_q.weight.mT @ self.w_k.weight
    weights = (x @ between @ x.mT / math.sqrt(self.w_q.out_features)).softmax(dim=-1)
    return weights @ self.w_v(x), weights


def mend_self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Mix the words first, project the mixtures afterwards: two matrix products may be done in either order."""
    weights = (x @ w_q @ (x @ w_k).mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    return weights @ x @ w_v, weights


def AdditiveAttention(self: Any, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """u is a single row, so a dot product with it replaces the layer, and there is no axis of length 1 to squeeze."""
    pairs = torch.tanh(self.w_1(q).unsqueeze(2) + self.w_2(k).unsqueeze(1))
    weights = torch.einsum("bqkh,h->bqk", pairs, self.u.weight[0]).softmax(dim=-1)
    return weights @ v, weights


def two_heads_by_hand(n: int, who: int, whom: int) -> Tensor:
    """Every key says where it is, once for each head, so a query only has to name a position."""
    w_q, w_k, w_v, w_o = torch.zeros(4, 2 * n, 2 * n)
    w_q[n - 1, who] = w_q[n - 1, n + whom] = 10 * math.sqrt(n)
    w_k[:n] = w_v[n:] = torch.eye(n).repeat(1, 2)
    w_o += torch.eye(2 * n)
    return torch.stack([w_q, w_k, w_v, w_o])


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """A head is a run of neighbouring columns: cut the runs, and stack them on an axis of their own."""
    if x.shape[-1] % num_heads:
        raise ValueError(f"num_heads must divide the width, got {num_heads} and {x.shape[-1]}")
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


def MultiHeadSelfAttention(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Each head has its own rows of w_o: multiply by those and add the heads up, and there is nothing to merge."""
    layers, h = (self.w_q, self.w_k, self.w_v), self.num_heads
    q, k, v = (rearrange(layer(x), "b n (h d) -> b h n d", h=h) for layer in layers)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    rows = rearrange(self.w_o.weight, "d_model (h d) -> h d d_model", h=h)
    output = (weights @ v @ rows).sum(dim=1)
    return output if self.w_o.bias is None else output + self.w_o.bias, weights


def train_with_adam(model: Any, words: Tensor, wanted: Tensor, position: int, lr: float) -> Tensor:
    """PyTorch's optimiser keeps both means for you, and in each step does the same to all weights at once."""
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for x, target in zip(words, wanted, strict=True):
        loss = F.mse_loss(model(x)[0][:, position], target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def mend_multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> tuple[Tensor, Tensor]:
    """With an axis of their own, the heads need not be folded into the batch, nor unfolded again in the same order."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> b h n d", h=num_heads) for w in (w_q, w_k, w_v))
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return rearrange(weights @ v, "b h n d -> b n (h d)") @ w_o, weights


def from_packed(weight: Tensor, packing: str, num_heads: int) -> tuple[Tensor, ...]:
    """Rearrange the row numbers instead of the rows: print them, and you can see which row goes where."""
    numbers = torch.arange(len(weight), device=weight.device)
    pattern = f"{packing.replace('3', 'three')} -> three (h d)"
    return tuple(weight[rows] for rows in rearrange(numbers, pattern, three=3, h=num_heads))


def cross_attention(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    """Translate each question into the memory's terms, x W_q W_kᵀ: then the memory needs no keys and no values."""
    asked = x @ w_q @ w_k.mT
    weights = (asked @ memory.mT / math.sqrt(w_q.shape[-1])).softmax(dim=-1)
    return weights @ memory @ w_v, weights


def MultiHeadCrossAttention(
    self: Any, x: Tensor, memory: Tensor, key_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """One head after the other: heads know nothing of one another before w_o mixes what they found."""
    asked, keys, values = self.w_q(x), self.w_k(memory), self.w_v(memory)
    heads = zip(*(t.chunk(self.num_heads, dim=-1) for t in (asked, keys, values)), strict=True)
    added = (
        0.0 if key_mask is None else torch.zeros_like(keys[:, None, :, 0]).masked_fill(~key_mask[:, None], -math.inf)
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


def write_greedily(model: Any, memory: Tensor, start_id: int, stop_id: int, longest: int) -> tuple[Tensor, Tensor]:
    """Write first, measure later: one call with the whole text gives the probabilities of all its characters."""
    ids, ended = torch.full((len(memory), 1), start_id), torch.zeros(len(memory), 1, dtype=torch.bool)
    with torch.no_grad():
        while ids.shape[1] <= longest and not bool(ended.all()):
            new = model(memory, ids)[:, -1:].argmax(dim=-1).masked_fill(ended, stop_id)
            ids, ended = torch.cat([ids, new], dim=1), ended | (new == stop_id)
        gained = model(memory, ids[:, :-1]).log_softmax(dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    stops = (ids[:, 1:] == stop_id).long()
    return ids[:, 1:], (gained * (stops.cumsum(dim=1) - stops == 0)).sum(dim=1)


def mend_decoder_attention(
    x: Tensor, memory: Tensor, x_is_real: Tensor, memory_is_real: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor
) -> tuple[Tensor, Tensor]:
    """A mask can be *added*: 0 changes nothing, and exp(-inf) is 0."""
    scores = x @ w_q @ (memory @ w_k).mT / math.sqrt(w_k.shape[-1])
    added = torch.zeros_like(memory[..., 0]).masked_fill(~memory_is_real, -torch.inf)
    weights = (scores + added[:, None]).softmax(dim=-1)
    return weights @ (memory @ w_v), weights


def causal_mask(q_len: int, k_len: int, window: int | None = None) -> Tensor:
    """The rule itself, written out: how many positions a key is behind its query, from 0 to window - 1."""
    behind = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return (behind >= 0) & (behind < (k_len if window is None else window))


def renormalised_causal_weights(scores: Tensor) -> Tensor:
    """The sum of the whole row cancels when you renormalise, which leaves a softmax over the past alone."""
    past = torch.ones_like(scores, dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
    return scores.masked_fill(~past, -torch.inf).softmax(dim=-1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The lowest *finite* number blocks just as -inf does; a row without True stays finite, and the mask makes it 0."""
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1) * mask


def CausalSelfAttention(self: Any, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The lowest finite number blocks, too, and the product with the mask empties the rows that have no keys."""
    layers, order = (self.w_q, self.w_k, self.w_v), torch.arange(x.shape[1], device=x.device)
    q, k, v = (rearrange(layer(x), "b n (h d) -> b h n d", h=self.num_heads) for layer in layers)
    mask = order <= order[:, None]
    mask = mask if key_mask is None else mask & key_mask[:, None, None]
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, torch.finfo(x.dtype).min)
    weights = scores.softmax(dim=-1) * mask
    return self.w_o(rearrange(weights @ v, "b h n d -> b n (h d)")), weights


def mend_padded_causal_weights(scores: Tensor, real: Tensor) -> Tensor:
    """Two masks may be applied one after the other: what the first has blocked, the second cannot open."""
    past, lowest = torch.ones_like(scores, dtype=torch.bool).tril(), torch.finfo(scores.dtype).min
    blocked = scores.masked_fill(~past, lowest).masked_fill(~real[:, None, None], lowest)
    return blocked.softmax(dim=-1) * past * real[:, None, None]


def packed_causal(ids: Tensor) -> tuple[Tensor, Tensor]:
    """A word's position in its text is the number of words that it may see, not counting itself."""
    begins = F.pad(ids[:, 1:] != ids[:, :-1], (1, 0), value=True)
    text = begins.cumsum(dim=1)
    mask = ((text[:, :, None] == text[:, None]) & (ids != -1)[:, :, None]).tril()
    return mask, (mask.sum(dim=-1) - 1).clamp(min=0)


def reach(model: torch.nn.Module, ids: Tensor, vocab: int) -> Tensor:
    """All n changed texts are one batch: the text n times, with a different character along the diagonal."""
    texts = ids.repeat(len(ids), 1)
    texts.diagonal().copy_((ids + 1) % vocab)
    with torch.no_grad():
        after, before = model(texts), model(ids[None])  # (j, i, vocab), (1, i, vocab)
    found: Tensor = (after - before).abs().amax(dim=-1).T > 1e-5
    return found


def invent_control(vocab: int, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two characters will do: whoever cannot see the coin before it falls pays ln 2 a throw."""
    return (torch.rand(shape, generator=generator) < 0.5).long(), torch.tensor(2.0).log()


def train_writer(model: torch.nn.Module, excerpts: Tensor, rates: Tensor, make: Any = torch.optim.SGD) -> Tensor:
    """LambdaLR does the same bookkeeping: at each step it multiplies the optimiser's rate, here 1, by a factor."""
    optimiser, losses = make(model.train().parameters(), lr=1.0), []
    factors = [*rates.tolist(), 0.0]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: factors[step])
    for excerpt in excerpts:
        loss = F.cross_entropy(model(excerpt[:, :-1]).mT, excerpt[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def losses_by_place(model: torch.nn.Module, excerpts: Tensor) -> tuple[Tensor, Tensor]:
    """The last predictions of all lengths, stacked, are logits like those of one pass, so one line measures both."""
    with torch.no_grad():
        one_pass = model(excerpts[:, :-1])
        one_by_one = torch.stack([model(excerpts[:, :t])[:, -1] for t in range(1, excerpts.shape[1])], dim=1)
    losses = (F.cross_entropy(x.mT, excerpts[:, 1:], reduction="none") for x in (one_pass, one_by_one))
    training, writing = (loss.mean(dim=0) for loss in losses)
    return training, writing


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`var_mean` reads x once for both numbers; correction=0 divides by d_model, not by d_model - 1."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt() * gain + bias


def mlp_by_hand(d: int, one: int, other: int, to: int) -> Tensor:
    """A neuron for each of the two without the other: both are shut where the features agree, and no bias is needed."""
    up, down = torch.zeros(2, d, d)
    up[one, 0] = up[other, 1] = 20.0
    up[one, 1] = up[other, 0] = -20.0
    down[:2, to] = 1 / 20
    return torch.stack([up, down])


def EncoderBlock(self: Any, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Both halves say the same thing, x + f(norm(x)); only f differs."""
    attend = partial(self.attn, key_mask=key_mask)
    for norm, f in ((self.norm1, attend), (self.norm2, self.mlp)):
        x = x + f(norm(x))
    return x


def DigitReader(self: Any, images: Tensor) -> Tensor:
    """The head is linear, so the mean of the patches' logits equals the logits of their mean: average last."""
    squares = rearrange(images, "b (row p) (column q) -> b (row column) (p q)", p=self.patch, q=self.patch)
    x = self.embed(squares) + self.positions
    for block in self.blocks:
        x = block(x)
    logits: Tensor = self.head(self.norm(x)).mean(dim=1)
    return logits


def mend_encoder_block(self: Any, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """The stream is a sum: the input, plus what attention adds, plus what the MLP adds to both."""
    attended = self.attn(self.norm1(x), key_mask=key_mask)
    x = x + attended + self.mlp(self.norm2(x + attended))
    return x


def PostNormBlock(self: Any, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
    """Both halves say the same thing, norm(x + f(x)): whatever is added, the norm brings it back to one size."""
    attend = partial(self.attn, key_mask=key_mask)
    for norm, f in ((self.norm1, attend), (self.norm2, self.mlp)):
        x = norm(x + f(x))
    return x


def block_cost(lengths: Tensor, d_model: int, num_heads: int, d_hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """A block is eight products, and (n, a) @ (a, b) takes n·a·b multiplications; a head's width cancels in the sum."""
    matrices: Any = [(d_model, d_model)] * 4 + [(d_model, d_hidden), (d_hidden, d_model)]
    pairs: Any = [(d_model, lengths), (lengths, d_model)]  # all heads side by side
    word_by_word, between = (torch.stack([lengths * a * b for a, b in each]).sum(0) for each in (matrices, pairs))
    return word_by_word, between, num_heads * lengths.square()


def sinusoidal_positions(n: int, d_model: int, base: float = 10000.0) -> Tensor:
    """A cosine is a sine a quarter turn ahead: one formula for all columns, odd ones shifted by π/2."""
    column = torch.arange(d_model, dtype=torch.float64)
    speeds = base ** (-(column - column % 2) / d_model)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * speeds
    return torch.sin(angles + column % 2 * torch.pi / 2).float()


def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Two columns are one complex number, and turning it means multiplying by e^{iθ}, as LLaMA's own code does."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"d must be even (columns are rotated in pairs), got {d}")
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angles = positions.double()[..., None] * speeds
    pairs = torch.view_as_complex(rearrange(x, "... (d two) -> ... d two", two=2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)).flatten(-2)


def alibi_bias(num_heads: int, q_len: int, k_len: int) -> Tensor:
    """`bit_length` finds the power of two in whole numbers, where a logarithm could be rounded the wrong way."""
    below = 1 << (num_heads.bit_length() - 1)
    series, longer = ([2 ** (-8 * i / h) for i in range(1, h + 1)] for h in (below, 2 * below))
    slopes = torch.tensor([*series, *longer[::2]][:num_heads])
    ahead = torch.arange(k_len) - torch.arange(k_len - q_len, k_len)[:, None]
    return torch.einsum("h,qk->hqk", slopes, ahead.float())


def train_with_warmup(
    model: nn.Module, ids: Tensor, targets: Tensor, lr: float, warmup: int, make: Any = torch.optim.SGD
) -> Tensor:
    """A scheduler multiplies `lr` by what the function says of a step; `schedule.step()` goes to the next one."""
    optimiser, losses = make(model.parameters(), lr=lr), []
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1, (step + 1) / warmup) * (1 - step / len(ids))
    )
    for x, wanted in zip(ids, targets, strict=True):
        loss = F.cross_entropy(model(x)[:, -wanted.shape[1] :].mT, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def read_in_windows(model: nn.Module, ids: Tensor, window: int) -> Tensor:
    """Two slices replace `max`: everything before the token, and of that the last `window`."""
    seen = (ids[:, :i][:, -window:] for i in range(1, ids.shape[1]))
    with torch.no_grad():
        return torch.stack([F.cross_entropy(model(x)[:, -1], ids[:, i]) for i, x in enumerate(seen, 1)])


def mend_rotary(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor) -> Tensor:
    """The mask written out: new word i is word m + i of the text, and sees everything up to itself."""
    m, n = past_k.shape[-2], q.shape[-2]
    new = torch.arange(m, m + n, device=q.device)
    keys = torch.cat([past_k, attnlib.rotate(k, new)], dim=-2)
    scores = attnlib.rotate(q, new) @ keys.mT / math.sqrt(q.shape[-1])
    past = torch.arange(m + n, device=q.device) <= new[:, None]
    return scores.masked_fill(~past, -torch.inf).softmax(dim=-1) @ torch.cat([past_v, v], dim=-2)


def next_token_loss(logits: Tensor, ids: Tensor, ignore_index: int = -100) -> Tensor:
    """Only the targets move: the last position has none, so it gets the id that does not count."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    targets = F.pad(ids[:, 1:], (0, 1), value=ignore_index)
    return F.cross_entropy(logits.mT, targets, ignore_index=ignore_index)


def DecoderBlock(self: Any, x: Tensor, memory: Tensor | None = None) -> Tensor:
    """Every branch says the same thing, x + f(norm(x)); a memory puts one more between the other two."""
    norms, branches = [self.norm1, self.norm2], [partial(self.attn, is_causal=True), self.mlp]
    if memory is not None:
        norms.append(self.norm3)
        branches.insert(1, partial(self.cross, memory=memory))
    for norm, f in zip(norms, branches, strict=True):
        x = x + f(norm(x))
    return x


def LanguageModel(self: Any, ids: Tensor) -> Tensor:
    """Positions 0 to n - 1 are the first n rows of their table, and a score is a dot product with a row of the head."""
    if ids.shape[1] > self.max_len:
        raise ValueError(f"a text has at most max_len = {self.max_len} ids, got {ids.shape[1]}")
    x = self.embed(ids) + self.positions.weight[: ids.shape[1]]
    for block in self.blocks:
        x = block(x)
    return torch.einsum("bnd,vd->bnv", self.norm(x), self.head.weight)


def sample_next(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """In sorted order, top_k and top_p keep a run at the front; a place in it is drawn, and `ids` names its token."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    ordered, ids = (logits / temperature).sort(dim=-1, descending=True)
    if top_k is not None:
        ordered = ordered.masked_fill(ordered < ordered[:, :top_k].amin(dim=-1, keepdim=True), -torch.inf)
    p = ordered.softmax(dim=-1)
    p = p if top_p is None else p * (p.cumsum(dim=-1) - p < top_p)
    return ids.gather(-1, torch.multinomial(p, 1, generator=generator))[:, 0]


def generate(
    model: Any,
    ids: Tensor,
    num_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Whether a row has stopped can be read off the row itself: its new part holds stop_id."""
    n, was_training, stop = ids.shape[1], model.training, -1 if stop_id is None else stop_id
    model.eval()
    while ids.shape[1] < n + num_tokens and not (stopped := (ids[:, n:] == stop).any(dim=1)).all():
        with torch.no_grad():
            logits = model(ids[:, -model.max_len :])[:, -1]
        new = attnlib.sample_next(logits, temperature, top_k, top_p, generator)
        ids = torch.cat([ids, new.masked_fill(stopped, stop)[:, None]], dim=1)
    model.train(was_training)
    return ids


def witten_bell(text: Tensor, test: Tensor, order: int, vocab: int) -> Tensor:
    """A table of which context occurs where, times a table of what comes next there, is a table of counts."""
    p = torch.full((len(test) - order + 1,), 1 / vocab)
    for k in range(order):
        seen, asked = (ids.unfold(0, k + 1, 1) for ids in (text, test[order - 1 - k :]))
        same = (seen[:, :k] == asked[:, None, :k]).all(dim=-1)
        counts = same.float() @ F.one_hot(seen[:, k], vocab).float()
        total, kinds = counts.sum(dim=1), (counts > 0).sum(dim=1)
        mixed = (counts.gather(1, asked[:, k:])[:, 0] + kinds * p) / (total + kinds)
        p = torch.where(total > 0, mixed, p)
    return p


def train_language_model(model: Any, batches: Tensor, held_out: Tensor, rate: float, warmup: int, every: int) -> Tensor:
    """PyTorch's scheduler holds the shape of the rate, and one function computes both losses, so they cannot differ."""

    def loss_of(batch: Tensor) -> Tensor:
        return F.cross_entropy(model(batch[0])[:, :-1].mT, batch[1, :, 1:], ignore_index=-100)

    was_training, losses = model.training, [loss_of(held_out).detach() for _ in [model.eval()]]
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / warmup) * (1 - step / len(batches))
    )
    for step, batch in enumerate(batches, 1):
        model.train()
        optimiser.zero_grad()
        loss_of(batch).backward()
        optimiser.step()
        schedule.step()
        if step % every == 0:
            model.eval()
            losses.append(loss_of(held_out).detach())
    model.train(was_training)
    return torch.stack(losses)


def append_to_cache(cache: dict[str, Any], k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """The views are made first, and their last n positions written: the result is part of the buffer itself."""
    length = cache["length"] + k.shape[2]
    if length > cache["k"].shape[2]:
        raise ValueError(f"there is room for {cache['k'].shape[2]} positions, got {length}")
    keys, values = (cache[name].narrow(2, 0, length) for name in ("k", "v"))
    keys[:, :, cache["length"] :], values[:, :, cache["length"] :] = k, v
    cache["length"] = length
    return keys, values


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Without copies: the heads of a group get an axis of their own, and keys and values broadcast over it."""
    h, g = q.shape[1], k.shape[1]
    if h % g:
        raise ValueError(f"{h} heads cannot share {g} groups")
    q, k, v = q.unflatten(1, (g, h // g)), k.unsqueeze(2), v.unsqueeze(2)
    weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return (weights @ v).flatten(1, 2)


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


def online_softmax(blocks: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Where m does not grow the factor is exp(0) = 1, so one line serves for every block, the first one included."""
    m, total = torch.tensor(-torch.inf), torch.tensor(0.0)
    for block in blocks:
        new = torch.maximum(m.to(block), block.amax(dim=-1))
        base = torch.where(new.isinf(), 0.0, new)
        total = torch.exp(m.to(block) - base) * total.to(block) + torch.exp(block - base.unsqueeze(-1)).sum(dim=-1)
        m = new
    return m, total


def merge(o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """o and l are sums of the same terms, so l may ride along as one more column of o."""
    m = torch.stack([m1, m2]).amax(dim=0)
    sums = [torch.cat([o, total.unsqueeze(-1)], dim=-1) for o, total in ((o1, l1), (o2, l2))]
    factors = [torch.exp(old - m.clamp(min=-1e38)).unsqueeze(-1) for old in (m1, m2)]
    both = factors[0] * sums[0] + factors[1] * sums[1]
    return both[..., :-1], m, both[..., -1]


def flash_attention(q: Tensor, k: Tensor, v: Tensor, block_size: int, is_causal: bool) -> tuple[Tensor, Tensor]:
    """A finished part is an output and a log-sum-exp; to join two, take a sigmoid of the difference of the latter."""
    outputs, sums, places = torch.zeros_like(v), q.new_full(q.shape[:-1], -torch.inf), torch.arange(q.shape[-2])
    for at in places.split(block_size):
        rows = slice(int(at[0]) if is_causal else 0, None)  # queries before this block of keys see nothing of it
        scores = q[..., rows, :] @ k[..., at, :].mT * q.shape[-1] ** -0.5
        late = at.to(q.device) > places[rows, None].to(q.device)
        scores = scores.masked_fill(late, -torch.inf) if is_causal else scores
        lse = scores.logsumexp(dim=-1)
        share = torch.sigmoid(lse - sums[..., rows])[..., None]
        new = (scores - lse[..., None]).exp() @ v[..., at, :]
        outputs[..., rows, :], sums[..., rows] = outputs[..., rows, :].lerp(new, share), sums[..., rows].logaddexp(lse)
    return outputs, sums


def induction_by_hand(vocab: int, n: int) -> Tensor:
    """By way of the query: layer 0 fetches *where* the token was, layer 1 asks for the place after that."""
    token, guess, position = slice(0, vocab), slice(2 * vocab, 3 * vocab), slice(3 * vocab, None)
    matrices = torch.zeros(4, 3 * vocab + n, 3 * vocab + n)
    matrices[0][token, token] = 200 * torch.eye(vocab)
    matrices[1][position, position] = 0.5 * torch.eye(n)
    matrices[2][position, position] = 900 * torch.ones(n - 1).diag(1)
    matrices[3][token, guess] = torch.eye(vocab)
    return matrices


def find_heads(model: Any, ids: Tensor, period: int) -> tuple[Tensor, Tensor, Tensor]:
    """A detector is a table that says where the weight should be, so three masks and one einsum score every head."""
    weights = torch.stack(model(ids, return_weights=True)[1])
    q, k = torch.arange(ids.shape[1])[:, None], torch.arange(ids.shape[1])
    back, copy = (q - k == 1) & (q > 1), (q - k == period - 1) & (q > period)
    masks = torch.stack([back, copy, (k == 0) & (q > 1) & (q <= period)]).to(weights)
    masks = masks / masks.sum(dim=(1, 2), keepdim=True)
    scores = torch.einsum("lbhqk,sqk->slh", weights, masks) / len(ids)
    best = torch.unravel_index(scores.flatten(1).argmax(dim=1), scores.shape[1:])
    return scores, (masks / (q + 1)).sum(dim=(1, 2)), torch.stack(best, dim=1)


def break_repeats(ids: Tensor, period: int) -> Tensor:
    """Every second block runs backwards: next to no token is followed by what followed it before."""
    blocks = ids[:, 1:].split(period, dim=1)
    return torch.cat([ids[:, :1], *(b.flip(1) if i % 2 else b for i, b in enumerate(blocks))], dim=1)


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



def softmax_gradient(weights: Tensor, grad_weights: Tensor) -> Tensor:
    """The table of all derivatives of a row is diag(P) - P Pᵀ; times dP it need never be made."""
    return weights * grad_weights - weights * (weights[..., None, :] @ grad_weights[..., None])[..., 0]
