"""Row 14: PyTorch's module, batch first. True in its masks = blocked, opposite to row 13; the weights are averaged."""

from torch import nn


def multi_head_attention(d_model: int, num_heads: int) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(d_model, num_heads, batch_first=True)  # the default is (n, b, d_model)
