"""What "the dialect and attnlib agree" means: results and all gradients, relative to their scale."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import attnlib
from attnlib.mask_conventions import from_blocked

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


@dataclass
class Setting:
    """Where and how precisely one comparison is made; the numbers are the same in every setting."""

    device: str
    dtype: torch.dtype
    backend: str
    random: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(5))

    def normal(self, *shape: int, std: float = 1.0) -> Tensor:
        """A leaf whose gradient is compared."""
        values = std * torch.randn(shape, generator=self.random, dtype=torch.float64)
        return values.to(self.device, self.dtype).requires_grad_()

    def module(self, module: nn.Module) -> Any:
        """The module with every parameter drawn anew: no bias is zero, no gain is one, no softmax is saturated."""
        module = module.to(self.device, self.dtype)
        with torch.no_grad():
            for parameter in module.parameters():
                fan_in = max(parameter.shape) if parameter.ndim > 1 else 4
                parameter.copy_(self.normal(*parameter.shape, std=fan_in**-0.5))
        return module

    def mask(self, kind: str, q: int, k: int) -> Tensor | None:
        """A mask (q, k), True = may attend, in which every query may attend to something."""
        if kind == "none":
            return None
        if kind == "causal":
            mask = torch.ones(q, k, dtype=torch.bool).tril(k - q)
        else:
            mask = torch.rand(q, k, generator=self.random) > 0.5
            mask[:, 1] = True
        return mask.to(self.device)

    def padding(self, batch: int, k: int) -> Tensor:
        """Key padding (batch, k), True = pad; no sequence is padding alone."""
        lengths = torch.arange(batch, device=self.device)[:, None] + k - batch
        return torch.arange(k, device=self.device) >= lengths


def call(module: nn.Module, weights: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    """The module with these weights for its own; a missing or a surplus name is an error."""
    return torch.func.functional_call(module, weights, args, kwargs, strict=True)


def sdpa(setting: Setting, *qkv: Tensor, **options: Any) -> Any:
    return attnlib.scaled_dot_product_attention(*qkv, backend=setting.backend, **options)


def multi_head(setting: Setting, d_model: int, num_heads: int, **options: Any) -> attnlib.MultiHeadAttention:
    return setting.module(attnlib.MultiHeadAttention(d_model, num_heads, backend=setting.backend, **options))


def blocked_and_mask(setting: Setting, kind: str, q: int, k: int) -> tuple[Tensor | None, Tensor | None]:
    """A mask in the convention of rows 4, 5, 14 and 15 (True = blocked), and attnlib's of it."""
    mask = setting.mask(kind, q, k)
    return (None, None) if mask is None else (~mask, from_blocked(~mask))


def leaves(module: nn.Module | None = None, **inputs: Tensor) -> dict[str, Tensor]:
    return inputs | (dict(module.named_parameters()) if module is not None else {})


def assert_agree(
    setting: Setting,
    theirs: Callable[[], Tensor | tuple[Tensor, ...]],
    ours: Callable[[], Tensor | tuple[Tensor, ...]],
    wrt: dict[str, Tensor],
    vanishing: Sequence[str] = (),
) -> None:
    """Outputs, and the gradients of a random combination of all outputs with respect to all of `wrt`.

    A gradient that is zero in exact arithmetic (that of a key bias: a constant added to a row of scores changes no
    softmax) is named in `vanishing` and compared on the scale of the others.
    """
    expected, actual = (out if isinstance(out, tuple) else (out,) for out in (theirs(), ours()))
    assert len(expected) == len(actual)
    weighting = [setting.normal(*out.shape).detach() for out in expected]
    for index, (e, a) in enumerate(zip(expected, actual, strict=True)):
        assert (a.shape, a.dtype, a.device) == (e.shape, e.dtype, e.device)
        assert_close(a, e, setting, f"output {index}", e.abs().max().item())
    gradients = [
        dict(
            zip(
                wrt,
                torch.autograd.grad(combine(outputs, weighting), list(wrt.values()), retain_graph=True),
                strict=True,
            )
        )
        for outputs in (expected, actual)
    ]
    scales = {name: gradient.abs().max().item() for name, gradient in gradients[0].items()}
    for name in wrt:
        scale = max(scales.values()) if name in vanishing else scales[name]
        assert_close(gradients[1][name], gradients[0][name], setting, f"gradient of {name}", scale)


def combine(outputs: Sequence[Tensor], weighting: Sequence[Tensor]) -> Tensor:
    return torch.stack([(out * weight).sum() for out, weight in zip(outputs, weighting, strict=True)]).sum()


def assert_close(actual: Tensor, expected: Tensor, setting: Setting, what: str, scale: float) -> None:
    assert scale > 0, f"{what}: nothing is compared where everything is zero"
    error = (actual - expected).abs().max().item() / scale
    assert error <= TOLERANCE[setting.dtype], f"{what}: {error:.2e} of its scale"
