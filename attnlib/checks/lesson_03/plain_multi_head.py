"""Multi-head attention written plainly, in small steps: a mistake is the same module with one step replaced."""

from typing import Any

from einops import rearrange
from torch import Tensor, nn


class Plain(nn.Module):
    """Right, in small steps, so that each can be replaced."""

    def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.d_head = self.width_of_a_head(d_model, num_heads, d_head)
        width = num_heads * self.d_head
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, width, bias=bias) for _ in range(3))
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def width_of_a_head(self, d_model: int, num_heads: int, d_head: int | None) -> int:
        if d_head is not None:
            return d_head
        if d_model % num_heads:
            raise ValueError(f"num_heads = {num_heads} does not divide d_model = {d_model}")
        return d_model // num_heads

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.w_q(x), self.w_k(x), self.w_v(x)

    def split(self, x: Tensor) -> Tensor:
        return rearrange(x, "b n (h d) -> b h n d", h=self.num_heads)

    def scale(self, x: Tensor) -> float:
        return self.d_head**-0.5

    def share(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def mix(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def merge(self, x: Tensor) -> Tensor:
        return rearrange(x, "b h n d -> b n (h d)")

    def finish(self, x: Tensor) -> Tensor:
        return self.w_o(x)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (self.split(projected) for projected in self.project(x))
        weights = self.share(q @ k.mT * self.scale(x))
        return self.finish(self.merge(self.mix(weights, v))), weights


def but(**steps: Any) -> type[Plain]:
    """The plain module with these steps in place of its own."""
    return type("Mistaken", (Plain,), steps)


def with_layers(change: Any) -> type[Plain]:
    """The plain module, whose layers `change(module, d_model, bias)` has replaced."""

    class Mistaken(Plain):
        def __init__(self, d_model: int, num_heads: int, d_head: int | None = None, bias: bool = True) -> None:
            super().__init__(d_model, num_heads, d_head, bias)
            change(self, d_model, bias)

    return Mistaken


def after(change: Any) -> type[Plain]:
    """The right results, passed through `change(module, x, output, weights)`."""

    def forward(self: Plain, x: Tensor) -> Any:
        return change(self, x, *Plain.forward(self, x))

    return but(forward=forward)
