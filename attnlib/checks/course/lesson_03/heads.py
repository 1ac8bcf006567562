"""Attention with heads written plainly, in small steps: a mistake is the same module with one step replaced.

Lessons 03, 04 and 05 differ in what asks, what answers and what may be seen, and in nothing else.
"""

from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn


class Heads(nn.Module):
    """Right, in small steps, so that each can be replaced: x asks, the memory answers."""

    def __init__(self, d_model: int, d_memory: int, num_heads: int, d_head: int | None, bias: bool) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.d_head = self.width_of_a_head(d_model, num_heads, d_head)
        self.make_layers(d_model, d_memory, num_heads * self.d_head, bias)

    def width_of_a_head(self, d_model: int, num_heads: int, d_head: int | None) -> int:
        if d_head is not None:
            return d_head
        if d_model % num_heads:
            raise ValueError(f"num_heads = {num_heads} does not divide d_model = {d_model}")
        return d_model // num_heads

    def make_layers(self, d_model: int, d_memory: int, width: int, bias: bool) -> None:
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_memory, width, bias=bias)
        self.w_v = nn.Linear(d_memory, width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def project(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(memory), self.w_v(memory)

    def split(self, x: Tensor) -> Tensor:
        return rearrange(x, "b n (h d) -> b h n d", h=self.num_heads)

    def scale(self, x: Tensor, memory: Tensor) -> float:
        return self.d_head**-0.5

    def share(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        return masked_softmax(scores, allowed)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def merge(self, x: Tensor) -> Tensor:
        return rearrange(x, "b h n d -> b n (h d)")

    def finish(self, x: Tensor) -> Tensor:
        return self.w_o(x)

    def attend(self, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> Any:
        q, k, v = (self.split(projected) for projected in self.project(x, memory))
        weights = self.share(q @ k.mT * self.scale(x, memory), allowed)
        return self.finish(self.merge(self.mix(weights, v))), weights


class SelfHeads(Heads):
    """The module of lesson 03: x asks itself."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__(d_model, d_model, num_heads, d_head, bias)

    def forward(self, x: Tensor) -> Any:
        return self.attend(x, x)


def masked_softmax(scores: Tensor, allowed: Tensor | None, dim: int = -1) -> Tensor:
    """Shares among what is allowed; zeros where nothing is."""
    if allowed is None:
        return scores.softmax(dim=dim)
    empty = ~allowed.any(dim=dim, keepdim=True)
    return scores.masked_fill(~(allowed | empty), -torch.inf).softmax(dim=dim).masked_fill(empty, 0.0)


def causal(self: Heads, scores: Tensor, allowed: Tensor | None) -> Tensor:
    """The step `share`, with a mask that nobody asked for."""
    past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    return masked_softmax(scores, past if allowed is None else past & allowed)


def but(plain: type[Heads], **steps: Any) -> type[Heads]:
    """The plain module with these steps in place of its own."""
    return type("Mistaken", (plain,), steps)


def after(plain: type[Heads], change: Any) -> type[Heads]:
    """The right results, passed through `change(x, output, weights)`."""

    def attend(self: Heads, x: Tensor, memory: Tensor, allowed: Tensor | None = None) -> Any:
        return change(x, *plain.attend(self, x, memory, allowed))

    return but(plain, attend=attend)
