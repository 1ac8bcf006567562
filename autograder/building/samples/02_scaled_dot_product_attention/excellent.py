# All right, and not written as the lesson's own solutions are.

# %% write_matrices
def write_matrices(features: list[str]) -> Tensor:
    wishes = {"pronoun": "alive", "state": "alive", "action": "place", "article": "thing"}
    rows = [[20.0 * (wishes.get(asking) == offered) for offered in features] for asking in features]
    return torch.stack([torch.tensor(rows), torch.eye(len(features))])


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


# %% train_head
def train_head(
    words: Tensor, wanted: Tensor, position: int, w_q: Tensor, w_k: Tensor, w_v: Tensor, lr: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    matrices, losses = [w.detach().clone() for w in (w_q, w_k, w_v)], []
    for x, target in zip(words, wanted, strict=True):
        q, k, v = (x @ w.requires_grad_() for w in matrices)
        loss = F.mse_loss(F.scaled_dot_product_attention(q, k, v)[:, position], target)
        slopes = torch.autograd.grad(loss, matrices)
        matrices = [(w - lr * slope).detach() for w, slope in zip(matrices, slopes, strict=True)]
        losses.append(loss.detach())
    return torch.stack(losses), *matrices


# %% predict_swapped_words
swapped_words = "B"


# %% mend_self_attention
def mend_self_attention(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v, weights
