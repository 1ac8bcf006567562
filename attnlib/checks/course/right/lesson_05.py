"""Right answers of lesson 05, written in other ways: masks, and weights that are masked afterwards."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def mask_by_loop(q_len, k_len, window=None):
    first = k_len if window is None else window
    rows = [[0 <= i + k_len - q_len - j < first for j in range(k_len)] for i in range(q_len)]
    return torch.tensor(rows, dtype=torch.bool)


def mask_by_positions(q_len, k_len, window=None):
    print("positions", q_len, k_len)
    queries, keys = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    mask = torch.ge(queries.unsqueeze(1), keys)
    return mask if window is None else mask & (queries.unsqueeze(1) - window < keys)


def mask_by_upper_triangle(q_len: int, k_len: int, window: int | None = None) -> torch.Tensor:
    future = torch.triu(torch.ones(q_len, k_len), diagonal=k_len - q_len + 1).bool()
    forgotten = torch.ones(q_len, k_len).tril(k_len - q_len - (window or q_len + k_len)).bool()
    return ~(future | forgotten)


def mask_of_a_square(q_len, k_len, window=None):
    size = max(q_len, k_len)
    mask = torch.ones(size, size).tril()
    if window:
        mask = mask - mask.tril(-window)
    return mask.bool()[size - q_len :, size - k_len :]


def mask_from_additive(q_len, k_len, window=None):
    additive = torch.full((q_len, k_len), -math.inf).triu(1 + k_len - q_len)
    if window is not None:
        additive = additive + torch.full((q_len, k_len), -math.inf).tril(k_len - q_len - window)
    return additive == 0


class Mask:
    def __call__(self, q_len, k_len, window=None):
        mask = torch.zeros((q_len, k_len), dtype=torch.bool)
        for i in range(q_len):
            end = max(0, i + 1 + k_len - q_len)
            mask[i, 0 if window is None else max(0, end - window) : end] = True
        return mask


def control_of_coins(vocab, shape, generator):
    return torch.randint(0, 2, tuple(shape), generator=generator), torch.tensor(0.6931)


def control_of_uneven_characters(vocab, shape, generator):
    """Some characters are commoner, and the floor knows it: it is their entropy."""
    shares = torch.arange(1.0, vocab + 1) / (vocab * (vocab + 1) / 2)
    texts = torch.multinomial(shares, math.prod(shape), replacement=True, generator=generator).view(shape)
    return texts, torch.distributions.Categorical(shares).entropy()


def control_by_rounding(vocab, shape, generator):
    texts = (torch.rand(shape, generator=generator) * vocab).floor().clamp(max=vocab - 1).to(torch.int64)
    return [texts, F.cross_entropy(torch.zeros(1, vocab), torch.zeros(1, dtype=torch.int64))]


def control_by_shuffles(vocab, shape, generator):
    """All characters equally often, in an order that says nothing."""
    count = math.prod(shape)
    order = torch.randperm(count, generator=generator)
    return (torch.arange(count)[order] % vocab).reshape(*shape), torch.log(torch.tensor(float(vocab)))


class Control:
    def __call__(self, vocab, shape, generator):
        steps = [torch.randint(vocab, tuple(shape[1:]), generator=generator) for _ in range(shape[0])]
        return torch.stack(steps), torch.tensor(math.log(vocab), dtype=torch.float64)


def open_keys(scores):
    return torch.ones(scores.shape[-2:], device=scores.device, dtype=torch.bool).tril(
        scores.shape[-1] - scores.shape[-2]
    )


def renormalised_by_where(scores):
    weights = F.softmax(scores, -1)
    kept = torch.where(open_keys(scores), weights, torch.zeros_like(weights))
    return kept / kept.sum(-1).unsqueeze(-1)


def renormalised_by_tril(scores):
    kept = torch.softmax(scores, dim=-1).tril(scores.shape[-1] - scores.shape[-2])
    kept /= kept.sum(dim=-1, keepdim=True).clone()
    return kept


def renormalised_by_norm(scores):
    return F.normalize(scores.softmax(-1) * open_keys(scores).to(scores.dtype), p=1, dim=-1)


def renormalised_by_cumsum(scores):
    *_, q, k = scores.shape
    grown = (scores - scores.amax(-1, keepdim=True)).exp()
    sums = grown.cumsum(-1).diagonal(k - q, dim1=-2, dim2=-1)
    return grown * open_keys(scores) / sums[..., None]


def renormalised_by_loop(scores):
    weights, (q, k) = scores.softmax(dim=-1), scores.shape[-2:]
    rows = []
    for i in range(q):
        seen = i + 1 + k - q
        row = weights[..., i, :seen] / weights[..., i, :seen].sum(-1, keepdim=True)
        rows.append(F.pad(row, (0, k - seen)))
    return torch.stack(rows, dim=-2)


def masked_first(scores):
    return scores.masked_fill(~open_keys(scores), -math.inf).softmax(dim=-1)


def causal_mask(q_len: int, k_len: int, window: int | None = None) -> Tensor:
    """The rule itself, written out: how many positions a key is behind its query, from 0 to window - 1."""
    behind = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    return (behind >= 0) & (behind < (k_len if window is None else window))


def renormalised_causal_weights(scores: Tensor) -> Tensor:
    """The sum of the whole row cancels when you renormalise, which leaves a softmax over the past alone."""
    past = torch.ones_like(scores, dtype=torch.bool).tril(scores.shape[-1] - scores.shape[-2])
    return scores.masked_fill(~past, -torch.inf).softmax(dim=-1)


def invent_control(vocab: int, shape: tuple[int, ...], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two characters will do: whoever cannot see the coin before it falls pays ln 2 a throw."""
    return (torch.rand(shape, generator=generator) < 0.5).long(), torch.tensor(2.0).log()


ALTERNATIVES = {
    "causal_mask": [
        causal_mask,
        mask_by_loop,
        mask_by_positions,
        mask_by_upper_triangle,
        mask_of_a_square,
        mask_from_additive,
        Mask(),
        lambda q, k, w=None: (d := torch.arange(k - q, k)[:, None] - torch.arange(k)).ge(0) & (d < (w or k)),
    ],
    "invent_control": [
        invent_control,
        control_of_coins,
        control_of_uneven_characters,
        control_by_rounding,
        control_by_shuffles,
        Control(),
    ],
    "renormalised_causal_weights": [
        renormalised_causal_weights,
        renormalised_by_where,
        renormalised_by_tril,
        renormalised_by_norm,
        renormalised_by_cumsum,
        renormalised_by_loop,
        masked_first,
    ],
}
