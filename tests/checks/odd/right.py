"""Right answers in odd forms: devices, dtypes, caches that ask before they answer, guards, views, generators."""

import functools
import math
from collections.abc import Callable
from typing import Any

import einops
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib

RIGHT: list[tuple[str, Any]] = []


def answers(name: str) -> Callable[[Any], Any]:
    def note(answer: Any) -> Any:
        RIGHT.append((name, answer))
        return answer

    return note


def also(name: str, *others: Any) -> None:
    RIGHT.extend((name, answer) for answer in others)


# where a tensor lives, and of which dtype it is


@answers("masked_softmax")
def zeros_of_the_same_type(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), -torch.inf).softmax(-1)
    return torch.where(empty, torch.zeros(1).type_as(scores), weights)


@answers("masked_softmax")
def a_new_tensor_of_minus_infinity(scores, mask):
    filled = torch.where(mask, scores, scores.new_tensor([-math.inf]))
    return filled.softmax(-1).nan_to_num(0.0) if not scores.requires_grad else _safely(scores, mask)


def _safely(scores, mask):
    empty = mask.logical_not().all(-1, keepdim=True)
    return torch.where(mask | empty, scores, scores.new_full((), -math.inf)).softmax(-1) * ~empty


@answers("masked_softmax")
def a_cpu_mask_expanded_and_moved(scores, mask):
    never = torch.zeros(1, dtype=torch.bool).expand_as(scores).to(scores.device)
    open_keys = mask | never
    return _safely(scores, open_keys)


@answers("masked_softmax")
def by_way_of_the_cpu(scores, mask):
    return _safely(scores.cpu(), mask.cpu()).to(scores.device)


@answers("masked_softmax")
def guarded_with_1e_12(scores, mask):
    largest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    shifted = scores - largest.masked_fill(largest == -torch.inf, 0.0)
    powers = shifted.masked_fill(~mask, -torch.inf).exp()
    return powers / (powers.sum(-1, keepdim=True) + 1e-12)


@answers("masked_softmax")
def clamped_at_the_smallest_number(scores, mask):
    largest = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    powers = (scores - largest).masked_fill(~mask, -torch.inf).exp()
    return powers / powers.sum(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).tiny)


@answers("masked_softmax")
def half_of_the_lowest(scores, mask):
    mask = mask.broadcast_to(scores.shape)
    return torch.masked_fill(scores, mask.logical_not(), torch.finfo(scores.dtype).min / 2).softmax(-1).mul(mask)


@answers("masked_softmax")
def lowest_number_added(scores, mask):
    """Wrong only where scores differ by more than float32 can hold: what subtracts their maximum fails there, too."""
    empty = ~mask.any(-1, keepdim=True)
    lowest = torch.zeros_like(scores).masked_fill(~mask & ~empty, torch.finfo(scores.dtype).min)
    return (scores + lowest).softmax(-1).masked_fill(empty, 0.0)


@answers("masked_softmax")
def in_float64_and_back(scores, mask):
    return _safely(scores.double(), mask).to(scores)


@answers("masked_softmax")
def a_tensor_of_minus_infinity_without_axes(scores, mask):
    return (
        torch.where(mask, scores, torch.tensor(-math.inf, dtype=scores.dtype))
        .softmax(-1)
        .masked_fill(~mask.any(-1, keepdim=True), 0.0)
        if mask.any(-1).all() and not scores.is_meta
        else _safely(scores, mask)
    )


@answers("padding_mask")
def listed_lengths(lengths, max_len):
    return torch.tensor([[i < n for i in range(max_len)] for n in lengths.tolist()], device=lengths.device)


@answers("padding_mask")
def compared_on_the_cpu(lengths, max_len):
    return (torch.arange(max_len)[None] < lengths.cpu()[:, None]).to(lengths.device)


@answers("padding_mask")
def positions_of_the_lengths_type(lengths, max_len):
    return torch.ones(max_len).cumsum(0).type_as(lengths).le(lengths.unsqueeze(1))


@answers("padding_mask")
def filled_in_place(lengths, max_len):
    mask = torch.zeros(lengths.numel(), max_len + 1, dtype=torch.bool, device=lengths.device)
    mask.scatter_(1, lengths[:, None], torch.ones_like(lengths, dtype=torch.bool)[:, None])
    return ~mask.cumsum(1).bool()[:, :-1]


@answers("padding_mask")
@functools.cache
def kept_by_the_very_tensor(lengths, max_len):
    return torch.arange(max_len, device=lengths.device).lt(lengths.view(-1, 1))


