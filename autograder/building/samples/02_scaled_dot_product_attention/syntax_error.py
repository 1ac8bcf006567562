# One cell does not compile; the others are worth what they are worth.

# %% attention_scores
def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5


# %% softmax active="ipynb"
# def softmax(scores: Tensor) -> Tensor
#     exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True)
#     return exponentials / exponentials.sum(dim=-1, keepdim=True)

# %% predict_dot_spread
dot_spread = "B"
