"""Keys and values of the tokens read so far, kept for the next one."""

import torch
from jaxtyping import Float
from torch import Tensor


class KVCache:
    """Room for the keys and values of ``max_len`` positions, filled from the left, one call at a time.

    >>> cache = KVCache(2, 3, 8, 5)
    >>> k, v = cache.append(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5))
    >>> k, v = cache.append(torch.randn(2, 3, 1, 5), torch.randn(2, 3, 1, 5))
    >>> cache.length, k.shape
    (5, torch.Size([2, 3, 5, 5]))

    A cache is for inference: what it keeps carries no gradient. A later ``append`` writes beside what an earlier one
    returned, never over it. ``num_kv_heads`` is the number of key heads, so grouped queries make it smaller.
    Under autocast it keeps its own dtype, and gives back copies in the dtype of what was appended.
    Raises ValueError when it is full, or for keys of another shape; TypeError for another dtype outside of autocast.
    Shazeer 2019, "Fast Transformer Decoding", section 2.4.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        max_len: int,
        d_head: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shape = (batch, num_kv_heads, max_len, d_head)
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)
        self.max_len = max_len
        self.length = 0

    @property
    def nbytes(self) -> int:
        """The memory of both buffers: 2 * batch * num_kv_heads * max_len * d_head * (bytes of one number)."""
        return self.k.nbytes + self.v.nbytes

    def append(
        self, k: Float[Tensor, "b h n d"], v: Float[Tensor, "b h n d"]
    ) -> tuple[Float[Tensor, "b h k d"], Float[Tensor, "b h k d"]]:
        """Append n positions, and return views of everything that the cache holds now."""
        self._check("k", k)
        self._check("v", v)
        if k.shape[-2] != v.shape[-2]:
            raise ValueError(f"k and v must have the same number of positions, got {k.shape[-2]} and {v.shape[-2]}")
        start, stop = self.length, self.length + k.shape[-2]
        if stop > self.max_len:
            raise ValueError(f"the cache has room for max_len = {self.max_len} positions, got {start} + {k.shape[-2]}")
        self.k[:, :, start:stop] = k.detach()
        self.v[:, :, start:stop] = v.detach()
        self.length = stop
        return self.k[:, :, :stop].to(k.dtype), self.v[:, :, :stop].to(v.dtype)

    def truncate(self, length: int) -> None:
        """Forget every position from ``length`` on, as after a rejected guess."""
        if not 0 <= length <= self.length:
            raise ValueError(f"length must be between 0 and {self.length}, got {length}")
        self.length = length

    def reset(self) -> None:
        """Forget everything."""
        self.length = 0

    def _check(self, name: str, x: Tensor) -> None:
        b, h, _, d = self.k.shape
        if x.ndim != 4 or (x.shape[0], x.shape[1], x.shape[3]) != (b, h, d):
            raise ValueError(f"{name} must have shape (b, h, n, d) = ({b}, {h}, n, {d}), got {tuple(x.shape)}")
        if x.dtype != self.k.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"{name} must have the cache's dtype {self.k.dtype}, got {x.dtype}")
