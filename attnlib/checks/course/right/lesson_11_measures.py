"""Right answers of lesson 11 about scores, entropy and copying, written in other ways."""

import torch
from einops import einsum, rearrange, reduce
from torch.distributions import Categorical


def previous_by_diagonal(weights):
    return torch.diagonal(weights, offset=-1, dim1=2, dim2=3).mean(dim=(0, 2))


def previous_by_index(weights):
    i = torch.arange(1, weights.shape[-1], device=weights.device)
    return weights[:, :, i, i - 1].mean(dim=-1).mean(dim=0)


def previous_by_loops(weights):
    b, h, n, _ = weights.shape
    scores = []
    for head in range(h):
        total = 0
        for sequence in range(b):
            for i in range(1, n):
                total = total + weights[sequence, head, i, i - 1]
        scores.append(total / (b * (n - 1)))
    return torch.stack(scores)


def previous_by_gather(weights):
    b, h, n, _ = weights.shape
    keys = torch.arange(n - 1, device=weights.device).view(1, 1, n - 1, 1).expand(b, h, n - 1, 1)
    return weights[:, :, 1:].gather(-1, keys).squeeze(-1).mean((0, 2))


def previous_by_einsum(weights):
    n = weights.shape[-1]
    mask = torch.diag(weights.new_ones(n - 1), -1)
    return einsum(weights, mask, "b h q k, q k -> h") / (len(weights) * (n - 1))


def previous_by_cut(weights):
    return reduce(weights[..., 1:, :-1].diagonal(dim1=-2, dim2=-1), "b h i -> h", "mean")


def previous_by_mask(weights):
    i = torch.arange(weights.shape[-1], device=weights.device)
    stripe = (i[:, None] - i == 1).to(weights.dtype)
    return (weights * stripe).sum(dim=(0, 2, 3)) / (stripe.sum() * weights.shape[0])


class PreviousByUnbind:
    def __call__(self, weights):
        by_head = weights.unbind(dim=1)
        return torch.stack([torch.stack([w[:, i, i - 1] for i in range(1, w.shape[1])]).mean() for w in by_head])


def induction_by_diagonal(weights, period):
    return weights.diagonal(1 - period, dim1=-2, dim2=-1)[..., 1:].mean(dim=(0, 2))


def induction_by_index(weights, period):
    i = torch.arange(period, weights.shape[-1], device=weights.device)
    return weights[..., i, i - period + 1].mean(dim=(0, -1))


def induction_by_loop(weights, period):
    found = [weights[:, :, i, i - period + 1] for i in range(period, weights.shape[2])]
    return torch.stack(found, dim=-1).mean(dim=-1).mean(dim=0)


def induction_by_gather(weights, period):
    b, h, n, _ = weights.shape
    keys = torch.arange(1, n - period + 1, device=weights.device)[:, None].repeat(b, h, 1, 1)
    return torch.gather(weights[:, :, period:], 3, keys).mean(dim=(0, 2, 3))


def induction_by_mask(weights, period):
    n = weights.shape[-1]
    q, k = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    match = ((k == q - period + 1) & (q >= period)).to(weights)
    return torch.einsum("bhqk,qk->h", weights, match) / match.sum() / weights.shape[0]


def induction_by_boolean_index(weights, period):
    i = torch.arange(weights.shape[-1], device=weights.device)
    match = (i[None, :] == i[:, None] - period + 1) & (i[:, None] >= period)
    return rearrange(weights, "b h q k -> h q k b")[:, match].flatten(1).mean(dim=1)


def induction_by_roll(weights, period):
    return weights.roll(period - 1, dims=-1).diagonal(dim1=-2, dim2=-1)[..., period:].mean(dim=(0, -1))


def sink_by_slice(weights):
    return weights[:, :, 1:, 0].mean(dim=(0, 2))


def sink_by_select(weights):
    return weights.select(-1, 0).narrow(-1, 1, weights.shape[-2] - 1).mean(dim=-1).mean(dim=0)


def sink_by_sum(weights):
    column = weights[..., 0].sum(dim=0)
    return (column.sum(dim=-1) - column[:, 0]) / (weights.shape[0] * (weights.shape[2] - 1))


def sink_by_loop(weights):
    scores = torch.zeros(weights.shape[1], dtype=weights.dtype, device=weights.device)
    for i in range(1, weights.shape[2]):
        scores += weights[:, :, i, 0].mean(dim=0)
    return scores / (weights.shape[2] - 1)


