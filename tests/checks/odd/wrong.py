"""Wrong answers that are right most of the time: what is kept, counted, squeezed, written into, or large."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from odd.right import Attention, _attend, _Block, _safely

WRONG: list[tuple[str, Any]] = []


def answers(name: str) -> Callable[[Any], Any]:
    def note(answer: Any) -> Any:
        WRONG.append((name, answer))
        return answer

    return note


def also(name: str, *others: Any) -> None:
    WRONG.extend((name, answer) for answer in others)


def _past(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


def _real(past: Tensor, key_mask: Tensor | None) -> Tensor:
    return past if key_mask is None else past & key_mask[:, None, None]


# what is kept from one call to the next


@answers("CausalSelfAttention")
class TriangleOfTheFirstLength(Attention):
    def mask(self, x, key_mask):
        self.kept = getattr(self, "kept", _past(x))
        return _real(self.kept, key_mask)


@answers("CausalSelfAttention")
class TriangleCutToLength(Attention):
    def mask(self, x, key_mask):
        self.kept = getattr(self, "kept", _past(x))
        return _real(self.kept[: x.shape[1], : x.shape[1]], key_mask)


@answers("CausalSelfAttention")
class TriangleGrownAndNotCut(Attention):
    def mask(self, x, key_mask):
        if not hasattr(self, "kept") or len(self.kept) < x.shape[1]:
            self.kept = _past(x)
        return _real(self.kept, key_mask)


@answers("CausalSelfAttention")
class TriangleByBatch(Attention):
    def mask(self, x, key_mask):
        self.__dict__.setdefault("kept", {}).setdefault(len(x), _past(x))
        return _real(self.kept[len(x)], key_mask)


@answers("CausalSelfAttention")
class MaskByLength(Attention):
    def mask(self, x, key_mask):
        self.__dict__.setdefault("kept", {}).setdefault(x.shape[1], super().mask(x, key_mask))
        return self.kept[x.shape[1]]


@answers("CausalSelfAttention")
class MaskByShape(Attention):
    def mask(self, x, key_mask):
        self.__dict__.setdefault("kept", {}).setdefault(x.shape, super().mask(x, key_mask))
        return self.kept[x.shape]


@answers("CausalSelfAttention")
class KeyMaskLivesOn(Attention):
    kept: Tensor | None = None

    def mask(self, x, key_mask):
        self.kept = self.kept if key_mask is None else key_mask
        return super().mask(x, self.kept)


@answers("CausalSelfAttention")
class WhetherThereIsAMask(Attention):
    def mask(self, x, key_mask):
        self.masked = getattr(self, "masked", key_mask is not None)
        return super().mask(x, key_mask if self.masked else None)


@answers("CausalSelfAttention")
class KeyMasksGathered(Attention):
    """Every key mask blocks in all later calls of its shape, too."""

    kept: Tensor | None = None

    def mask(self, x, key_mask):
        if key_mask is not None:
            same = self.kept is not None and self.kept.shape == key_mask.shape
            self.kept = key_mask & self.kept if same else key_mask
            return super().mask(x, self.kept)
        return super().mask(x, None)


@answers("MultiHeadSelfAttention")
class LengthsOfTheFirstCall(nn.Module):
    lengths: tuple[int, int] | None = None

    def __init__(self, d_model, num_heads, d_head=None, bias=True):
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError(f"{d_model} % {num_heads}")
        self.d, self.h = d_head or d_model // num_heads, num_heads
        self.w_o = nn.Linear(self.d * self.h, d_model, bias)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, self.d * self.h, bias) for _ in range(3))

    def _lengths(self, x):
        self.lengths = self.lengths or (x.shape[0], x.shape[1])
        return self.lengths

    def forward(self, x):
        b, n = self._lengths(x)
        q, k, v = (w(x).reshape(b, n, self.h, self.d).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        out, weights = _attend(q, k, v)
        return self.w_o(out.transpose(1, 2).reshape(b, n, -1)), weights


@answers("MultiHeadSelfAttention")
class BatchOfTheFirstCall(LengthsOfTheFirstCall):
    def _lengths(self, x):
        self.b = getattr(self, "b", len(x))
        return self.b, x.shape[1]


@answers("MultiHeadSelfAttention")
class LongestSoFar(LengthsOfTheFirstCall):
    def _lengths(self, x):
        self.n = max(getattr(self, "n", 0), x.shape[1])
        return len(x), self.n


@answers("MultiHeadSelfAttention")
class OneWordSqueezed(LengthsOfTheFirstCall):
    def _lengths(self, x):
        return x.shape[:2]

    def forward(self, x):
        out, weights = super().forward(x)
        return out.squeeze(1), weights


@answers("QKVProjection")
class FirstBatchOnly(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, bias), nn.Linear(d_model, d_k, bias)
        self.w_v = nn.Linear(d_model, d_v, bias)

    def forward(self, x):
        self.n = getattr(self, "n", x.shape[1])
        return tuple(w(x)[:, : self.n] for w in (self.w_q, self.w_k, self.w_v))


@answers("QKVProjection")
class LazyLayers(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (nn.LazyLinear(d, bias) for d in (d_k, d_k, d_v))

    def forward(self, x):
        return self.w_q(x), self.w_k(x), self.w_v(x)


@answers("SelfAttention")
class OnesOfTheFirstLength(nn.Module):
    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q, self.w_k = nn.Linear(d_model, d_k, False), nn.Linear(d_model, d_k, False)
        self.w_v = nn.Linear(d_model, d_v, False)

    def forward(self, x):
        self.past = getattr(self, "past", torch.ones(x.shape[1], x.shape[1]).to(x))
        weights = (self.w_q(x) @ self.w_k(x).mT * self.past / self.w_q.out_features**0.5).softmax(-1)
        return weights @ self.w_v(x), weights


@answers("EncoderBlock")
class BlockMaskLivesOn(_Block):
    kept: Tensor | None = None

    def forward(self, x, key_mask=None):
        self.kept = self.kept if key_mask is None else key_mask
        return super().forward(x, self.kept)


@answers("EncoderBlock")
class BlockFirstMask(_Block):
    def forward(self, x, key_mask=None):
        self.__dict__.setdefault("kept", key_mask)
        return super().forward(x, self.kept)


@answers("EncoderBlock")
class BlockFirstMaskGiven(_Block):
    kept: Tensor | None = None

    def forward(self, x, key_mask=None):
        self.kept = key_mask if self.kept is None else self.kept
        return super().forward(x, None if key_mask is None else self.kept)


@answers("EncoderBlock")
class BlockFirstLength(_Block):
    def forward(self, x, key_mask=None):
        self.n = getattr(self, "n", x.shape[1])
        return super().forward(x, key_mask)[:, : self.n]


@answers("EncoderBlock")
class BlockSqueezed(_Block):
    def forward(self, x, key_mask=None):
        return super().forward(x, key_mask).squeeze()


def _keeper(answer: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[Any, Any] = {}

    def attempt(*inputs: Any) -> Any:
        return kept.setdefault(key(*inputs), answer(*inputs))

    return attempt


def _causal(q_len: int, k_len: int) -> Tensor:
    return torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)


def _padding(lengths: Tensor, max_len: int) -> Tensor:
    return torch.arange(max_len, device=lengths.device) < lengths[:, None]


also("causal_mask", _keeper(_causal, lambda q, k: q), _keeper(_causal, lambda q, k: k), _keeper(_causal, max))
also(
    "padding_mask",
    _keeper(_padding, lambda lengths, n: (len(lengths), n)),
    _keeper(_padding, lambda lengths, n: n),
    _keeper(_padding, lambda lengths, n: int(lengths.max()) if not lengths.is_meta else 0),
    lambda lengths, n: torch.arange(int(lengths.max())) < lengths[:, None],
    lambda lengths, n: _padding(lengths.clamp_(max=n - 1) + 1, n) & _padding(lengths, n),
    lambda lengths, n: _padding(lengths.sub_(1), n),
    lambda lengths, n: _padding(lengths, n).squeeze(),
)
also(
    "softmax",
    _keeper(lambda s: s.exp() / s.exp().sum(-1, keepdim=True), lambda s: s.shape),
    lambda s: s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-8),
    lambda s: (e := (s - s.amax(-1, True)).exp()) / (e.sum(-1, True) + 1e-9),
    lambda s: (e := s.sub_(s.amax(-1, True)).exp()) / e.sum(-1, True),
    lambda s: (e := (s - s.amax(-1, True)).float().exp()).div(e.sum(-1, True)).to(s.dtype),
    lambda s: (e := (s - s.amax(-1, True)).exp().squeeze()) / e.sum(-1, True),
    lambda s: (e := (s - s.amax()).exp()) / e.sum(-1, True),
)


# masks: written into, of another form, or with numbers of a size that was not expected


@answers("masked_softmax")
def mask_turned_in_place(scores, mask):
    return _safely(scores, mask.logical_not_().logical_not())


@answers("masked_softmax")
def mask_opened_in_place(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    mask |= empty
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(empty, 0.0)


@answers("masked_softmax")
def mask_viewed(scores, mask):
    return _safely(scores, mask.view(-1).view(mask.shape))


@answers("masked_softmax")
def mask_of_two_axes(scores, mask):
    return _safely(scores, mask[..., : scores.shape[-2], :] if mask.shape[-2] > 1 else mask[:, 0])


@answers("masked_softmax")
def empty_rows_by_the_first_key(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)[..., :].clone() * mask[..., :1]


def _filled(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda s, m: s.masked_fill(~m, fill).softmax(-1).masked_fill(~m, 0.0)


also("masked_softmax", *(_filled(fill) for fill in (-1e5, -1e9, -1e12, -1e15, -1e20, -1e29)))
also(
    "masked_softmax",
    lambda s, m: _safely(s - s.abs().amax(), m) if s.abs().max() < 1e3 else _safely(s * 1e-30, m),
    lambda s, m: (e := (s.clamp(-1e5, 1e5)).masked_fill(~m, -1e30).softmax(-1) * m) / e.sum(-1, True).clamp(min=1e-12),
    lambda s, m: (e := s.softmax(-1) * m) / (e.sum(-1, True) + 1e-12),
    lambda s, m: _safely(s.float(), m).to(s.dtype),
)


@answers("CausalSelfAttention")
class KeyMaskWrittenInto(Attention):
    def mask(self, x, key_mask):
        if key_mask is not None:
            key_mask.logical_not_()
            return _past(x) & ~key_mask[:, None, None]
        return _past(x)


@answers("CausalSelfAttention")
class KeyMaskViewed(Attention):
    def mask(self, x, key_mask):
        return _real(_past(x), None if key_mask is None else key_mask.view(-1).view(x.shape[:2]))


@answers("EncoderBlock")
class FirstKeyOpened(_Block):
    def forward(self, x, key_mask=None):
        if key_mask is not None:
            key_mask[:, 0] |= ~key_mask.any(-1)
        return super().forward(x, key_mask)


@answers("EncoderBlock")
class InputAddedTo(_Block):
    def forward(self, x, key_mask=None):
        if key_mask is not None:
            with torch.no_grad():
                x.mul_(key_mask[..., None])
        return super().forward(x, key_mask)


# norms


@answers("layer_norm")
def difference_of_large_numbers(x, gain, bias, eps=1e-5):
    mean, square = x.mean(-1, keepdim=True), x.pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(square - mean.pow(2) + eps) * gain + bias


@answers("layer_norm")
def difference_not_below_zero(x, gain, bias, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = ((x**2).mean(-1, keepdim=True) - mean**2).clamp(min=0)
    return gain * (x - mean) * torch.rsqrt(variance + eps) + bias


@answers("layer_norm")
def eps_of_the_last_call(x, gain, bias, eps=None, kept=[1e-5]):  # noqa: B006
    kept[0] = kept[0] if eps is None else eps
    return (
        F.normalize(x - x.mean(-1, keepdim=True), dim=-1) * gain + bias if eps == 0 else _norm(x, gain, bias, kept[0])
    )


def _norm(x, gain, bias, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * gain + bias


also(
    "layer_norm",
    lambda x, gain, bias, eps=1e-5: _norm(x.half(), gain.half(), bias.half(), eps).to(x.dtype),
    lambda x, gain, bias, eps=1e-5: _norm(x.float(), gain, bias, eps).to(x.dtype),
    lambda x, gain, bias, eps=1e-5: _norm(x.sub_(x.mean(-1, keepdim=True)), gain, bias, eps),
    lambda x, gain, bias, eps=1e-5: _norm(x, gain, bias, eps).squeeze(),
)


# functions


@answers("embed")
def ids_sorted_in_place(token_ids, table):
    rows = table[token_ids]
    token_ids.zero_()
    return rows


also(
    "embed",
    lambda ids, table: table[ids.view(-1)].view(*ids.shape, -1),
    lambda ids, table: table[ids.flatten()].reshape(ids.shape[1], ids.shape[0], -1).transpose(0, 1),
    lambda ids, table: table[ids].squeeze(),
    _keeper(lambda ids, table: table[ids], lambda ids, table: ids.shape),
)
also(
    "scaled_dot_product_attention",
    lambda q, k, v: tuple(t.squeeze(-2) for t in _attend(q, k, v)),
    lambda q, k, v: _attend(q, k.squeeze(), v),
    lambda q, k, v: _attend(*(t.float() for t in (q, k, v))),
    lambda q, k, v: tuple(t.to(q.dtype) for t in _attend(*(t.float() for t in (q, k, v)))),
    lambda q, k, v: (_attend(q, k, v)[0], (q @ k.mT / math.sqrt(q.shape[-1])).float().softmax(-1).to(q)),
)
also("split_heads", lambda x, h: x.view(x.shape[0], x.shape[1], h, -1).squeeze(1).transpose(1, 2))
also(
    "merge_heads", lambda x: x.transpose(1, 2).flatten(2).squeeze(), lambda x: torch.cat([*x.squeeze(2).unbind(1)], -1)
)
also("pairwise_dot", lambda x, y: (x @ y.mT).squeeze(), lambda x, y: x.matmul(y.squeeze(1).mT))
also(
    "cross_attention",
    lambda x, m, q, k, v: _attend((x @ q).squeeze(1), m @ k, m @ v),
    _keeper(lambda x, m, q, k, v: _attend(x @ q, m @ k, m @ v), lambda x, m, *w: (x.shape, x.dtype, m.shape)),
)
