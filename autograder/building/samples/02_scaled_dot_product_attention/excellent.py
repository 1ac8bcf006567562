# All right, and not written as the lesson's own solutions are.

# %% predict_blank_query
blank_query = "B"


# %% attention_scores
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1] ** 0.5


# %% softmax
def softmax(scores: Tensor) -> Tensor:
    return (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()


# %% predict_dot_spread
dot_spread = "B"


# %% scaled_dot_product_attention
def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(q, k.mT) / k.shape[-1] ** 0.5
    weights = scores.softmax(-1)
    return torch.matmul(weights, v), weights


# %% SelfAttention
class SelfAttention(nn.Module):
    def __init__(self, d_model: int, d_k: int, d_v: int):
        super().__init__()
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_q = nn.Linear(d_model, d_k, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = ((self.w_q(x) @ self.w_k(x).mT) / self.w_k.out_features**0.5).softmax(-1)
        return weights @ self.w_v(x), weights


# %% predict_swapped_words
swapped_words = "B"


# %% mend_self_attention
def mend_self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights
