"""Wrong answers that break what lesson 00 promises for every exercise, where no case used to look."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib
from odd.collected import WRONG

answers, also = WRONG.answers, WRONG.also


# an exp that overflows


def attend_naively(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    powers = (q @ k.mT / math.sqrt(q.shape[-1])).exp()
    if causal:
        powers = powers.tril(k.shape[-2] - q.shape[-2])
    return powers / powers.sum(-1, keepdim=True) @ v


@answers("mend_rotary")
def rotary_by_exp(q, k, v, past_k, past_v):
    places = torch.arange(past_k.shape[-2], past_k.shape[-2] + q.shape[-2], device=q.device)
    keys = torch.cat([past_k, attnlib.rotate(k, places)], dim=-2)
    return attend_naively(attnlib.rotate(q, places), keys, torch.cat([past_v, v], dim=-2), causal=True)


@answers("grouped_query_attention")
def groups_by_exp(q, k, v):
    if q.shape[1] % k.shape[1]:
        raise ValueError("groups")
    return attend_naively(q, *(t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v)))


def append(cache, k, v):
    start, stop = cache["length"], cache["length"] + k.shape[2]
    cache["k"][:, :, start:stop], cache["v"][:, :, start:stop], cache["length"] = k, v, stop
    return cache["k"][:, :, :stop], cache["v"][:, :, :stop]


def attend_to_cache(x, attn, cache, attend):
    q, k, v = (attnlib.split_heads(layer(x), cache["k"].shape[1]) for layer in (attn.w_q, attn.w_k, attn.w_v))
    return attn.w_o(attnlib.merge_heads(attend(q, *append(cache, k, v))))


def causally(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = attnlib.causal_mask(q.shape[-2], k.shape[-2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@answers("cached_attention")
def cached_by_exp(x, attn, cache):
    return attend_to_cache(x, attn, cache, functools.partial(attend_naively, causal=True))


def roll(q, k, v, cache, attend=F.scaled_dot_product_attention):
    window = cache["k"].shape[2]
    slot = cache["length"] % window
    cache["k"][:, :, slot], cache["v"][:, :, slot] = k[:, :, 0], v[:, :, 0]
    cache["length"] += 1
    return attend(q, *(cache[name][:, :, : cache["length"]] for name in ("k", "v")))


@answers("mend_rolling_cache")
def rolling_by_exp(q, k, v, cache):
    return roll(q, k, v, cache, attend_naively)


class NaiveAttention(attnlib.MultiHeadAttention):
    def forward(self, x, memory=None, is_causal=False):
        memory = x if memory is None else memory
        q, k, v = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q, k, v = (attnlib.split_heads(t, self.num_heads) for t in (q, k, v))
        return self.w_o(attnlib.merge_heads(attend_naively(q, k, v, is_causal)))


@answers("DecoderBlock")
class BlockByExp(nn.Module):
    def __init__(self, d_model, num_heads, d_memory=None):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = NaiveAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        if d_memory is not None:
            self.cross = NaiveAttention(d_model, num_heads, d_memory=d_memory)
            self.norm3 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)

    def forward(self, x, memory=None):
        x = x + self.attn(self.norm1(x), is_causal=True)
        if memory is None:
            return x + self.mlp(self.norm2(x))
        x = x + self.cross(self.norm2(x), memory)
        return x + self.mlp(self.norm3(x))


class Model(nn.Module):
    block: type[nn.Module] = attnlib.EncoderBlock
    causal = True

    def __init__(self, vocab, d_model, num_heads, depth, max_len, tie=True):
        super().__init__()
        self.keep(max_len)
        self.embed = nn.Embedding(vocab, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(self.block(d_model, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def keep(self, max_len):
        self.max_len = max_len

    def forward(self, ids):
        if ids.shape[1] > self.positions.num_embeddings:
            raise ValueError("too long")
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, is_causal=True) if self.causal else block(x)
        return self.head(self.norm(x))


@answers("LanguageModel")
class ModelByExp(Model):
    block, causal = BlockByExp, False


@answers("LanguageModel")
class ModelWithoutItsLength(Model):
    def keep(self, max_len):
        pass


@answers("LanguageModel")
class ModelWithAnotherLength(Model):
    def keep(self, max_len):
        self.max_len = max_len - 1


# arguments at the end of their range


def draw(logits, temperature, top_k, keep, generator):
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits / temperature
    if top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1]), dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    shares, order = logits.softmax(-1).sort(dim=-1, descending=True)
    shares = torch.where(keep(shares), shares, 0)
    return order.gather(1, torch.multinomial(shares, 1, generator=generator))[:, 0]


@answers("sample_next")
def first_beyond_top_p(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Where nothing is beyond it, argmax finds place 0."""

    def keep(shares):
        if top_p is None:
            return torch.ones_like(shares, dtype=torch.bool)
        last = (shares.cumsum(-1) > top_p + 1e-4).int().argmax(-1, keepdim=True)
        return torch.arange(shares.shape[-1]) <= last

    return draw(logits, temperature, top_k, keep, generator)


