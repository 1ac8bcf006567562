"""Right answers to the larger exercise without points of lesson 03, differently written."""

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange

import attnlib


def added_by_loop(x, w_q, w_k, w_v, w_o, num_heads):
    d, parts = w_q.shape[1] // num_heads, []
    for q, k, v, rows in zip(*(w.split(d, dim=1) for w in (w_q, w_k, w_v)), w_o.split(d), strict=True):
        weights = torch.softmax((x @ q) @ (x @ k).mT / math.sqrt(d), dim=-1)
        parts.append(weights @ (x @ v) @ rows)
    return torch.stack(parts, dim=1)


def added_at_once(x, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (attnlib.split_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = (q @ k.transpose(-1, -2) * q.size(-1) ** -0.5).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd,hdm->bhqm", weights, v, w_o.unflatten(0, (num_heads, -1)))


def added_by_silencing(x, w_q, w_k, w_v, w_o, num_heads):
    """Everything but one head's columns set to zero, before the last matrix."""
    q, k, v = (rearrange(x @ w, "b n (h d) -> b h n d", h=num_heads) for w in (w_q, w_k, w_v))
    found = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v
    keep = torch.eye(num_heads, dtype=x.dtype, device=x.device)
    parts = [rearrange(found * one[:, None, None], "b h n d -> b n (h d)") @ w_o for one in keep]
    return torch.stack(parts, 1)


def added_values_first(x, w_q, w_k, w_v, w_o, num_heads):
    """Combine the values with w_o before they travel: x W_V W_O."""
    d = w_o.shape[0] // num_heads
    new = []
    for h in range(num_heads):
        cut = slice(h * d, h * d + d)
        shares = F.softmax(torch.bmm(x @ w_q[:, cut], (x @ w_k[:, cut]).transpose(1, 2)) / d**0.5, dim=2)
        new.append(torch.bmm(shares, x @ (w_v[:, cut] @ w_o[cut])))
    return torch.stack(new, dim=1)


def added_by_difference(x, w_q, w_k, w_v, w_o, num_heads):
    """The output of multi-head attention with the first heads alone, minus that with one fewer."""
    folded = [rearrange(x @ w, "b n (h d) -> (h b) n d", h=num_heads) for w in (w_q, w_k, w_v)]
    found = torch.softmax(folded[0] @ folded[1].mT * folded[0].shape[-1] ** -0.5, -1) @ folded[2]
    found, d = rearrange(found, "(h b) n d -> b n (h d)", h=num_heads), folded[0].shape[-1]
    sums = [found[..., : h * d] @ w_o[: h * d] for h in range(num_heads + 1)]
    return torch.stack([after - before for before, after in pairwise(sums)], dim=1)


ALTERNATIVES = {
    "head_contributions": [
        added_by_loop,
        added_at_once,
        added_by_silencing,
        added_values_first,
        added_by_difference,
    ],
}
