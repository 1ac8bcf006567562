"""Row 12: self- and cross-attention, one head or many, all on the functions of row 11, without biases."""

from row_11_additive_masks import causal_mask, scaled_dot_product_attention
from torch import Tensor, nn


class SingleHeadCrossAttention(nn.Module):
    def __init__(self, d_model: int, head_dim: int, attn_dropout: float = 0.0) -> None:
        super().__init__()
        self.W_q = nn.Linear(d_model, head_dim, bias=False)
        self.W_k = nn.Linear(d_model, head_dim, bias=False)
        self.W_v = nn.Linear(d_model, head_dim, bias=False)
        self.attn_dropout = attn_dropout

    def forward(
        self, x: Tensor, memory: Tensor, padding: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (part.unsqueeze(1) for part in (self.W_q(x), self.W_k(memory), self.W_v(memory)))
        mask = causal_mask(x.size(1), x.device) if causal else None
        context, weights = scaled_dot_product_attention(q, k, v, mask, padding, self.attn_dropout)
        return context.squeeze(1), weights


class SingleHeadSelfAttention(nn.Module):
    def __init__(self, d_model: int, head_dim: int, attn_dropout: float = 0.0) -> None:
        super().__init__()
        self.attend = SingleHeadCrossAttention(d_model, head_dim, attn_dropout)

    def forward(self, x: Tensor, padding: Tensor | None = None, causal: bool = False) -> tuple[Tensor, Tensor]:
        return self.attend(x, x, padding, causal)


class MultiHeadCrossAttention(nn.Module):
    def __init__(
        self, d_model: int, num_heads: int, head_dim: int, attn_dropout: float = 0.0, out_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.attn_dropout = num_heads, head_dim, attn_dropout
        inner = num_heads * head_dim  # need not be d_model
        self.W_q = nn.Linear(d_model, inner, bias=False)
        self.W_k = nn.Linear(d_model, inner, bias=False)
        self.W_v = nn.Linear(d_model, inner, bias=False)
        self.W_o = nn.Linear(inner, d_model, bias=False)
        self.out_dropout = nn.Dropout(out_dropout)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def forward(
        self, x: Tensor, memory: Tensor, padding: Tensor | None = None, causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        q, k, v = self._split(self.W_q(x)), self._split(self.W_k(memory)), self._split(self.W_v(memory))
        mask = causal_mask(x.size(1), x.device) if causal else None
        context, weights = scaled_dot_product_attention(q, k, v, mask, padding, self.attn_dropout)
        merged = context.transpose(1, 2).contiguous().view(x.size(0), x.size(1), -1)  # without contiguous: no view
        return self.out_dropout(self.W_o(merged)), weights


class MultiHeadSelfAttention(nn.Module):
    def __init__(
        self, d_model: int, num_heads: int, head_dim: int, attn_dropout: float = 0.0, out_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.attend = MultiHeadCrossAttention(d_model, num_heads, head_dim, attn_dropout, out_dropout)

    def forward(self, x: Tensor, padding: Tensor | None = None, causal: bool = False) -> tuple[Tensor, Tensor]:
        return self.attend(x, x, padding, causal)
