"""Row 8: several heads as a list of single ones, their outputs side by side, no output projection."""

import torch
from row_07_matrix_parameters import SelfAttention
from torch import Tensor, nn


class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in: int, d_out_kq: int, d_out_v: int, num_heads: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList([SelfAttention(d_in, d_out_kq, d_out_v) for _ in range(num_heads)])

    def forward(self, x: Tensor) -> Tensor:  # (n, d_in) -> (n, num_heads * d_out_v)
        return torch.cat([head(x) for head in self.heads], dim=-1)
