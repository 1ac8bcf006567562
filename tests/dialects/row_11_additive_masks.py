"""Row 11: functions on ready heads with additive masks (0 and -inf) and key padding (True = pad); context and weights.

A row that is padded away whole is a softmax of nothing but -inf: NaN. Dropout depends on `Q.requires_grad`, which is a
bug of the dialect: it drops at evaluation, and does not drop in frozen training.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:  # (1, 1, L, L)
    mask = torch.full((length, length), float("-inf"), device=device)
    return torch.triu(mask, diagonal=1).unsqueeze(0).unsqueeze(0)


def scaled_dot_product_attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    dropout_p: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Q (B, H, L_q, d), K and V (B, H, L_k, d), attn_mask (1 or B, 1 or H, L_q, L_k), key_padding_mask (B, L_k)."""
    scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(Q.size(-1))
    if attn_mask is not None:
        scores = scores + attn_mask
    if key_padding_mask is not None:
        scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
    weights = F.softmax(scores, dim=-1)
    weights = F.dropout(weights, p=dropout_p, training=Q.requires_grad)
    return torch.matmul(weights, V), weights
