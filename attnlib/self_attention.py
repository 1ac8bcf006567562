"""One head of attention of a sequence to itself."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from .attention import scaled_dot_product_attention
from .required import check_width


class SelfAttention(nn.Module):
    """A single head: project a sequence to queries, keys and values, and attend.

    >>> import torch
    >>> attention = SelfAttention(7, 3, 5)
    >>> attention(torch.randn(2, 11, 7)).shape
    torch.Size([2, 11, 5])

    Without a mask, permuting the positions permutes the output and changes nothing else: attention sees a set.

    Shapes: x (b, n, d_model), mask broadcastable to (b, n, n), bool, True = may attend -> output (b, n, d_v), and with
    ``return_weights`` also the weights (b, n, n). Layers: ``w_q``, ``w_k``, ``w_v``.
    Raises ValueError if the width of x is not d_model.
    Vaswani et al. 2017, sections 3.2.1 and 3.2.3.
    """

    def __init__(self, d_model: int, d_k: int, d_v: int, *, bias: bool = False) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "*batch n d_model"],
        *,
        mask: Bool[Tensor, "..."] | None = None,
        is_causal: bool = False,
        return_weights: bool = False,
    ) -> Float[Tensor, "*batch n d_v"] | tuple[Float[Tensor, "*batch n d_v"], Float[Tensor, "*batch n n"]]:
        check_width("x", x, "d_model", self.w_q.in_features)
        return scaled_dot_product_attention(
            self.w_q(x), self.w_k(x), self.w_v(x), mask=mask, is_causal=is_causal, return_weights=return_weights
        )
