"""Wrong answers that write into their inputs, or fail on other forms and on large or close numbers."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from odd.collected import WRONG
from odd.right_functions import attend, safely
from odd.right_modules import Attention, Block
from odd.wrong_by_what_is_kept import keeper, past, real

answers, also = WRONG.answers, WRONG.also


# masks: written into, of another form, or with numbers of a size that was not expected


@answers("masked_softmax")
def mask_turned_in_place(scores, mask):
    return safely(scores, mask.logical_not_().logical_not())


@answers("masked_softmax")
def mask_opened_in_place(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    mask |= empty
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(empty, 0.0)


@answers("masked_softmax")
def mask_viewed(scores, mask):
    return safely(scores, mask.view(-1).view(mask.shape))


@answers("masked_softmax")
def mask_of_two_axes(scores, mask):
    return safely(scores, mask[..., : scores.shape[-2], :] if mask.shape[-2] > 1 else mask[:, 0])


@answers("masked_softmax")
def empty_rows_by_the_first_key(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0.0)[..., :].clone() * mask[..., :1]


def _filled(fill: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda s, m: s.masked_fill(~m, fill).softmax(-1).masked_fill(~m, 0.0)


also("masked_softmax", *(_filled(fill) for fill in (-1e5, -1e9, -1e12, -1e15, -1e20, -1e29)))
also(
    "masked_softmax",
    lambda s, m: safely(s - s.abs().amax(), m) if s.abs().max() < 1e3 else safely(s * 1e-30, m),
    lambda s, m: (e := (s.clamp(-1e5, 1e5)).masked_fill(~m, -1e30).softmax(-1) * m) / e.sum(-1, True).clamp(min=1e-12),
    lambda s, m: (e := s.softmax(-1) * m) / (e.sum(-1, True) + 1e-12),
    lambda s, m: safely(s.float(), m).to(s.dtype),
)


@answers("renormalised_causal_weights")
def never_divided_by_less_than_a_thousandth(scores):
    kept = scores.softmax(-1).tril(scores.shape[-1] - scores.shape[-2])
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-3)


@answers("CausalSelfAttention")
class KeyMaskWrittenInto(Attention):
    def mask(self, x, key_mask):
        if key_mask is not None:
            key_mask.logical_not_()
            return past(x) & ~key_mask[:, None, None]
        return past(x)


@answers("CausalSelfAttention")
class KeyMaskViewed(Attention):
    def mask(self, x, key_mask):
        return real(past(x), None if key_mask is None else key_mask.view(-1).view(x.shape[:2]))


@answers("EncoderBlock")
class FirstKeyOpened(Block):
    def forward(self, x, key_mask=None):
        if key_mask is not None:
            key_mask[:, 0] |= ~key_mask.any(-1)
        return super().forward(x, key_mask)


@answers("EncoderBlock")
class InputAddedTo(Block):
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


also("write_matrices", lambda features: torch.full((2, 7, 3), torch.nan))


@answers("recurrent_states")
def words_set_to_zero_in_place(x, w):
    states = [x.new_zeros(x.shape[0], x.shape[2])]
    for word in x.unbind(dim=1):
        states.append(torch.tanh(states[-1] @ w + word))
    x.zero_()
    return torch.stack(states[1:], dim=1)


also(
    "scaled_dot_product_attention",
    lambda q, k, v: tuple(t.squeeze(-2) for t in attend(q, k, v)),
    lambda q, k, v: attend(q, k.squeeze(), v),
    lambda q, k, v: attend(*(t.float() for t in (q, k, v))),
    lambda q, k, v: tuple(t.to(q.dtype) for t in attend(*(t.float() for t in (q, k, v)))),
    lambda q, k, v: (attend(q, k, v)[0], (q @ k.mT / math.sqrt(q.shape[-1])).float().softmax(-1).to(q)),
)
also("split_heads", lambda x, h: x.view(x.shape[0], x.shape[1], h, -1).squeeze(1).transpose(1, 2))
also("pairwise_dot", lambda x, y: (x @ y.mT).squeeze(), lambda x, y: x.matmul(y.squeeze(1).mT))
also(
    "cross_attention",
    lambda x, m, q, k, v: attend((x @ q).squeeze(1), m @ k, m @ v),
    keeper(lambda x, m, q, k, v: attend(x @ q, m @ k, m @ v), lambda x, m, *w: (x.shape, x.dtype, m.shape)),
)
