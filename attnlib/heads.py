"""Cutting the width into heads and joining them again."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def split_heads(x: Float[Tensor, "... n width"], num_heads: int) -> Float[Tensor, "... h n d"]:
    """Cut the width into heads: head i takes the i-th run of d neighbouring columns.

    >>> x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    >>> split_heads(x, 2)
    tensor([[[1., 2.],
             [5., 6.]],
    <BLANKLINE>
            [[3., 4.],
             [7., 8.]]])

    Shapes: (..., n, h d) -> (..., h, n, d), a view; einops: ``"... n (h d) -> ... h n d"``.
    Raises ValueError when the width is not divisible by num_heads.
    Vaswani et al. 2017, section 3.2.2.
    """
    width = x.shape[-1]
    if num_heads < 1 or width % num_heads:
        raise ValueError(f"the width must be divisible by num_heads, got width {width} and num_heads = {num_heads}")
    heads: Tensor = x.unflatten(-1, (num_heads, width // num_heads))
    return heads.transpose(-3, -2)


def merge_heads(x: Float[Tensor, "... h n d"]) -> Float[Tensor, "... n width"]:
    """Join the heads side by side, the inverse of ``split_heads``, "Concat" in the paper.

    >>> x = torch.arange(24.0).reshape(2, 3, 4)
    >>> torch.equal(merge_heads(split_heads(x, 2)), x)
    True

    Shapes: (..., h, n, d) -> (..., n, h d); einops: ``"... h n d -> ... n (h d)"``.
    Vaswani et al. 2017, section 3.2.2.
    """
    return x.transpose(-3, -2).flatten(-2)


def stack_head_weights(per_head: Sequence[Float[Tensor, "d_in d"]]) -> Float[Tensor, "d_in width"]:
    """One matrix for all heads, from one matrix for each: their columns side by side, in the order of ``split_heads``.

    >>> per_head = [torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [4.0]])]
    >>> stack_head_weights(per_head)
    tensor([[1., 3.],
            [2., 4.]])

    So ``split_heads(x @ stack_head_weights(per_head), h)[..., i, :, :]`` is ``x @ per_head[i]``: many small products
    are one large one.

    Shapes: h times (d_in, d) -> (d_in, h d).
    Raises ValueError when there is no head, or when the matrices differ in shape.
    Vaswani et al. 2017, section 3.2.2: W_1 ... W_h, each (d_model, d_k).
    """
    shapes = {tuple(w.shape) for w in per_head}
    if len(shapes) != 1:
        raise ValueError(f"every head must have a matrix of the same shape, got {[tuple(w.shape) for w in per_head]}")
    return torch.cat(list(per_head), dim=-1)
