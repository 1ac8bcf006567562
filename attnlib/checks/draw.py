"""Random inputs that are the same on every machine: drawn on the CPU in float64, then cast and moved."""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


class Draw:
    """Random inputs for one case: the same `key` gives the same numbers in every dtype and on every device.

    >>> draw = Draw("an example", dtype=torch.float32)
    >>> draw.normal(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self, *key: object, dtype: torch.dtype = torch.float32) -> None:
        digest = hashlib.sha256(repr(key).encode()).digest()
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def normal(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        """Normally distributed numbers with standard deviation `scale` around `shift`."""
        numbers = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        return (scale * numbers + shift).to(self.dtype)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> Tensor:
        """Integers in [low, high), int64."""
        return torch.randint(low, high, tuple(shape), generator=self.generator)

    def d_head(self, prime: int) -> int:
        """A width whose root enters the scale: `prime`, but 16 in float64.

        The root of 16 is exact in every dtype, so `torch.sqrt(torch.tensor(d))`, a float32 number, is as right as
        `d ** 0.5` even where values are compared to 14 digits.
        """
        return 16 if self.dtype == torch.float64 else prime