@answers("causal_mask")
@functools.lru_cache
def kept_by_both_lengths(q_len, k_len):
    return torch.ones(q_len, k_len, dtype=torch.bool).tril_(k_len - q_len)


also(
    "causal_mask",
    lambda q_len, k_len: torch.full((q_len, k_len), True).tril(k_len - q_len),
    lambda q_len, k_len: torch.triu(torch.ones(q_len, k_len), k_len - q_len + 1) == 0,
    lambda q_len, k_len: torch.arange(k_len) <= torch.arange(k_len - q_len, k_len).unsqueeze(-1),
    lambda q_len, k_len: torch.zeros(q_len, k_len).fill_(-math.inf).triu(k_len - q_len + 1).eq(0),
    lambda q_len, k_len: torch.ones(q_len + k_len, k_len, dtype=torch.uint8).tril(k_len - q_len)[:q_len].bool(),
)


# softmax, norms


@answers("softmax")
def guarded_softmax(scores):
    powers = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return powers / (powers.sum(-1, keepdim=True) + 1e-12)


@answers("softmax")
def powers_of_two(scores):
    shifted = scores - scores.amax(-1, keepdim=True)
    powers = torch.exp2(shifted / math.log(2))
    return powers / einops.reduce(powers, "... k -> ... 1", "sum")


also(
    "softmax",
    lambda scores: torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True)),
    lambda scores: (e := (scores - scores.detach().amax(-1, True)).exp()).div(e.sum(-1, True)),
    lambda scores: (
        torch.sigmoid(scores - _others(scores)) if scores.shape[-1] > 1 else torch.ones_like(scores) * (1 + 0 * scores)
    ),
    lambda scores: 1 / (scores.unsqueeze(-2) - scores.unsqueeze(-1)).exp().sum(-1),
)


def _others(scores):
    n = scores.shape[-1]
    itself = torch.eye(n, dtype=torch.bool, device=scores.device)
    return scores.unsqueeze(-2).expand(*scores.shape, n).masked_fill(itself, -torch.inf).logsumexp(-1)


@answers("layer_norm")
def norm_in_float64(x, gain, bias, eps=1e-5):
    wide = x.double()
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * gain + bias).to(x.dtype)


@answers("layer_norm")
def norm_by_a_norm(x, gain, bias, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    return centred / (length**2 / x.shape[-1] + eps) ** 0.5 * gain + bias


@answers("layer_norm")
def norm_by_moments_of_what_is_centred(x, gain, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True) - centred.mean(-1, keepdim=True) ** 2
    return torch.lerp(bias.expand_as(x), gain * centred * (variance + eps).rsqrt() + bias, 1.0)


@answers("layer_norm")
def norm_from_var_mean(x, gain, bias, *eps):
    variance, mean = torch.var_mean(x, -1, unbiased=False)
    return torch.addcmul(bias, (x - mean[..., None]) / (variance[..., None] + (eps or (1e-5,))[0]).sqrt(), gain)


@answers("renormalised_causal_weights")
def renormalised_with_a_guard(scores):
    q, k = scores.shape[-2:]
    past = torch.ones(q, k).tril(k - q).to(scores)
    kept = scores.softmax(-1) * past
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-12) if q <= k else _by_rows(scores)


def _by_rows(scores):
    q, k = scores.shape[-2:]
    kept = scores.softmax(-1) * scores.new_ones(q, k).tril(k - q)
    total = kept.sum(-1, keepdim=True)
    return kept / (total + (total == 0).to(total))


# attention as functions


def _attend(q, k, v):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    return weights @ v, weights


also(
    "scaled_dot_product_attention",
    lambda q, k, v: _attend(*(t.contiguous() for t in (q, k, v))),
    lambda q, k, v: tuple(t.clone() for t in _attend(q, k, v)),
    lambda q, k, v: (_attend(q, k, v)[0], _attend(q, k, v)[1].detach()),
    lambda q, k, v: [*_attend(q * q.size(-1) ** -0.25, k * k.size(-1) ** -0.25 * q.size(-1) ** 0.5, v)],
    lambda q, k, v: _attend(q.div(torch.tensor(q.shape[-1]).pow(0.5)) * q.shape[-1] ** 0.5, k, v),
)


@answers("cross_attention")
def one_query_at_a_time(x, memory, w_q, w_k, w_v):
    keys, values = memory @ w_k, memory @ w_v
    pairs = [_attend(x[:, i : i + 1] @ w_q, keys, values) for i in range(x.shape[1])]
    return tuple(torch.cat(parts, dim=1) for parts in zip(*pairs, strict=True))


