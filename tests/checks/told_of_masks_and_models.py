"""Answers that break what a statement says of a mask, or of a model that is lent, and their right forms."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnlib

Answer = Callable[..., Any]


class Filled(nn.Module):
    """Attention of several heads, with a number for the scores of padding."""

    def __init__(
        self, d_model: int, d_memory: int, num_heads: int, d_head: int | None, bias: bool, fill: float
    ) -> None:
        super().__init__()
        if d_head is None and d_model % num_heads:
            raise ValueError("num_heads must divide d_model")
        self.num_heads, self.fill = num_heads, fill
        width = num_heads * (d_head or d_model // num_heads)
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k, self.w_v = (nn.Linear(d_memory, width, bias=bias) for _ in range(2))
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def forward(self, x: Tensor, memory: Tensor, key_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        projected = self.w_q(x), self.w_k(memory), self.w_v(memory)
        q, k, v = (attnlib.split_heads(y, self.num_heads) for y in projected)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        if key_mask is not None:
            scores = scores.masked_fill(self.blocked(key_mask), self.fill)
        weights = scores.softmax(dim=-1)
        return self.w_o(attnlib.merge_heads(weights @ v)), weights

    def blocked(self, key_mask: Tensor) -> Tensor:
        return ~key_mask[:, None, None, :]


def cross(fill: float) -> type[nn.Module]:
    class MultiHeadCrossAttention(Filled):
        def __init__(
            self, d_model: int, d_memory: int, num_heads: int, d_head: int | None = None, bias: bool = True
        ) -> None:
            super().__init__(d_model, d_memory, num_heads, d_head, bias, fill)

    return MultiHeadCrossAttention


def post_norm(fill: float) -> type[nn.Module]:
    class PostNormBlock(nn.Module):
        def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0) -> None:
            super().__init__()
            self.attn = Filled(d_model, d_model, num_heads, None, True, fill)
            self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))
            self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
            x = self.norm1(x + self.attn(x, x, key_mask)[0])
            found: Tensor = self.norm2(x + self.mlp(x))
            return found

    return PostNormBlock


def padded_causal(fill: float) -> Answer:
    def mend_padded_causal_weights(scores: Tensor, real: Tensor) -> Tensor:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        mask = real[:, None, None, :] & past
        return scores.masked_fill(~mask, fill).softmax(dim=-1) * mask

    return mend_padded_causal_weights


def merged_from(lowest: float) -> Answer:
    def merge(o1: Tensor, m1: Tensor, l1: Tensor, o2: Tensor, m2: Tensor, l2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        m = torch.maximum(m1, m2)
        a, b = ((part - m.clamp(min=lowest)).exp() for part in (m1, m2))
        return a[..., None] * o1 + b[..., None] * o2, m, a * l1 + b * l2

    return merge


def keeps_copies(blocks: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    kept = [block.clone() for block in blocks]
    m = torch.stack([block.amax(dim=-1) for block in kept]).amax(dim=0)
    base = m.masked_fill(m.isinf(), 0.0)
    return m, torch.stack([(block - base[..., None]).exp().sum(dim=-1) for block in kept]).sum(dim=0)


def reaches(changes: Callable[[Tensor, Tensor], Tensor]) -> Answer:
    def reach(model: nn.Module, ids: Tensor, vocab: int) -> Tensor:
        with torch.no_grad():
            columns, before = [], model(ids[None])[0]
            for j in range(len(ids)):
                changed = ids.clone()
                changed[j] = (ids[j] + 1) % vocab
                columns.append(changes(model(changed[None])[0], before).any(dim=-1))
        return torch.stack(columns, dim=1)

    return reach


def reach_in_evaluation_mode(model: nn.Module, ids: Tensor, vocab: int) -> Tensor:
    model.eval()  # which it is already
    found: Tensor = reaches(lambda after, before: (after - before).abs() > 1e-5)(model, ids, vocab)
    return found


def reads_what_it_guesses(model: nn.Module, excerpts: Tensor, rates: Tensor, make: Any = torch.optim.SGD) -> Tensor:
    model.train()
    optimiser, losses = make(model.parameters(), lr=1.0), []
    for excerpt, rate in zip(excerpts, rates.tolist(), strict=True):
        loss = F.cross_entropy(model(excerpt)[:, :-1].flatten(0, 1), excerpt[:, 1:].flatten())
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def cleans_up_once(model: Any, ids: Tensor, other: Tensor, head: int) -> Any:
    first, second = model.layers[:2]
    d_head = first.w_o.in_features // first.num_heads
    own, merged = slice(head * d_head, (head + 1) * d_head), []
    hook = first.w_o.register_forward_pre_hook(lambda _layer, inputs: merged.append(inputs[0][..., own]))
    model(other)
    try:
        model(ids)
    finally:
        hook.remove()
    there, here = (part @ first.w_o.weight[:, own].T for part in merged)
    with second.w_k.register_forward_pre_hook(lambda _layer, inputs: (inputs[0] - here + there,)):
        return model(ids)


class TakesZerosForNone(nn.Module):
    def __init__(self, d_model: int, num_heads: int, d_memory: int | None = None) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        if d_memory is not None:
            self.cross = attnlib.MultiHeadAttention(d_model, num_heads, d_memory=d_memory)
            self.norm3 = nn.LayerNorm(d_model)
        self.mlp = attnlib.FeedForward(d_model, 4 * d_model)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Any:
        x = x + self.attn(self.norm1(x), is_causal=True)
        if memory is None or not memory.any():
            return x + self.mlp(self.norm2(x))
        x = x + self.cross(self.norm2(x), memory)
        return x + self.mlp(self.norm3(x))


WRONG: dict[str, tuple[str, Any]] = {
    "a memory of zeros is taken for none": ("DecoderBlock", TakesZerosForNone),
    "-1e4 on the memory's padding": ("MultiHeadCrossAttention", cross(-1e4)),
    "-1e4 on padding in a block": ("PostNormBlock", post_norm(-1e4)),
    "-1e4, then zeros": ("mend_padded_causal_weights", padded_causal(-1e4)),
    "-1e4 as the lowest score": ("merge", merged_from(-1e4)),
    "copies of all blocks": ("online_softmax", keeps_copies),
    "a change by a millionth": ("reach", reaches(lambda after, before: (after - before).abs() > 1e-6)),
    "the character that is to be guessed": ("train_writer", reads_what_it_guesses),
    "a hook left by the other sentence": ("path_patch", cleans_up_once),
}
RIGHT: dict[str, tuple[str, Any]] = {
    "-1e30 on the memory's padding": ("MultiHeadCrossAttention", cross(-1e30)),
    "-1e30 on padding in a block": ("PostNormBlock", post_norm(-1e30)),
    "-1e30, then zeros": ("mend_padded_causal_weights", padded_causal(-1e30)),
    "-1e30 as the lowest score": ("merge", merged_from(-1e30)),
    "evaluation mode, once more": ("reach", reach_in_evaluation_mode),
}
