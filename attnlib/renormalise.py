"""Causal weights in the opposite order: softmax first, then the triangle, then each row is divided again."""

import torch
from jaxtyping import Float
from torch import Tensor

from .masks import causal_mask
from .softmax import masked_softmax


def renormalised_causal_weights(scores: Float[Tensor, "... q k"]) -> Float[Tensor, "... q k"]:
    """Softmax over all keys, keep the lower triangle, divide each row by what is left of its sum.

    p = softmax(s);  w_ij = p_ij / sum_{l <= i} p_il  for j <= i, and 0 elsewhere

    The softmax's own denominator cancels, so this equals masking before the softmax, which needs no second division:

    >>> scores = torch.tensor([[1.0, 5.0, 2.0], [3.0, 3.0, 8.0], [0.0, 0.0, 0.0]])
    >>> renormalised_causal_weights(scores)
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])

    Computed literally, a row whose future scores are much larger becomes 0 / 0. Here the division happens in
    logarithms (the softmax of log p is p over its sum), which never divides by zero; the rounding error grows with the
    distance to the future scores.

    Shapes: (..., q, k) -> (..., q, k), aligned bottom-right as ``causal_mask``.
    """
    log_weights = torch.log_softmax(scores, dim=-1)
    return masked_softmax(log_weights, causal_mask(*scores.shape[-2:], device=scores.device))
