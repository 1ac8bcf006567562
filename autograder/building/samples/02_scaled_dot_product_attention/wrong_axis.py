# The softmax runs over the wrong axis: each key is shared among the queries.

# %% attention_scores
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


# %% softmax
def softmax(scores: Tensor) -> Tensor:
    exponentials = (scores - scores.amax(dim=-2, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-2, keepdim=True)


# %% scaled_dot_product_attention
def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = softmax(attention_scores(q, k))
    return weights @ v, weights
