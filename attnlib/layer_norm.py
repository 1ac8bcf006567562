"""Each position's vector, brought to mean 0 and variance 1."""

import torch
from jaxtyping import Float
from torch import Tensor


def layer_norm(
    x: Float[Tensor, "... d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "... d_model"]:
    """Normalise the last axis, then scale and shift: (x - mean) / sqrt(variance + eps) * gain + bias.

    The variance is the biased one, divided by d_model, and eps is inside the root.

    >>> layer_norm(torch.tensor([[1.0, 3.0], [10.0, 30.0]]), torch.ones(2), torch.zeros(2))
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])

    Shapes: x (..., d_model), gain and bias (d_model) -> (..., d_model).
    Raises ValueError when gain or bias has another width than x.
    Ba et al. 2016, "Layer Normalization", section 3.1; Vaswani et al. 2017, section 3.1.
    """
    width, shapes = x.shape[-1], (tuple(gain.shape), tuple(bias.shape))
    if shapes != ((width,), (width,)):
        raise ValueError(f"gain and bias must have shape (d_model,) = ({width},), got {shapes[0]} and {shapes[1]}")
    # squares need more range than half precision has
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    variance, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
    normalised = (wide - mean) * (variance + eps).rsqrt()
    return (normalised * gain + bias).to(x.dtype)