@answers("sample_next")
def exp_of_the_logits(logits, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0:
        return logits.argmax(-1)
    shares = (logits / temperature).exp()
    if top_k is not None:
        shares = shares * (shares >= shares.topk(min(top_k, shares.shape[-1])).values[:, -1:])
    shares, order = (shares / shares.sum(-1, keepdim=True)).sort(dim=-1, descending=True)
    if top_p is not None:
        shares = shares * (shares.cumsum(-1) - shares < top_p)
    return order.gather(1, torch.multinomial(shares, 1, generator=generator))[:, 0]


# inputs that are changed


@answers("next_token_loss")
def ignored_ids_overwritten(logits, ids, ignore_index=-100):
    """Through a view of the caller's ids, and only where something is ignored."""
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    targets = ids[:, 1:]
    kept = targets != ignore_index
    targets[~kept] = 0
    losses = -logits[:, :-1].log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    return losses[kept].mean()


@answers("search")
def texts_lengthened(questions, texts):
    texts.append(texts[0])
    return search_right(questions, texts[:-1])


@answers("search")
def questions_in_small_letters(questions, texts):
    for i, question in enumerate(questions):
        questions[i] = question.lower() + " "
    return search_right(questions, texts)


def search_right(questions, texts):
    words = sorted({word for text in texts for word in text.lower().split()})
    asked, offered = (
        torch.tensor([[line.lower().split().count(word) for word in words] for line in lines]).float()
        for lines in (questions, texts)
    )
    rarity = (len(texts) / (offered > 0).sum(0)).log()
    asked, offered = asked * rarity, offered * rarity
    return asked @ offered.T / (asked.norm(dim=-1)[:, None] * offered.norm(dim=-1)).clamp(min=1e-9)


@answers("mend_rolling_cache")
def length_set_back(q, k, v, cache):
    """The ring is right for ever; the number of words so far is not."""
    output, window = roll(q, k, v, cache), cache["k"].shape[2]
    if cache["length"] >= 2 * window:
        cache["length"] -= window
    return output


@answers("cached_attention")
def length_as_it_was(x, attn, cache):
    output, length = attend_to_cache(x, attn, cache, causally), cache["length"]
    cache["length"] = length if length < cache["k"].shape[2] else 0
    return output


# dtypes beside gradients, and answers that are remembered for the object


@answers("mend_rotary")
def float32_where_gradients_flow(q, k, v, past_k, past_v):
    places = torch.arange(past_k.shape[-2], past_k.shape[-2] + q.shape[-2], device=q.device)
    keys = torch.cat([past_k, attnlib.rotate(k, places)], dim=-2)
    output = causally(attnlib.rotate(q, places), keys, torch.cat([past_v, v], dim=-2))
    return output.float() if q.requires_grad else output


also("rotate", functools.cache(lambda x, positions, base=1e4: turned(x, positions, base)))


def turned(x, positions, base):
    if x.shape[-1] % 2:
        raise ValueError("d must be even")
    speeds = base ** -(torch.arange(0, x.shape[-1], 2, device=x.device).double() / x.shape[-1])
    angles = positions[..., None].double() * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    one, two = x[..., ::2], x[..., 1::2]
    return torch.stack([one * cos - two * sin, one * sin + two * cos], dim=-1).flatten(-2)
