"""Wrong answers that keep something from one call to the next, or depend on sizes, and are right at first."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from odd.collected import WRONG
from odd.right_functions import attend
from odd.right_modules import Attention, Block

answers, also = WRONG.answers, WRONG.also


def past(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


def real(past: Tensor, key_mask: Tensor | None) -> Tensor:
    return past if key_mask is None else past & key_mask[:, None, None]


@answers("CausalSelfAttention")
class TriangleOfTheFirstLength(Attention):
    def mask(self, x, key_mask):
        self.kept = getattr(self, "kept", past(x))
        return real(self.kept, key_mask)


@answers("CausalSelfAttention")
class TriangleCutToLength(Attention):
    def mask(self, x, key_mask):
        self.kept = getattr(self, "kept", past(x))
        return real(self.kept[: x.shape[1], : x.shape[1]], key_mask)


@answers("CausalSelfAttention")
class TriangleGrownAndNotCut(Attention):
    def mask(self, x, key_mask):
        if not hasattr(self, "kept") or len(self.kept) < x.shape[1]:
            self.kept = past(x)
        return real(self.kept, key_mask)


@answers("CausalSelfAttention")
class TriangleByBatch(Attention):
    def mask(self, x, key_mask):
        self.__dict__.setdefault("kept", {}).setdefault(len(x), past(x))
        return real(self.kept[len(x)], key_mask)


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
        out, weights = attend(q, k, v)
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
class BlockMaskLivesOn(Block):
    kept: Tensor | None = None

    def forward(self, x, key_mask=None):
        self.kept = self.kept if key_mask is None else key_mask
        return super().forward(x, self.kept)


@answers("EncoderBlock")
class BlockFirstMask(Block):
    def forward(self, x, key_mask=None):
        self.__dict__.setdefault("kept", key_mask)
        return super().forward(x, self.kept)


@answers("EncoderBlock")
class BlockFirstMaskGiven(Block):
    kept: Tensor | None = None

    def forward(self, x, key_mask=None):
        self.kept = key_mask if self.kept is None else self.kept
        return super().forward(x, None if key_mask is None else self.kept)


@answers("EncoderBlock")
class BlockFirstLength(Block):
    def forward(self, x, key_mask=None):
        self.n = getattr(self, "n", x.shape[1])
        return super().forward(x, key_mask)[:, : self.n]


@answers("EncoderBlock")
class BlockSqueezed(Block):
    def forward(self, x, key_mask=None):
        return super().forward(x, key_mask).squeeze()


def keeper(answer: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[Any, Any] = {}

    def attempt(*inputs: Any) -> Any:
        return kept.setdefault(key(*inputs), answer(*inputs))

    return attempt


def _causal(q_len: int, k_len: int, window: int | None = None) -> Tensor:
    mask = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)
    return mask if window is None else mask.triu(k_len - q_len - window + 1)


also(
    "causal_mask",
    keeper(_causal, lambda q, k, w=None: (q, w)),
    keeper(_causal, lambda q, k, w=None: (k, w)),
    keeper(_causal, lambda q, k, w=None: (max(q, k), w)),
    keeper(_causal, lambda q, k, w=None: (q, k)),
)
also(
    "softmax",
    keeper(lambda s: s.exp() / s.exp().sum(-1, keepdim=True), lambda s: s.shape),
    lambda s: s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-8),
    lambda s: (e := (s - s.amax(-1, True)).exp()) / (e.sum(-1, True) + 1e-9),
    lambda s: (e := s.sub_(s.amax(-1, True)).exp()) / e.sum(-1, True),
    lambda s: (e := (s - s.amax(-1, True)).float().exp()).div(e.sum(-1, True)).to(s.dtype),
    lambda s: (e := (s - s.amax(-1, True)).exp().squeeze()) / e.sum(-1, True),
    lambda s: (e := (s - s.amax()).exp()) / e.sum(-1, True),
)


@answers("mend_rolling_cache")
def the_number_of_words_is_infinite(q, k, v, cache):
    cache["length"] = math.inf
    return q


@answers("attention_scores")
def no_row_is_left(q, k):
    return (q @ k.mT / q.shape[-1] ** 0.5)[..., :0, :]


@answers("attention_scores")
def very_many_rows_of_nothing(q, k):
    return q.new_zeros(10**12, 0)
