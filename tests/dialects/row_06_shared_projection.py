"""Row 6: the input is cut into heads first and one small projection serves them all; 0 in the mask = blocked.

The order of the arguments is values, keys, query. Blocked scores become -1e20, before they are scaled: a row that is
blocked whole comes out uniform, and float16 cannot hold the number.
"""

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = embed_size // heads
        assert self.head_dim * heads == embed_size, "embed_size must be divisible by heads"
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None = None) -> Tensor:
        b, q_len = query.shape[:2]
        v = self.values(values.reshape(b, -1, self.heads, self.head_dim))
        k = self.keys(keys.reshape(b, -1, self.heads, self.head_dim))
        q = self.queries(query.reshape(b, q_len, self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", q, k)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / self.head_dim**0.5, dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", attention, v).reshape(b, q_len, self.heads * self.head_dim)
        return self.fc_out(out)
