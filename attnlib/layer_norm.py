"""Each position's vector, brought to mean 0 and variance 1, or to a root mean square of 1."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .half_precision import wide


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
    Raises ValueError if gain or bias is not as wide as x.
    Ba et al. 2016, "Layer Normalization", equations 3 and 4; Vaswani et al. 2017, section 3.1.
    """
    width, shapes = x.shape[-1], (tuple(gain.shape), tuple(bias.shape))
    if shapes != ((width,), (width,)):
        raise ValueError(f"gain and bias must have shape (d_model,) = ({width},), got {shapes[0]} and {shapes[1]}")
    exact = wide(x)
    variance, mean = torch.var_mean(exact, dim=-1, correction=0, keepdim=True)
    normalised = (exact - mean) * (variance + eps).rsqrt()
    return (normalised * gain + bias).to(x.dtype)


def rms_norm(
    x: Float[Tensor, "... d_model"], gain: Float[Tensor, " d_model"], *, eps: float = 1e-6
) -> Float[Tensor, "... d_model"]:
    """Divide the last axis by its root mean square, then scale: x / sqrt(mean(x^2) + eps) * gain.

    No mean is subtracted, so before the gain a vector keeps its direction.

    >>> rms_norm(torch.tensor([[3.0, 4.0], [30.0, 40.0]]), torch.ones(2))
    tensor([[0.8485, 1.1314],
            [0.8485, 1.1314]])

    Shapes: x (..., d_model), gain (d_model) -> (..., d_model). Raises ValueError if gain is not as wide as x.
    Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
    """
    if tuple(gain.shape) != (x.shape[-1],):
        raise ValueError(f"gain must have shape (d_model,) = ({x.shape[-1]},), got {tuple(gain.shape)}")
    exact = wide(x)
    return (exact * (exact.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * gain).to(x.dtype)


def norm_layer(kind: str, d_model: int, *, eps: float, bias: bool) -> nn.LayerNorm | nn.RMSNorm:
    """The layer that blocks use: "layer" for ``layer_norm``, "rms" for ``rms_norm``, which has no bias."""
    if kind not in ("layer", "rms"):
        raise ValueError(f'norm must be "layer" or "rms", got {kind!r}')
    return nn.LayerNorm(d_model, eps=eps, bias=bias) if kind == "layer" else nn.RMSNorm(d_model, eps=eps)
