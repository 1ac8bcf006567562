"""Keys and values of the tokens read so far, kept for the next one."""

import torch
from jaxtyping import Float
from torch import Tensor

from .required import check_whole


class KVCache:
    """Room for the keys and values of ``max_len`` positions, filled from the left, one call at a time.

    >>> cache = KVCache(2, 3, 8, 5)
    >>> k, v = cache.append(torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5))
    >>> k, v = cache.append(torch.randn(2, 3, 1, 5), torch.randn(2, 3, 1, 5))
    >>> cache.length, k.shape
    (5, torch.Size([2, 3, 5, 5]))

    A cache is for inference: what it keeps carries no gradient. A later ``append`` writes after what an earlier one
    returned, not over it, except after ``truncate`` or ``reset``. ``num_kv_heads`` is the number of key heads, so
    grouped queries make it smaller. Under autocast it keeps its own dtype, and returns copies in the dtype of what was
    appended. Raises ValueError if the new positions do not fit, or for keys of the wrong shape; TypeError for a
    different dtype outside autocast.
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
        _check(self.k, k, v)
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


class RollingKVCache:
    """A ring for the keys and values of the last ``window`` positions: its memory does not grow with the text.

    >>> cache = RollingKVCache(2, 3, 4, 5)
    >>> for _ in range(9):
    ...     k, v = cache.append(torch.randn(2, 3, 1, 5), torch.randn(2, 3, 1, 5))
    >>> cache.length, k.shape, cache.k.shape
    (9, torch.Size([2, 3, 4, 5]), torch.Size([2, 3, 4, 5]))

    The key of position p is in row p % window. It is exact for attention with the same ``window``, whose newest query
    sees itself and the window - 1 keys before it. Errors are as for ``KVCache``, except that it is never full.
    Jiang et al. 2023, "Mistral 7B", section 2, figure 2.
    """

    def __init__(
        self,
        batch: int,
        num_kv_heads: int,
        window: int,
        d_head: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_whole(window=window)
        shape = (batch, num_kv_heads, window, d_head)
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)
        self.window = window
        self.length = 0

    @property
    def nbytes(self) -> int:
        """The memory of both buffers: 2 * batch * num_kv_heads * window * d_head * (bytes of one number)."""
        return self.k.nbytes + self.v.nbytes

    def append(
        self, k: Float[Tensor, "b h n d"], v: Float[Tensor, "b h n d"]
    ) -> tuple[Float[Tensor, "b h k d"], Float[Tensor, "b h k d"]]:
        """Append n positions, and return them after the window - 1 before them, in text order."""
        _check(self.k, k, v)
        k, v = k.detach(), v.detach()
        start, stop = self.length, self.length + k.shape[-2]
        seen = torch.arange(max(0, start - self.window + 1), start, device=k.device) % self.window
        keys = torch.cat([self.k[:, :, seen].to(k.dtype), k], dim=-2)
        values = torch.cat([self.v[:, :, seen].to(v.dtype), v], dim=-2)
        kept = torch.arange(max(start, stop - self.window), stop, device=k.device) % self.window
        self.k[:, :, kept] = k[:, :, k.shape[-2] - len(kept) :].to(self.k.dtype)
        self.v[:, :, kept] = v[:, :, v.shape[-2] - len(kept) :].to(self.v.dtype)
        self.length = stop
        return keys, values

    def reset(self) -> None:
        """Forget everything."""
        self.length = 0


Cache = KVCache | RollingKVCache


def _check(buffer: Tensor, k: Tensor, v: Tensor) -> None:
    b, h, _, d = buffer.shape
    for name, x in (("k", k), ("v", v)):
        if x.ndim != 4 or (x.shape[0], x.shape[1], x.shape[3]) != (b, h, d):
            raise ValueError(f"{name} must have shape (b, h, n, d) = ({b}, {h}, n, {d}), got {tuple(x.shape)}")
        if x.dtype != buffer.dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"{name} must have the cache's dtype {buffer.dtype}, got {x.dtype}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"k and v must have the same number of positions, got {k.shape[-2]} and {v.shape[-2]}")
