# Right in theory: the exponential of a large score is infinite, and the rest is nan.

# %% attention_scores
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


# %% softmax
def softmax(scores: Tensor) -> Tensor:
    exponentials = torch.exp(scores)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


# %% scaled_dot_product_attention
def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = softmax(attention_scores(q, k))
    return weights @ k, weights


# %% predict_swapped_words
swapped_words = "C"
