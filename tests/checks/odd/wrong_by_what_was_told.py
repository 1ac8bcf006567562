"""Wrong answers that break a promise of a lesson's text: about names, padding, exact zeros, the end of a training."""

import torch
import torch.nn.functional as F
from torch import nn

import attnlib
from odd.collected import WRONG
from odd.right_functions import safely
from odd.right_modules import Block
from odd.wrong_by_words_and_widths import refusing

answers, also = WRONG.answers, WRONG.also


# a layer has one name


@answers("QKVProjection")
class LayersInAListToo(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias), nn.Linear(d_model, d_k, bias)
        self.w_v = nn.Linear(d_model, d_v, bias)
        self.layers = nn.ModuleList([self.w_q, self.w_k, self.w_v])

    def forward(self, x):
        return tuple(layer(x) for layer in self.layers)


@answers("QKVProjection")
class QueryUnderTwoNames(LayersInAListToo):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__(d_model, d_k, d_v, bias)
        self.layers = None
        self.query = self.w_q

    def forward(self, x):
        return self.query(x), self.w_k(x), self.w_v(x)


@answers("EncoderBlock")
class NormsInAListToo(Block):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.norms = nn.ModuleList([self.norm1, self.norm2])


# masks: padding may be anywhere, and a mask belongs to one call


def first_ones(key_mask):
    return torch.arange(key_mask.shape[1], device=key_mask.device) < key_mask.sum(dim=1, keepdim=True)


def from_one_side(key_mask):
    return torch.where(key_mask[:, :1], first_ones(key_mask), first_ones(key_mask).flip(1))


class PostNorm(nn.Module):
    """Right, but for what `seen` makes of the mask."""

    kept = None

    def __init__(self, d_model, num_heads, mlp_ratio=4.0):
        super().__init__()
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, key_mask=None):
        x = self.norm1(x + self.attn(x, key_mask=self.seen(key_mask)))
        return self.norm2(x + self.mlp(x))


@answers("PostNormBlock")
class PostNormMaskLivesOn(PostNorm):
    def seen(self, key_mask):
        self.kept = self.kept if key_mask is None else key_mask
        return self.kept


@answers("PostNormBlock")
class PostNormFirstMask(PostNorm):
    def seen(self, key_mask):
        return self.__dict__.setdefault("first", key_mask)


@answers("PostNormBlock")
class PostNormOpensTheMask(PostNorm):
    def seen(self, key_mask):
        if key_mask is not None:
            key_mask[:, 0] |= ~key_mask.any(dim=-1)
        return key_mask


@answers("PostNormBlock")
class PostNormPaddingOnOneSide(PostNorm):
    def seen(self, key_mask):
        return None if key_mask is None else from_one_side(key_mask)


@answers("EncoderBlock")
class PaddingOnOneSide(Block):
    def forward(self, x, key_mask=None):
        return super().forward(x, None if key_mask is None else from_one_side(key_mask))


also("mend_encoder_block", PaddingOnOneSide)


@answers("mend_encoder_block")
class MendedMaskLivesOn(Block):
    kept = None

    def forward(self, x, key_mask=None):
        self.kept = self.kept if key_mask is None else key_mask
        return super().forward(x, self.kept)


