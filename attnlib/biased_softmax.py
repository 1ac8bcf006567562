"""A softmax written over the scores: one matrix (q, k) less to allocate, which costs more than to compute it."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def biased_softmax_(
    scores: Float[Tensor, "... k"], bias: Float[Tensor, "..."] | None, shape: tuple[int, ...]
) -> Float[Tensor, "... k"]:
    """softmax(scores + bias) over the last axis, which may overwrite the scores: pass a tensor that was just made.

    >>> biased_softmax_(torch.zeros(2, 2), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]]), (2, 2))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])

    Shapes: scores (..., k), not a view -> the same. The bias is broadcastable to ``shape``, which holds as many numbers
    as the scores, in the same order, and is finite somewhere in each row.
    """
    if torch.compiler.is_compiling() or is_transformed():  # compilers fuse by themselves; vmap may batch the bias alone
        return torch.softmax(scores if bias is None else (scores.view(shape) + bias).view(scores.shape), dim=-1)
    return _BiasedSoftmax.apply(scores, bias, shape)


def is_transformed() -> bool:
    """Whether a transform of torch.func, such as vmap, is at work."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


class _BiasedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        if bias is not None:
            scores.view(shape).add_(bias)
            ctx.shapes = shape, bias.shape
        torch.softmax(scores, dim=-1, out=scores)
        ctx.mark_dirty(scores)
        ctx.save_for_backward(scores)
        return scores

    @staticmethod
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (weights,) = ctx.saved_tensors
        d_scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
        d_bias = None
        if ctx.needs_input_grad[1]:
            shape, bias_shape = ctx.shapes
            d_bias = d_scores.view(shape).sum_to_size(bias_shape)
        return d_scores, d_bias, None
