"""Positions: without them or a causal mask, attention cannot tell where in the sequence a vector is."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Num
from torch import Tensor, nn

from .masks import distances
from .required import check_floating, check_tensors, check_width


def _angles(
    n: int, width: int, base: float, offset: int, device: torch.device | str | None
) -> Float[Tensor, "{n} half"]:
    """Position times frequency, base^(-2i / width) for the i-th pair of columns; always in float64."""
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
    return torch.arange(offset, offset + n, dtype=torch.float64, device=device)[:, None] * frequencies


def sinusoidal_positions(
    n: int,
    d_model: int,
    *,
    base: float = 10000.0,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "{n} {d_model}"]:
    """Each position as a set of clock hands, the first fast, the last slow.

    PE(pos, 2i) = sin(pos / base^(2i / d_model));  PE(pos, 2i + 1) = cos(pos / base^(2i / d_model))

    >>> sinusoidal_positions(3, 4)
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.8415,  0.5403,  0.0100,  0.9999],
            [ 0.9093, -0.4161,  0.0200,  0.9998]])

    Shapes: -> (n, d_model).
    Vaswani et al. 2017, section 3.5.
    """
    angles = _angles(n, d_model, base, 0, device)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :d_model].to(dtype)


class SinusoidalPositions(nn.Module):
    """Add ``sinusoidal_positions`` to a sequence; nothing is learned.

    >>> SinusoidalPositions(11, 7)(torch.zeros(2, 5, 7)).shape
    torch.Size([2, 5, 7])

    Shapes: x (b, n, d_model) -> (b, n, d_model). ``offset`` is the position of the first vector, as after a cache.
    Raises ValueError when the sequence ends beyond max_len.
    Vaswani et al. 2017, section 3.5.
    """

    table: Tensor

    def __init__(self, max_len: int, d_model: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base
        self.register_buffer("table", sinusoidal_positions(max_len, d_model, base=base), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SinusoidalPositions":
        """Compute the table anew for another dtype: digits that one dtype has rounded away, no other brings back."""
        before = self.table.dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        dtype, device = self.table.dtype, self.table.device
        if dtype != before:
            self.table = sinusoidal_positions(*self.table.shape, base=self.base, device=device, dtype=dtype)
        return self

    def forward(self, x: Float[Tensor, "... n d_model"], *, offset: int = 0) -> Float[Tensor, "... n d_model"]:
        return x + _rows(self.table, x, offset)


class LearnedPositions(nn.Module):
    """Add a learned vector for each position to a sequence.

    >>> LearnedPositions(11, 7)(torch.zeros(2, 5, 7)).shape
    torch.Size([2, 5, 7])

    Shapes: x (b, n, d_model) -> (b, n, d_model). Parameter: ``table`` (max_len, d_model). ``positions`` (b, n), if
    given, replace offset, offset + 1 ...
    Raises ValueError when the sequence ends beyond max_len.
    Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1; Vaswani et al. 2017, table 3 (E).
    """

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_len, d_model) * 0.02)

    def forward(
        self, x: Float[Tensor, "... n d_model"], *, offset: int = 0, positions: Int[Tensor, "... n"] | None = None
    ) -> Float[Tensor, "... n d_model"]:
        if positions is None:
            return x + _rows(self.table, x, offset)
        check_width("x", x, "d_model", self.table.shape[-1])
        check_positions(positions, x)
        try:
            return x + F.embedding(positions, self.table).to(x.dtype)
        except IndexError:
            got = f"got {int(positions.min())} to {int(positions.max())}"
            raise ValueError(f"positions must be within max_len = {len(self.table)}, {got}") from None


def _rows(table: Tensor, x: Tensor, offset: int) -> Tensor:
    max_len, d_model = table.shape
    check_width("x", x, "d_model", d_model)
    n = x.shape[-2]
    if offset < 0 or offset + n > max_len:
        raise ValueError(f"positions must be within max_len = {max_len}, got {offset} to {offset + n - 1}")
    return table[offset : offset + n].to(x.dtype)


def check_positions(positions: Tensor, x: Tensor) -> None:
    """Raise unless there is a position for each vector of x (..., n, d): (n,), or broadcastable to (..., n)."""
    check_tensors(positions=positions)
    wanted, got = tuple(x.shape[:-1]), tuple(positions.shape)
    missing = len(wanted) - len(got)
    if missing < 0 or not got or any(p not in (1, s) for p, s in zip(got, wanted[missing:], strict=True)):
        raise ValueError(f"positions must be broadcastable to (..., n) = {wanted}, got {got}")


def apply_rotary(
    x: Float[Tensor, "... n d"], cos: Float[Tensor, "... n half"], sin: Float[Tensor, "... n half"]
) -> Float[Tensor, "... n d"]:
    """Turn each pair of neighbouring columns by its angle.

    (x_2i, x_2i+1)  ->  (x_2i cos - x_2i+1 sin,  x_2i sin + x_2i+1 cos)

    >>> quarter = torch.tensor([[math.pi / 2]])
    >>> apply_rotary(torch.tensor([[3.0, 0.0]]), quarter.cos(), quarter.sin()).round()
    tensor([[-0., 3.]])

    Shapes: x (..., n, d), cos and sin (n, d / 2) or broadcastable to (..., n, d / 2) -> (..., n, d).
    Su et al. 2021, "RoFormer", section 3.4.2, equation 34.
    """
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def rotate(
    x: Float[Tensor, "*batch n d"], positions: Num[Tensor, "..."], *, base: float = 10000.0
) -> Float[Tensor, "*batch n d"]:
    """Turn each pair of neighbouring columns by its position times its speed, base^(-2i / d) for pair i.

    >>> x = torch.tensor([[1.0, 0.0, 1.0, 0.0]])
    >>> rotate(x, torch.tensor([1.0]))  # by 1 radian, and by a hundredth of it
    tensor([[0.5403, 0.8415, 0.9999, 0.0100]])

    ``positions`` are any numbers, of shape (n,) or broadcastable to (..., n): after a cache, left-padded, or scaled to
    fit more text into the trained length (Chen et al. 2023, "Extending Context Window ..."). Angles are computed in
    float64. Shapes: x (..., n, d) -> (..., n, d). Raises ValueError for an odd d, and for positions that do not fit x.
    Su et al. 2021, "RoFormer", section 3.2.2, equations 14 to 16.
    """
    check_floating(x=x)
    d = x.shape[-1]
    if d % 2:
        raise ValueError(f"d must be even (columns are rotated in pairs), got {d}")
    check_positions(positions, x)
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angles = positions.to(torch.float64)[..., None] * speeds
    return apply_rotary(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))


def to_half_pairs(w: Float[Tensor, "... out"], num_heads: int, *, back: bool = False) -> Float[Tensor, "... out"]:
    """Reorder a projection's columns from neighbour pairs to half pairs, head by head; ``back`` undoes it.

    RoFormer and GPT-J rotate the columns (0, 1), (2, 3) ... of a head, GPT-NeoX and LLaMA in transformers (0, d/2),
    (1, d/2 + 1) ... With ``w_q`` and ``w_k`` reordered the same way, both give the same scores.

    >>> to_half_pairs(torch.arange(12.0), 2)
    tensor([ 0.,  2.,  4.,  1.,  3.,  5.,  6.,  8., 10.,  7.,  9., 11.])
    >>> to_half_pairs(to_half_pairs(torch.arange(12.0), 2), 2, back=True)
    tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.])

    Shapes: w (..., h * d) -> (..., h * d): x @ w are the queries or keys. Transpose the weight of an nn.Linear first.
    """
    if back:
        halves: Tensor = w.unflatten(-1, (num_heads, 2, -1))  # (..., h, half, pair)
        return halves.transpose(-1, -2).flatten(-3)
    pairs: Tensor = w.unflatten(-1, (num_heads, -1, 2))  # (..., h, pair, half)
    return pairs.transpose(-1, -2).flatten(-3)


class Rotary(nn.Module):
    """Turn queries and keys by their positions, so that their product depends only on the distance.

    <R_m q, R_n k> = <q, R_(n - m) k>,  where pair i is turned by position * base^(-2i / d)

    >>> rotary = Rotary(4)
    >>> q, k = torch.ones(1, 4), torch.ones(1, 4)
    >>> near = rotary(q, offset=5) @ rotary(k, offset=3).T
    >>> far = rotary(q, offset=105) @ rotary(k, offset=103).T
    >>> torch.allclose(near, far, atol=1e-5)
    True

    Shapes: x (..., n, d_head) -> (..., n, d_head); the first vector is at position ``offset``, unless ``positions`` say
    where each is, (n,) or broadcastable to (..., n), as for sentences padded on the left. It has no parameters.
    Raises ValueError for an odd d_head.
    Su et al. 2021, "RoFormer", section 3.2.2, equations 14 to 16.
    """

    def __init__(self, d_head: int, *, base: float = 10000.0) -> None:
        super().__init__()
        if d_head % 2:
            raise ValueError(f"d_head must be even (columns are rotated in pairs), got {d_head}")
        self.d_head, self.base = d_head, base

    def forward(
        self, x: Float[Tensor, "... n d_head"], *, offset: int = 0, positions: Num[Tensor, "..."] | None = None
    ) -> Float[Tensor, "... n d_head"]:
        check_width("x", x, "d_head", self.d_head)
        if positions is not None:
            return rotate(x, positions, base=self.base)
        angles = _angles(x.shape[-2], self.d_head, self.base, offset, x.device)
        return apply_rotary(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))


def alibi_slopes(num_heads: int, *, device: torch.device | str | None = None) -> Float[Tensor, " {num_heads}"]:
    """One slope for each head, a geometric series: 2^(-8/h), 2^(-16/h) ... 2^-8.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])

    When h is not a power of two, the series for the next lower power is completed with every other slope of the next
    higher one.
    Shapes: -> (h). Raises ValueError for fewer than one head.
    Press et al. 2021, "Train Short, Test Long", section 3 and the paper's code.
    """
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, got {num_heads}")
    below = 2 ** int(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2 ** (-8 * (i + 1) / (2 * below)) for i in range(0, 2 * below, 2)]
    return torch.tensor(slopes + between[: num_heads - below], device=device)


def alibi_bias(
    num_heads: int, q_len: int, k_len: int, *, device: torch.device | str | None = None
) -> Float[Tensor, "{num_heads} {q_len} {k_len}"]:
    """A bias on the scores that penalises distant keys: -slope * |distance|.

    >>> alibi_bias(2, 3, 3)[0]  # the first head's slope is 1/16
    tensor([[-0.0000, -0.0625, -0.1250],
            [-0.0625, -0.0000, -0.0625],
            [-0.1250, -0.0625, -0.0000]])

    Pass it to ``scaled_dot_product_attention`` as ``score_bias``; it is aligned bottom-right like ``causal_mask``.
    Shapes: -> (h, q, k).
    Press et al. 2021, "Train Short, Test Long", section 3, figure 3.
    """
    return -alibi_slopes(num_heads, device=device)[:, None, None] * distances(q_len, k_len, device).abs()