@answers("mend_decoder_attention")
def a_memory_whose_first_are_real(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    return decoded(x, memory, first_ones(memory_is_real)[:, None], w_q, w_k, w_v)


@answers("mend_decoder_attention")
def a_first_question_that_is_real(x, memory, x_is_real, memory_is_real, w_q, w_k, w_v):
    return decoded(x, memory, memory_is_real[:, None] & x_is_real[:, :1, None], w_q, w_k, w_v)


def decoded(x, memory, allowed, w_q, w_k, w_v):
    k = memory @ w_k
    weights = safely(x @ w_q @ k.mT * k.shape[-1] ** -0.5, allowed)
    return weights @ (memory @ w_v), weights


@answers("mend_padded_causal_weights")
def words_without_a_gap(scores, real):
    n, places = scores.shape[-1], torch.arange(scores.shape[-1], device=scores.device)
    first, after = real.int().argmax(dim=1, keepdim=True), n - real.flip(1).int().argmax(dim=1, keepdim=True)
    between = (places >= first) & (places < after) & real.any(dim=1, keepdim=True)
    return safely(scores, between[:, None, None] & (places <= places[:, None]))


@answers("MultiHeadCrossAttention")
class RefusesWhenCalled(nn.Module):
    def __init__(self, d_model, d_memory, num_heads, d_head=None, bias=True):
        super().__init__()
        self.h, width = num_heads, d_model if d_head is None else num_heads * d_head
        self.w_q, self.w_o = nn.Linear(d_model, width, bias), nn.Linear(width, d_model, bias)
        self.w_k, self.w_v = nn.Linear(d_memory, width, bias), nn.Linear(d_memory, width, bias)

    def forward(self, x, memory, key_mask=None):
        q, k, v = (
            refusing(t, self.h).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for t in (self.w_q(x), self.w_k(memory), self.w_v(memory))
        )
        real = torch.ones_like(memory[..., 0], dtype=torch.bool) if key_mask is None else key_mask
        weights = safely(q @ k.mT * q.shape[-1] ** -0.5, real[:, None, None])
        return self.w_o((weights @ v).transpose(1, 2).flatten(2)), weights


# masked_softmax: exactly 0, and right for any finite scores


@answers("masked_softmax")
def by_a_logsumexp(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    filled = scores.masked_fill(~(mask | empty), -torch.inf)
    return (filled - filled.logsumexp(-1, keepdim=True)).exp().masked_fill(empty, 0.0)


@answers("masked_softmax")
def blocked_keys_get_1e_12(scores, mask):
    return safely(scores, mask).clamp(min=1e-12) * mask.any(-1, keepdim=True)


# packed_causal


def packed(ids, real, compared):
    place = torch.arange(ids.shape[1], device=ids.device)
    begins = torch.ones_like(real)
    begins[:, 1:] = compared[:, 1:] != compared[:, :-1]
    text, first = begins.cumsum(1), (place * begins).cummax(1).values
    both = real[:, :, None] & real[:, None, :] & (text[:, :, None] == text[:, None, :])
    return both & (place <= place[:, None]), (place - first) * real


@answers("packed_causal")
def texts_go_on_after_padding(ids):
    real = ids != -1
    last = (torch.arange(ids.shape[1], device=ids.device) * real).cummax(1).values
    return packed(ids, real, ids.gather(1, last))


@answers("packed_causal")
def padding_renumbered_in_place(ids):
    real = ids != -1
    ids[~real] = 99
    return packed(ids, real, ids)


@answers("packed_causal")
def something_real_in_each_row(ids):
    assert bool((ids >= 0).any())
    return packed(ids, ids != -1, ids)


# models: trained to the end, or not at all


def guessed(model, excerpts):
    return F.cross_entropy(model(excerpts[:, :-1]).mT, excerpts[:, 1:])


@answers("train_writer")
def no_step_on_the_last_excerpt(model, excerpts, rates, make=torch.optim.SGD):
    optimiser, losses = make(model.train().parameters(), lr=1.0), []
    for i, excerpt in enumerate(excerpts):
        optimiser.param_groups[0]["lr"] = rates[i].item()
        losses.append(guessed(model, excerpt))
        optimiser.zero_grad()
        losses[-1].backward()
        if i + 1 < len(excerpts):
            optimiser.step()
    return torch.stack(losses).detach()


@answers("train_with_adam")
def no_step_on_the_last_batch(model, words, wanted, position, lr):
    optimiser, losses = torch.optim.Adam(model.parameters(), lr=lr), []
    for x, target in zip(words[:-1], wanted[:-1], strict=True):
        losses.append(F.mse_loss(model(x)[0][:, position], target))
        optimiser.zero_grad()
        losses[-1].backward()
        optimiser.step()
    return torch.stack([*losses, F.mse_loss(model(words[-1])[0][:, position], wanted[-1])]).detach()


@answers("losses_by_place")
def gradients_left_behind(model, excerpts):
    guessed(model, excerpts).backward()
    read, following = excerpts[:, :-1], excerpts[:, 1:]
    with torch.no_grad():
        training = F.cross_entropy(model(read).mT, following, reduction="none").mean(0)
        last = [model(read[:, : t + 1])[:, -1] for t in range(read.shape[1])]
    return training, torch.stack([F.cross_entropy(logits, following[:, t]) for t, logits in enumerate(last)])


@answers("reach")
def gradients_left_by_the_first_call(model, ids, vocab):
    before = model(ids[None])[0]
    before.sum().backward()
    columns = []
    for j in range(len(ids)):
        changed = ids.clone()
        changed[j] = (ids[j] + 1) % vocab
        columns.append((model(changed[None])[0] - before).abs().amax(-1).detach() > 1e-5)
    return torch.stack(columns, dim=1)


def written(model, memory, start_id, stop_id, longest):
    ids = torch.full((len(memory), 1), start_id)
    ended, total = torch.zeros(len(memory), dtype=torch.bool), memory.new_zeros(len(memory))
    with torch.no_grad():
        while ids.shape[1] <= longest and not ended.all():
            best, new = model(memory, ids)[:, -1].log_softmax(-1).max(-1)
            total += best * ~ended
            ids = torch.cat([ids, new.masked_fill(ended, stop_id)[:, None]], dim=1)
            ended = ended | (ids[:, -1] == stop_id)
    return ids[:, 1:], total


@answers("write_greedily")
def begun_with_1(model, memory, start_id, stop_id, longest):
    return written(model, memory, 1, stop_id, longest)


@answers("write_greedily")
def one_character_squeezed(*given):
    ids, total = written(*given)
    return ids.squeeze(1), total
