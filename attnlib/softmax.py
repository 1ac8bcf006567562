"""From scores to weights that are never negative and sum to 1."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .masks import check_mask, open_empty_rows


def softmax(scores: Float[Tensor, "... k"]) -> Float[Tensor, "... k"]:
    """The softmax over the last axis, exp(s_j) / sum_i exp(s_i), for scores of any size.

    A constant added to every score changes nothing, so the largest score is subtracted first: exp then never overflows.

    >>> softmax(torch.tensor([10000.0, 10000.0, -10000.0]))
    tensor([0.5000, 0.5000, 0.0000])

    Shapes: (..., k) -> (..., k).
    Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    # the result does not depend on what is subtracted, so no gradient has to flow through it
    exponentials = (scores - scores.detach().amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def masked_softmax(scores: Float[Tensor, "... k"], mask: Bool[Tensor, "..."] | None = None) -> Float[Tensor, "... k"]:
    """The softmax over the entries of the last axis that the mask leaves open, and 0 elsewhere.

    >>> scores = torch.tensor([[1.0, 1.0, 9.0], [1.0, 1.0, 9.0]])
    >>> masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])

    Shapes: scores (..., k), mask broadcastable to it -> (..., k). The mask is bool, True = may attend. A row without a
    True is zero, and so is its gradient. Correct for any finite scores, even where the blocked ones are much
    larger. Raises TypeError for a mask that is not bool, ValueError for one that does not fit.
    Vaswani et al. 2017, section 3.2.3: "masking out (setting to -inf) all values in the input of the softmax".
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    check_mask(mask, scores.shape)
    mask, empty = open_empty_rows(mask)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)
    return weights if empty is None else weights.masked_fill(empty, 0.0)
