"""Row 13: PyTorch's function. True in a bool mask = may attend; `is_causal` is aligned to the top left."""

import torch.nn.functional as F
from torch import Tensor


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
) -> Tensor:
    grouping = {"enable_gqa": True} if grouped else {}  # torch has the flag since 2.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale, **grouping)
