"""Scaled dot-product attention: the equation, and the choice among three ways to compute it."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from .attention_arguments import check_arguments
from .fused_attention import fused_attention
from .half_precision import wide, without_autocast
from .in_place_attention import in_place_attention
from .masks import with_causal
from .scores import attention_scores
from .softmax import masked_softmax


def scaled_dot_product_attention(
    q: Float[Tensor, "*batch q d_k"],
    k: Float[Tensor, "*key_batch k d_k"],
    v: Float[Tensor, "*key_batch k d_v"],
    *,
    mask: Bool[Tensor, "..."] | None = None,
    score_bias: Float[Tensor, "..."] | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    training: bool = False,
    return_weights: bool = False,
    backend: str | None = None,
) -> Float[Tensor, "*batch q d_v"] | tuple[Float[Tensor, "*batch q d_v"], Float[Tensor, "*batch q k"]]:
    """Each query's mean of the values, weighted by how well the query fits the keys.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V

    >>> q = torch.tensor([[0.0, 0.0], [20.0, 0.0]])
    >>> k = torch.tensor([[10.0, 0.0], [0.0, 10.0]])
    >>> v = torch.tensor([[1.0], [3.0]])
    >>> scaled_dot_product_attention(q, k, v)  # the first query cannot decide, the second finds the first key
    tensor([[2.],
            [1.]])

    Shapes: q (..., q, d_k), k (..., k, d_k), v (..., k, d_v) -> output (..., q, d_v), and with ``return_weights`` also
    the weights (..., q, k), as they are before dropout. Grouped queries: q (..., h, q, d_k) against k and v with h_kv
    heads, where h is a multiple of h_kv; query head i reads key head i // (h / h_kv).

    - ``mask``: bool, True = may attend, broadcastable to (..., q, k). A query that may attend to nothing gets zeros.
      A mask with two axes is always (q, k), even when there are as many sequences as queries: a key mask (b, k) needs
      the axes in between, as in ``key_mask[:, None, None, :]``.
    - ``score_bias``: added to the scaled scores, and broadcastable like the mask (ALiBi, for example).
    - ``is_causal``: query i sees key j only if j <= i + (k - q); together with a mask, both must hold.
    - ``scale``: replaces 1 / sqrt(d_k).
    - ``dropout``: the probability that a weight is dropped, if ``training`` is true.
    - ``backend``: "eager" computes what ``equation`` below does, "fused" calls
      ``F.scaled_dot_product_attention``, whose fused kernels never hold the weights. The default is fused, unless you
      ask for the weights or torch.func transforms the call.

    Raises ValueError for shapes that do not fit, an unknown backend, and ``return_weights`` with "fused"; TypeError for
    a mask that is not bool, different dtypes, and anything that is not a tensor.
    Vaswani et al. 2017, section 3.2.1, equation 1. Grouped queries: Ainslie et al. 2023, "GQA", section 2.2.
    """
    check_arguments(q, k, v, mask, score_bias, backend, return_weights)
    dropout = dropout if training else 0.0
    if backend == "fused" or (backend is None and not return_weights and not _is_transformed()):
        return fused_attention(q, k, v, mask, score_bias, is_causal, scale, dropout)
    # compilers and transforms of torch.func need a function without side effects, and fuse it themselves
    pure = torch.compiler.is_compiling() or _is_transformed()
    attend = equation if pure else in_place_attention
    output, weights = attend(q, k, v, mask, score_bias, is_causal, scale, dropout)
    return (output, weights) if return_weights else output


def equation(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    score_bias: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attention as lesson 02 writes it: scores, softmax, weighted mean of the values; the weights come with it.

    The other two forms compute the same thing faster, and the tests compare them with this one.
    """
    k, v = (_one_for_each_query_head(x, q) for x in (k, v))
    mask = with_causal(mask, q, k) if is_causal else mask
    with without_autocast(q):
        scores = attention_scores(wide(q), wide(k), scale=scale)  # (..., q, k)
    scores = scores if score_bias is None else scores + score_bias
    weights = masked_softmax(scores, mask).to(q.dtype)
    return F.dropout(weights, dropout) @ v, weights


def _one_for_each_query_head(x: Tensor, q: Tensor) -> Tensor:
    """Repeat the key heads of grouped queries: query head i reads key head i // groups."""
    return x if x.shape[:-2] == q.shape[:-2] else x.repeat_interleave(q.shape[-3] // x.shape[-3], dim=-3)


def _is_transformed() -> bool:
    """True if the call is inside a transform of torch.func, such as vmap."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None
