"""One head of attention from one sequence to another."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .attention import scaled_dot_product_attention
from .required import check_width


def cross_attention(
    x: Float[Tensor, "*batch q d_model"],
    memory: Float[Tensor, "*batch k d_memory"],
    w_q: Float[Tensor, "d_model d_k"],
    w_k: Float[Tensor, "d_memory d_k"],
    w_v: Float[Tensor, "d_memory d_v"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
) -> tuple[Float[Tensor, "*batch q d_v"], Float[Tensor, "*batch q k"]]:
    """Queries from ``x``, keys and values from ``memory``: softmax(X W^Q (M W^K)^T / sqrt(d_k)) M W^V.

    The output has a row for each position of x; the memory's length appears only in the weights.

    Shapes: x (..., q, d_model), memory (..., k, d_memory), w_q (d_model, d_k), w_k (d_memory, d_k),
    w_v (d_memory, d_v), mask broadcastable to (..., q, k), bool, True = may attend -> output (..., q, d_v) and
    weights (..., q, k).
    Raises ValueError if x and memory differ in their leading axes.
    Vaswani et al. 2017, section 3.2.3, "encoder-decoder attention".
    """
    _check_batch(x, memory)
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, return_weights=True)
    return output, weights


class CrossAttention(nn.Module):
    """A single head that asks one sequence about another.

    >>> import torch
    >>> attention = CrossAttention(7, 13, 3, 5)
    >>> attention(torch.randn(2, 11, 7), torch.randn(2, 17, 13)).shape
    torch.Size([2, 11, 5])

    Shapes: x (b, q, d_model), memory (b, k, d_memory), mask broadcastable to (b, q, k), bool, True = may attend
    -> output (b, q, d_v), and with ``return_weights`` also the weights (b, q, k). Layers: ``w_q``, ``w_k``, ``w_v``.
    Raises ValueError if x or memory is not as wide as the layers expect, or if they differ in b.
    Vaswani et al. 2017, section 3.2.3.
    """

    def __init__(self, d_model: int, d_memory: int, d_k: int, d_v: int, *, bias: bool = False) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_memory, d_k, bias=bias)
        self.w_v = nn.Linear(d_memory, d_v, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "*batch q d_model"],
        memory: Float[Tensor, "*batch k d_memory"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "*batch q d_v"] | tuple[Float[Tensor, "*batch q d_v"], Float[Tensor, "*batch q k"]]:
        check_width("x", x, "d_model", self.w_q.in_features)
        check_width("memory", memory, "d_memory", self.w_k.in_features)
        _check_batch(x, memory)
        return scaled_dot_product_attention(
            self.w_q(x), self.w_k(memory), self.w_v(memory), mask=mask, return_weights=return_weights
        )


def _check_batch(x: Tensor, memory: Tensor) -> None:
    """Raise where attention would take two batches for heads of grouped queries."""
    if x.shape[:-2] != memory.shape[:-2]:
        shapes = f"{tuple(x.shape)} and {tuple(memory.shape)}"
        raise ValueError(f"x and memory must have the same leading axes, got {shapes}")
