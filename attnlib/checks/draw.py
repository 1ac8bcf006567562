"""Random inputs that are the same on every machine: drawn on the CPU in float64, then cast and moved."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class Draw:
    """Random inputs for one case: the same `key` gives the same numbers in every dtype and on every device.

    The bits are SHAKE-256 of the key, so the numbers are as hard to guess as a key is: of all seeds, torch's generator
    on the CPU makes 2³² streams. Nor do they depend on the version of torch, but for rounding.

    >>> draw = Draw("an example", dtype=torch.float32)
    >>> draw.normal(2, 3).shape
    torch.Size([2, 3])
    """

    def __init__(self, *key: object, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        self.key, self.draws = repr(key).encode(), 0

    def _uniform(self, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """Numbers in (0, 1), float64, out of 32 bits each; every call gives new ones."""
        self.draws += 1
        bits = hashlib.shake_256(b"%d %s" % (self.draws, self.key)).digest(4 * count)
        return (np.frombuffer(bits, "<u4") + 0.5) * 2.0**-32

    def normal(self, *shape: int, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        """Normally distributed numbers with standard deviation `scale` around `shift`."""
        count = math.prod(shape)
        uniform = self._uniform(count + count % 2)
        distance, direction = uniform[::2], uniform[1::2] * (2 * math.pi)  # Box and Muller, 1958
        radius = np.sqrt(-2.0 * np.log(distance))
        numbers = np.concatenate([radius * np.cos(direction), radius * np.sin(direction)])[:count]
        return torch.from_numpy(scale * numbers + shift).to(self.dtype).view(shape)

    def integers(self, low: int, high: int, shape: Sequence[int]) -> Tensor:
        """Integers in [low, high), int64."""
        numbers = np.floor(self._uniform(math.prod(shape)) * (high - low) + low)
        return torch.from_numpy(numbers.astype(np.int64)).view(tuple(shape))

    def tokens(self, probabilities: Tensor, count: int) -> Tensor:
        """Indices into a distribution, drawn from it."""
        edges = probabilities.double().cumsum(dim=-1)
        return torch.searchsorted(edges / edges[-1], torch.from_numpy(self._uniform(count)))

    def d_head(self, prime: int) -> int:
        """A width whose root enters the scale: `prime`, but 16 in float64.

        The root of 16 is exact in every dtype, so `torch.sqrt(torch.tensor(d))`, a float32 number, is as right as
        `d ** 0.5` even where values are compared to 14 digits.
        """
        return 16 if self.dtype == torch.float64 else prime
