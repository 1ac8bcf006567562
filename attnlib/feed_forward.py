"""The MLP of a block: the same small network at every position."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .required import check_rate, check_whole, check_width

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Widen, apply the GELU, narrow: dropout(gelu(x W_up + b_up)) W_down + b_down, then dropout again.

    The GELU is the exact one, x * Phi(x) with the normal distribution's Phi; "gelu_tanh" is its approximation by tanh,
    with which GPT-2 was trained, and "silu" is x * sigmoid(x). With ``gated``, a second projection goes through the
    nonlinearity and gates the first; with "silu" that is LLaMA's SwiGLU: dropout(silu(x W_gate) * (x W_up)) W_down.

    >>> import torch
    >>> FeedForward(7, 29)(torch.randn(2, 11, 7)).shape
    torch.Size([2, 11, 7])

    Shapes: x (..., d_model) -> (..., d_model). Layers: ``up``, ``down``, and ``gate`` if it is gated. Dropout acts
    only in training. Raises ValueError for an activation that is not in ``ACTIVATIONS``, and for x of another width.
    Vaswani et al. 2017, section 3.3, equation 2 (with ReLU); Hendrycks and Gimpel 2016 (GELU); Shazeer 2020, "GLU
    Variants Improve Transformer", equation 6 (gated).
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        *,
        dropout: float = 0.0,
        activation: str = "gelu",
        gated: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_whole(d_model=d_model, d_hidden=d_hidden)
        check_rate(dropout)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.dropout = dropout
        self.gate = nn.Linear(d_model, d_hidden, bias=bias) if gated else None
        self.up = nn.Linear(d_model, d_hidden, bias=bias)
        self.down = nn.Linear(d_hidden, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        check_width("x", x, "d_model", self.up.in_features)
        nonlinearity = ACTIVATIONS[self.activation]
        hidden = nonlinearity(self.up(x)) if self.gate is None else nonlinearity(self.gate(x)) * self.up(x)
        hidden = F.dropout(hidden, self.dropout, self.training)
        return F.dropout(self.down(hidden), self.dropout, self.training)
