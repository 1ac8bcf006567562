"""From token ids to vectors, and from vectors to queries, keys and values."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .required import check_width


def embed(token_ids: Int[Tensor, "..."], table: Float[Tensor, "vocabulary d_model"]) -> Float[Tensor, "... d_model"]:
    """Look up each token's vector in a table: row ``token_ids[b, n]`` of the table.

    >>> import torch
    >>> table = torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> embed(torch.tensor([[2, 1]]), table)
    tensor([[[3., 4.],
             [1., 2.]]])

    Shapes: (b, n), (vocabulary, d_model) -> (b, n, d_model).
    Raises IndexError for an id outside the vocabulary, negative ones included (on a GPU, CUDA's own error).
    Vaswani et al. 2017, section 3.4, which also multiplies the vectors by sqrt(d_model).
    """
    return F.embedding(token_ids, table)


def project_qkv(
    x: Float[Tensor, "... n d_model"],
    w_q: Float[Tensor, "d_model d_k"],
    w_k: Float[Tensor, "d_model d_k"],
    w_v: Float[Tensor, "d_model d_v"],
) -> tuple[Float[Tensor, "... n d_k"], Float[Tensor, "... n d_k"], Float[Tensor, "... n d_v"]]:
    """Three views of the same sequence: what each position looks for, what it offers, and what it brings back.

    Q = X W^Q,  K = X W^K,  V = X W^V

    Shapes: x (b, n, d_model); w_q, w_k (d_model, d_k); w_v (d_model, d_v) -> q, k (b, n, d_k), v (b, n, d_v).
    Vaswani et al. 2017, section 3.2.2.
    """
    return x @ w_q, x @ w_k, x @ w_v


def project_qkv_fused(
    x: Float[Tensor, "... n d_model"], w_qkv: Float[Tensor, "d_model columns"], d_k: int, d_v: int
) -> tuple[Float[Tensor, "... n {d_k}"], Float[Tensor, "... n {d_k}"], Float[Tensor, "... n {d_v}"]]:
    """The same three projections as a single matrix product, whose columns are then split into q, k and v.

    >>> import torch
    >>> x = torch.tensor([[1.0, 10.0]])
    >>> project_qkv_fused(x, torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 1.0]]), d_k=1, d_v=2)
    (tensor([[1.]]), tensor([[2.]]), tensor([[ 3., 14.]]))

    Shapes: x (b, n, d_model), w_qkv (d_model, 2 d_k + d_v) -> q, k (b, n, d_k), v (b, n, d_v).
    Raises ValueError if w_qkv has any other number of columns.
    Vaswani et al. 2017, section 3.2.2.
    """
    if w_qkv.shape[-1] != 2 * d_k + d_v:
        raise ValueError(f"w_qkv must have 2 d_k + d_v = {2 * d_k + d_v} columns, got {w_qkv.shape[-1]}")
    q, k, v = (x @ w_qkv).split([d_k, d_k, d_v], dim=-1)
    return q, k, v


class QKVProjection(nn.Module):
    """Three linear layers, ``w_q``, ``w_k`` and ``w_v``, that turn a sequence into queries, keys and values.

    >>> import torch
    >>> q, k, v = QKVProjection(7, 3, 5)(torch.randn(2, 11, 7))
    >>> q.shape, k.shape, v.shape
    (torch.Size([2, 11, 3]), torch.Size([2, 11, 3]), torch.Size([2, 11, 5]))

    Shapes: x (b, n, d_model) -> q, k (b, n, d_k), v (b, n, d_v).
    Raises ValueError if the width of x is not d_model.
    Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, d_model: int, d_k: int, d_v: int, *, bias: bool = True) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)

    def forward(
        self, x: Float[Tensor, "... n d_model"]
    ) -> tuple[Float[Tensor, "... n d_k"], Float[Tensor, "... n d_k"], Float[Tensor, "... n d_v"]]:
        check_width("x", x, "d_model", self.w_q.in_features)
        return self.w_q(x), self.w_k(x), self.w_v(x)
