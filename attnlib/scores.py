"""How well each query fits each key."""

import math

from jaxtyping import Float
from torch import Tensor


def attention_scores(
    q: Float[Tensor, "... q d"], k: Float[Tensor, "... k d"], *, scale: float | None = None
) -> Float[Tensor, "... q k"]:
    """The scaled dot product of every query with every key, Q K^T / sqrt(d).

    Two independent vectors with entries of variance 1 have a dot product of variance d. Dividing by sqrt(d) brings the
    variance back to 1, whatever the width, so that the softmax neither saturates nor flattens.

    >>> import torch
    >>> q = torch.tensor([[3.0, 0.0, 0.0, 1.0]])
    >>> k = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 5.0, 5.0, 4.0]])
    >>> attention_scores(q, k)
    tensor([[3., 2.]])

    Shapes: q (..., q, d), k (..., k, d) -> (..., q, k). ``scale`` replaces 1 / sqrt(d).
    Raises ValueError when q and k differ in their width d.
    Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q and k must have the same width d, got d = {q.shape[-1]} for q and {k.shape[-1]} for k")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    # scaling q costs fewer multiplications than scaling (q, k) scores, and half precision is less likely to overflow
    return (q * scale) @ k.transpose(-2, -1)
