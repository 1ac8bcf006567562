"""Right functions in odd forms: devices, dtypes, caches that ask before they answer, guards, views, generators."""

import functools
import math

import einops
import torch
import torch.nn.functional as F

from odd.collected import RIGHT

answers, also = RIGHT.answers, RIGHT.also


# where a tensor lives, and of which dtype it is


@answers("masked_softmax")
def zeros_of_the_same_type(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    weights = scores.masked_fill(~(mask | empty), -torch.inf).softmax(-1)
    return torch.where(empty, torch.zeros(1).type_as(scores), weights)


@answers("masked_softmax")
def a_new_tensor_of_minus_infinity(scores, mask):
    filled = torch.where(mask, scores, scores.new_tensor([-math.inf]))
    return filled.softmax(-1).nan_to_num(0.0) if not scores.requires_grad else safely(scores, mask)


def safely(scores, mask):
    empty = mask.logical_not().all(-1, keepdim=True)
    return torch.where(mask | empty, scores, scores.new_full((), -math.inf)).softmax(-1) * ~empty


@answers("masked_softmax")
def a_cpu_mask_expanded_and_moved(scores, mask):
    never = torch.zeros(1, dtype=torch.bool).expand_as(scores).to(scores.device)
    open_keys = mask | never
    return safely(scores, open_keys)


@answers("masked_softmax")
def by_way_of_the_cpu(scores, mask):
    return safely(scores.cpu(), mask.cpu()).to(scores.device)


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
    return safely(scores.double(), mask).to(scores)


@answers("masked_softmax")
def a_tensor_of_minus_infinity_without_axes(scores, mask):
    return (
        torch.where(mask, scores, torch.tensor(-math.inf, dtype=scores.dtype))
        .softmax(-1)
        .masked_fill(~mask.any(-1, keepdim=True), 0.0)
        if mask.any(-1).all() and not scores.is_meta
        else safely(scores, mask)
    )


@answers("causal_mask")
@functools.lru_cache
def kept_by_both_lengths(q_len, k_len, window=None):
    mask = torch.ones(q_len, k_len, dtype=torch.bool).tril_(k_len - q_len)
    return mask if window is None else mask.triu_(k_len - q_len - window + 1)


def windowed(mask):
    """A mask of the whole past, cut down to a window."""
    return lambda q, k, window=None: mask(q, k).triu(k - q + 1 - (q + k if window is None else window))


also(
    "causal_mask",
    windowed(lambda q_len, k_len: torch.full((q_len, k_len), True).tril(k_len - q_len)),
    windowed(lambda q_len, k_len: torch.triu(torch.ones(q_len, k_len), k_len - q_len + 1) == 0),
    windowed(lambda q_len, k_len: torch.arange(k_len) <= torch.arange(k_len - q_len, k_len).unsqueeze(-1)),
    windowed(lambda q_len, k_len: torch.zeros(q_len, k_len).fill_(-math.inf).triu(k_len - q_len + 1).eq(0)),
    windowed(lambda q, k: torch.ones(q + k, k, dtype=torch.uint8).tril(k - q)[:q].bool()),
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


def attend(q, k, v):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    return weights @ v, weights


also(
    "scaled_dot_product_attention",
    lambda q, k, v: attend(*(t.contiguous() for t in (q, k, v))),
    lambda q, k, v: tuple(t.clone() for t in attend(q, k, v)),
    lambda q, k, v: (attend(q, k, v)[0], attend(q, k, v)[1].detach()),
    lambda q, k, v: [*attend(q * q.size(-1) ** -0.25, k * k.size(-1) ** -0.25 * q.size(-1) ** 0.5, v)],
    lambda q, k, v: attend(q.div(torch.tensor(q.shape[-1]).pow(0.5)) * q.shape[-1] ** 0.5, k, v),
)


@answers("cross_attention")
def one_query_at_a_time(x, memory, w_q, w_k, w_v):
    keys, values = memory @ w_k, memory @ w_v
    pairs = [attend(x[:, i : i + 1] @ w_q, keys, values) for i in range(x.shape[1])]
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
    "split_heads",
    lambda x, h: refused(x, h) or torch.stack(x.chunk(h, -1), 1),
    lambda x, h: refused(x, h) or x.unflatten(-1, (h, x.shape[-1] // h)).movedim(2, 1),
    lambda x, h: refused(x, h) or x.mT.reshape(x.shape[0], h, -1, x.shape[1]).mT,
)


def refused(x, h):
    if x.shape[-1] % h != 0:
        raise ValueError(f"the width {x.shape[-1]} cannot be cut into {h} heads")
