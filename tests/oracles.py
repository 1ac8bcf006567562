"""Helpers for attnlib's tests: an obviously correct attention, comparisons with stated tolerances, small inputs."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import pytest
import torch
from hypothesis import settings
from torch import Tensor

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}
DTYPES = list(TOLERANCE)

quick = settings(deadline=None, max_examples=25, derandomize=True, database=None)
few = settings(quick, max_examples=7)
on_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="NO CUDA DEVICE: nothing was tested on a GPU"),
]
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])


def slow_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, one number at a time, in Python's own floating point."""
    *lead, q_len, d = q.shape
    k_len, d_v = v.shape[-2:]
    shape = (*lead, q_len, k_len)
    opened = torch.ones(shape, dtype=torch.bool) if mask is None else mask.expand(shape)
    output, weights = torch.zeros(*lead, q_len, d_v).double(), torch.zeros(shape).double()
    for *axes, i in itertools.product(*map(range, (*lead, q_len))):
        batch = tuple(axes)
        row = {
            j: sum(a * b for a, b in zip(q[(*batch, i)].tolist(), k[(*batch, j)].tolist(), strict=True))
            * (1 / math.sqrt(d) if scale is None else scale)
            for j in range(k_len)
            if opened[(*batch, i, j)]
        }
        highest = max(row.values(), default=0.0)
        total = sum(math.exp(score - highest) for score in row.values())
        for j, score in row.items():
            weight = math.exp(score - highest) / total
            weights[(*batch, i, j)] = weight
            output[(*batch, i)] += weight * v[(*batch, j)].double()
    return output, weights


def assert_agrees(actual: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    """Assert equality to within the dtype's tolerance, relative to the scale of what is expected."""
    tolerance = TOLERANCE[actual.dtype] if tolerance is None else tolerance
    assert actual.shape == expected.shape
    assert torch.isfinite(actual).all()
    if expected.numel():
        error = (actual.detach().cpu().double() - expected.detach().cpu().double()).abs().max().item()
        scale = max(1.0, expected.detach().abs().max().item())
        assert error <= tolerance * scale, f"differs by {error:.3g}, allowed {tolerance:.3g} of the scale {scale:.3g}"


def assert_same_gradients(
    one: Tensor, other: Tensor, inputs: list[Tensor], tolerance: float | None = None, others: list[Tensor] | None = None
) -> None:
    """Assert that two results have the same gradients, for an upstream gradient that is neither constant nor zero."""
    upstream = torch.linspace(-1.0, 1.5, one.numel(), device=one.device).reshape(one.shape).to(one.dtype)
    gradients = torch.autograd.grad(one, inputs, upstream, retain_graph=True)
    expected = torch.autograd.grad(other, inputs if others is None else others, upstream.to(other.dtype))
    for gradient, right in zip(gradients, expected, strict=True):
        assert_agrees(gradient, right, tolerance)


def randoms(*shapes: tuple[int, ...], seed: int = 0, dtype: torch.dtype = torch.float64, device: str = "cpu") -> list:
    """Tensors that need a gradient, the same on every device and in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype).requires_grad_()
        for shape in shapes
    ]


def random_mask(*shape: int, seed: int = 0, share: float = 0.6, device: str = "cpu") -> Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share).to(device)


@contextmanager
def untyped() -> Iterator[None]:
    """Turn off the checking of annotations, so that a wrong call gets attnlib's own errors, as it does for a user."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
