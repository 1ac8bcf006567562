"""A right block out of parts that an attempt may use, too, with the handles by which it is put wrong."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

import attnlib

Forward = Callable[[Any, Tensor, Tensor | None], Tensor]


class _Perceptron(nn.Module):
    def __init__(self, d_model: int, d_hidden: int, dropout: float, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.p, self.activation = dropout, activation

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.dropout(self.activation(self.up(x)), self.p, self.training)
        return F.dropout(self.down(hidden), self.p, self.training)


class PlainBlock(nn.Module):
    """A block out of parts that an attempt may use, too; `settings` are those of the mistakes."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
        *,
        eps: float = 1e-5,
        activation: Callable[[Tensor], Tensor] = F.gelu,
        hidden: Callable[[float], int] = int,
        mlp_dropout: float | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_heads, self.p = num_heads, dropout
        self.norm1 = nn.LayerNorm(d_model, eps=eps)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads, bias=bias)
        self.norm2 = nn.LayerNorm(d_model, eps=eps)
        inside = dropout if mlp_dropout is None else mlp_dropout
        self.mlp = _Perceptron(d_model, hidden(d_model * mlp_ratio), inside, activation)

    def attend(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        output = self.attn(x, key_mask=key_mask)
        assert isinstance(output, Tensor)
        return output

    def drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        x = x + self.attend(self.norm1(x), key_mask)
        return x + self.mlp(self.norm2(x))


def block(forward: Forward) -> type[nn.Module]:
    """A block whose forward pass is `forward(block, x, key_mask)`."""

    class Wrong(PlainBlock):
        def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
            return forward(self, x, key_mask)

    return Wrong


def attending(attend: Forward) -> type[nn.Module]:
    class Wrong(PlainBlock):
        def attend(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
            return attend(self, x, key_mask)

    return Wrong


def built(**settings: Any) -> type[nn.Module]:
    class Wrong(PlainBlock):
        def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
            super().__init__(d_model, num_heads, mlp_ratio, dropout, **settings)

    return Wrong


def two_steps(
    attention: Forward = lambda s, x, m: x + s.attend(s.norm1(x), m),
    perceptron: Callable[[Any, Tensor], Tensor] = lambda s, x: x + s.mlp(s.norm2(x)),
) -> type[nn.Module]:
    return block(lambda s, x, m: perceptron(s, attention(s, x, m)))