def sink_by_einops(weights):
    return reduce(weights[..., 1:, :1], "b h q 1 -> h", "mean")


def sink_by_product(weights):
    b, h, n, _ = weights.shape
    first = torch.zeros(n, dtype=weights.dtype, device=weights.device)
    first[0] = 1
    return (weights @ first)[..., 1:].transpose(0, 1).reshape(h, b * (n - 1)).mean(dim=1)


def entropy_by_where(weights):
    safe = torch.where(weights > 0, weights, 1.0)
    return -(weights * torch.log(safe)).sum(dim=-1)


def entropy_by_entr(weights):
    return torch.special.entr(weights).sum(-1)


def entropy_by_xlogy(weights):
    return -torch.xlogy(weights, weights).sum(dim=-1)


def entropy_by_clamp(weights):
    return -(weights * weights.clamp_min(1e-12).log()).sum(dim=-1)


def entropy_with_a_tiny_eps(weights):
    return -torch.sum(weights * torch.log(weights + 1e-12), dim=-1)


def entropy_by_nan_to_num(weights):
    return -(weights * weights.log()).nan_to_num(0.0).sum(dim=-1)


def entropy_by_nansum(weights):
    return (weights * -weights.log()).nansum(dim=-1)


def entropy_by_masked_fill(weights):
    logs = weights.log().masked_fill(weights == 0, 0)
    return torch.einsum("...k,...k->...", weights, -logs)


def entropy_by_categorical(weights):
    return Categorical(probs=weights, validate_args=False).entropy()


def entropy_key_by_key(weights):
    total = torch.zeros_like(weights[..., 0])
    for p in weights.unbind(dim=-1):
        total = total + torch.where(p == 0, torch.zeros_like(p), -p * p.log())
    return total


def entropy_by_cross_entropy(weights):
    flat = weights.reshape(-1, weights.shape[-1])
    logs = flat.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return torch.nn.functional.cross_entropy(logs, flat, reduction="none").view(weights.shape[:-1])


def copying_by_argmax(circuit):
    return (circuit.argmax(dim=-1) == torch.arange(len(circuit), device=circuit.device)).float().mean()


def copying_by_amax(circuit):
    return (circuit.diagonal() == circuit.amax(dim=1)).to(circuit.dtype).mean()


def copying_by_loop(circuit):
    copied = sum((row.argmax() == i).float() for i, row in enumerate(circuit))
    return copied / len(circuit)


def copying_by_one_hot(circuit):
    one_hot = torch.nn.functional.one_hot(circuit.max(dim=1).indices, circuit.shape[1])
    return one_hot.trace() / circuit.shape[0]


def copying_by_ranks(circuit):
    larger = (circuit > circuit.diagonal()[:, None]).sum(dim=1)
    return torch.mean((larger == 0).double())


def copying_by_sort(circuit):
    first = circuit.sort(dim=-1, descending=True).indices[:, 0]
    return (first - torch.arange(len(first), device=first.device)).eq(0).sum() / first.numel()


ALTERNATIVES = {
    "previous_token_score": [
        previous_by_diagonal,
        previous_by_index,
        previous_by_loops,
        previous_by_gather,
        previous_by_einsum,
        previous_by_cut,
        previous_by_mask,
        PreviousByUnbind(),
    ],
    "induction_score": [
        induction_by_diagonal,
        induction_by_index,
        induction_by_loop,
        induction_by_gather,
        induction_by_mask,
        induction_by_boolean_index,
        induction_by_roll,
    ],
    "sink_score": [sink_by_slice, sink_by_select, sink_by_sum, sink_by_loop, sink_by_einops, sink_by_product],
    "attention_entropy": [
        entropy_by_where,
        entropy_by_entr,
        entropy_by_xlogy,
        entropy_by_clamp,
        entropy_with_a_tiny_eps,
        entropy_by_nan_to_num,
        entropy_by_nansum,
        entropy_by_masked_fill,
        entropy_by_categorical,
        entropy_key_by_key,
        entropy_by_cross_entropy,
    ],
    "copying_score": [
        copying_by_argmax,
        copying_by_amax,
        copying_by_loop,
        copying_by_one_hot,
        copying_by_ranks,
        copying_by_sort,
    ],
}
