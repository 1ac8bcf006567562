# Dot products as they are, never divided by the root of d.

# %% attention_scores
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


# %% softmax
def softmax(scores: Tensor) -> Tensor:
    exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


# %% predict_dot_spread
dot_spread = "A"


# %% scaled_dot_product_attention
def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = softmax(attention_scores(q, k))
    return weights @ v, weights
