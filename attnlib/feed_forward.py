"""The MLP of a block: the same small network at every position."""

from collections.abc import Callable

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .required import check_width

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}


class FeedForward(nn.Module):
    """Widen, apply the GELU, narrow: dropout(gelu(x W_up + b_up)) W_down + b_down, then dropout again.

    The GELU is the exact one, x * Phi(x) with the normal distribution's Phi; "gelu_tanh" is its approximation by tanh,
    with which GPT-2 was trained.

    >>> import torch
    >>> FeedForward(7, 29)(torch.randn(2, 11, 7)).shape
    torch.Size([2, 11, 7])

    Shapes: x (..., d_model) -> (..., d_model). Layers: ``up``, ``down``. Dropout acts in training only.
    Raises ValueError for another activation than "gelu", "gelu_tanh" or "relu", and when x is not d_model wide.
    Vaswani et al. 2017, section 3.3, equation 2 (with ReLU); Hendrycks and Gimpel 2016 (GELU).
    """

    def __init__(
        self, d_model: int, d_hidden: int, *, dropout: float = 0.0, activation: str = "gelu", bias: bool = True
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.dropout = dropout
        self.up = nn.Linear(d_model, d_hidden, bias=bias)
        self.down = nn.Linear(d_hidden, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "... d_model"]) -> Float[Tensor, "... d_model"]:
        check_width("x", x, "d_model", self.up.in_features)
        hidden = F.dropout(ACTIVATIONS[self.activation](self.up(x)), self.dropout, self.training)
        return F.dropout(self.down(hidden), self.dropout, self.training)