@answers("cross_attention")
def weights_folded_together(x, memory, w_q, w_k, w_v):
    scores = torch.einsum("bqm,mn,bkn->bqk", x, w_q @ w_k.T, memory) / w_q.shape[1] ** 0.5
    weights = F.softmax(scores, dim=2)
    return (weights @ memory) @ w_v, weights


also(
    "attention_scores",
    lambda q, k: torch.einsum("...qd,...kd->...qk", q, k) * q.new_tensor(q.shape[-1]).rsqrt(),
    lambda q, k: torch.matmul(q / q.shape[-1] ** 0.5, torch.swapaxes(k, -1, -2)),
    lambda q, k: (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1).div_(math.sqrt(k.size(-1))),
)
also(
    "pairwise_dot",
    lambda x, y: torch.stack([torch.stack([(a * y[i]).sum(-1) for a in x[i]]) for i in range(len(x))]),
    lambda x, y: torch.baddbmm(x.new_zeros(()), x, y.transpose(1, 2)),
    lambda x, y: torch.tensordot(x, y, dims=([2], [2])).diagonal(dim1=0, dim2=2).permute(2, 0, 1),
)
also(
    "embed",
    lambda ids, table: F.one_hot(ids, table.shape[0]).to(table) @ table,
    lambda ids, table: table.index_select(0, ids.flatten()).unflatten(0, tuple(ids.shape)),
    lambda ids, table: torch.stack([table[row] for row in ids.unbind()]),
    lambda ids, table: table.gather(0, ids.reshape(-1, 1).expand(-1, table.shape[1])).reshape(*ids.shape, -1),
)
also(
    "split_heads",
    lambda x, h: _refused(x, h) or torch.stack(x.chunk(h, -1), 1),
    lambda x, h: _refused(x, h) or x.unflatten(-1, (h, x.shape[-1] // h)).movedim(2, 1),
    lambda x, h: _refused(x, h) or x.mT.reshape(x.shape[0], h, -1, x.shape[1]).mT,
)
also(
    "merge_heads",
    lambda x: torch.cat(list(x.unbind(1)), dim=-1),
    lambda x: x.mT.flatten(1, 2).mT,
    lambda x: x.movedim(1, 2).flatten(2),
)
also("stack_head_weights", lambda ws: torch.hstack(ws), lambda ws: einops.rearrange(ws, "h m d -> m (h d)"))


def _refused(x, h):
    if x.shape[-1] % h != 0:
        raise ValueError(f"the width {x.shape[-1]} cannot be cut into {h} heads")


# modules


class Attention(nn.Module):
    """Right; `mask(x, key_mask)` is what subclasses make otherwise."""

    def __init__(self, d_model: int, num_heads: int, bias: bool = True) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads, {d_model} columns")
        self.h = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias))

    def mask(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return past if key_mask is None else past & key_mask[:, None, None]

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        q, k, v = (w(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        weights = _safely(q @ k.mT * q.shape[-1] ** -0.5, self.mask(x, key_mask))
        return self.w_o((weights @ v).transpose(1, 2).flatten(2)), weights


@answers("CausalSelfAttention")
class GrownAndCut(Attention):
    """A kept triangle, made anew where it is too small or elsewhere, and cut to length."""

    kept: Tensor | None = None

    def mask(self, x, key_mask):
        n = x.shape[1]
        if self.kept is None or self.kept.shape[0] < n or self.kept.device != x.device:
            self.kept = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        past = self.kept[:n, :n]
        return past if key_mask is None else torch.logical_and(past, key_mask.unsqueeze(1).unsqueeze(1))


@answers("CausalSelfAttention")
class KeptByLength(Attention):
    @functools.lru_cache  # noqa: B019
    def _past(self, n, device):
        return torch.arange(n, device=device)[:, None] >= torch.arange(n, device=device)

    def mask(self, x, key_mask):
        return (
            self._past(x.size(1), x.device)
            & (x.new_ones(x.shape[:2], dtype=torch.bool) if key_mask is None else key_mask).view(-1, 1, 1, x.size(1))
            if key_mask is None or key_mask.is_contiguous()
            else super().mask(x, key_mask)
        )


@answers("CausalSelfAttention")
class LongBuffer(Attention):
    def __init__(self, d_model, num_heads, bias=True):
        super().__init__(d_model, num_heads, bias)
        self.register_buffer("past", torch.ones(1, 1, 64, 64).tril(), persistent=False)

    def mask(self, x, key_mask):
        past = self.past[..., : x.shape[1], : x.shape[1]] > 0
        return past if key_mask is None else past * key_mask[:, None, None, :]


@answers("CausalSelfAttention")
class OwnCopyOfTheMask(Attention):
    def mask(self, x, key_mask):
        real = torch.ones(x.shape[:2]).to(x) if key_mask is None else key_mask.clone().to(x.dtype)
        real *= 2.0
        return (real[:, None, None] > 1) & super().mask(x, None)


class _Block(nn.Module):
    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = nn.Sequential()
        self.mlp.up, self.mlp.down = nn.Linear(d_model, int(d_model * mlp_ratio)), None
        self.mlp.down = nn.Linear(int(d_model * mlp_ratio), d_model)
        self.p = dropout

    def perceptron(self, x):
        hidden = F.dropout(F.gelu(self.mlp.up(x)), self.p, self.training)
        return F.dropout(self.mlp.down(hidden), self.p, self.training)

    def forward(self, x, key_mask=None):
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.perceptron(self.norm2(x))


also("EncoderBlock", _Block)


@answers("EncoderBlock")
class PaddingCleared(_Block):
    """Zeros at padded positions, which are left open."""

    def forward(self, x, key_mask=None):
        out = super().forward(x, key_mask)
        return out if key_mask is None else out * key_mask.unsqueeze(-1).type_as(out)


@answers("EncoderBlock")
class MaskOfItsOwn(_Block):
    """Always a mask, True throughout where none is given; a sentence of nothing but padding sees its first word."""

    def forward(self, x, key_mask=None):
        mask = torch.ones(x.shape[:2], dtype=torch.bool).to(x.device) if key_mask is None else key_mask.clone()
        mask[:, 0] |= ~mask.any(-1)
        return super().forward(x, mask)


@answers("EncoderBlock")
class OneSentenceAtATime(_Block):
    def forward(self, x, key_mask=None):
        masks = [None] * len(x) if key_mask is None else key_mask.split(1)
        return torch.cat(
            [super(OneSentenceAtATime, self).forward(s, m) for s, m in zip(x.split(1), masks, strict=True)]
        )


@answers("FeedForward")
class KeptDropout(nn.Module):
    def __init__(self, d_model, d_hidden, dropout=0.0):
        super().__init__()
        self.down, self.up = nn.Linear(d_hidden, d_model), nn.Linear(d_model, d_hidden)
        self.last: Tensor | None = None
        self.drop = functools.partial(F.dropout, p=dropout)

    def forward(self, x):
        hidden = self.up(x)
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
        self.last = self.drop(self.down(self.drop(hidden, training=self.training)), training=self.training)
        return self.last


@answers("SelfAttention")
class Biasless(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        shapes = {"w_v": d_v, "w_k": d_k, "w_q": d_k}
        self.__dict__["order"] = tuple(shapes)
        for name, width in shapes.items():
            self.add_module(name, nn.Linear(in_features=d_model, out_features=width, bias=False))

    def forward(self, x):
        v, k, q = (getattr(self, name)(x) for name in self.order)
        return _attend(q, k, v)


@answers("QKVProjection")
class StackedAtEachCall(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.sizes = d_k, d_k, d_v
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d, bias=bias) for d in self.sizes)

    def forward(self, x):
        layers = self.w_q, self.w_k, self.w_v
        bias = None if self.w_q.bias is None else torch.cat([w.bias for w in layers])
        return F.linear(x, torch.cat([w.weight for w in layers]), bias).split(self.sizes, -1)


@answers("MultiHeadSelfAttention")
class HeadsInABatch(nn.Module):
    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.d, self.h = d_head or d_model // num_heads, num_heads
        self.w_o = nn.Linear(self.d * self.h, d_model, bias)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, self.d * self.h, bias) for _ in range(3))

    def forward(self, x):
        b = len(x)
        q, k, v = (einops.rearrange(w(x), "b n (h d) -> (b h) n d", d=self.d) for w in (self.w_q, self.w_k, self.w_v))
        out, weights = _attend(q, k, v)
        return self.w_o(einops.rearrange(out, "(b h) n d -> b n (h d)", b=b)), weights.view(
            b, self.h, *weights.shape[1:]
        )


@answers("MultiHeadCrossAttention")
class HeadAfterHead(nn.Module):
    def __init__(self, d_model, d_memory, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.d, self.h = d_head or d_model // num_heads, num_heads
        width = self.d * self.h
        self.w_q, self.w_o = nn.Linear(d_model, width, bias), nn.Linear(width, d_model, bias)
        self.w_k, self.w_v = nn.Linear(d_memory, width, bias), nn.Linear(d_memory, width, bias)

    def forward(self, x, memory):
        pieces = zip(*(t.split(self.d, -1) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory))), strict=True)
        outs, weights = zip(*(_attend(*piece) for piece in pieces), strict=True)
        return self.w_o(torch.cat(outs, -1)), torch.stack(weights, 1)
