"""The inputs of a picture: tensors brought to the CPU, tokens turned into labels, room measured in points."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    import matplotlib.axes

LONGEST_LABEL = 16  # characters


def table_of(values: Tensor, name: str, shape: str, ndim: int) -> Tensor:
    """Return the values in float32 on the CPU, if they have that many axes."""
    if values.ndim != ndim or values.numel() == 0:
        hint = "; pick one sequence (and head) of the batch" if values.ndim > ndim else ""
        raise ValueError(f"{name} must have shape {shape}, none of them empty, got {tuple(values.shape)}{hint}")
    return values.detach().to("cpu", torch.float32)


def tokens_of(
    queries: Sequence[str] | None, keys: Sequence[str] | None, q: int, k: int
) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """Return one name for each query and each key; in a square table the keys are the queries."""
    if keys is None and queries is not None and q == k:
        keys = queries
    for name, tokens, positions in (("queries", queries, q), ("keys", keys, k)):
        if tokens is not None and len(tokens) != positions:
            raise ValueError(f"{name} must name each of the {positions} positions, got {len(tokens)} tokens")
    return queries, keys


def shortened(token: str) -> str:
    """Turn a token into a label that is visible and at most 16 characters long."""
    text = str(token).replace("\n", "\\n").replace("\t", "\\t")
    text = text if text.strip() else "␣" * len(text) or "''"
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 6]}…{text[-5:]}"


def points_of(ax: "matplotlib.axes.Axes") -> tuple[float, float]:
    """Return width and height of an Axes in points, the unit of font sizes."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    return extent.width * 72 / dpi, extent.height * 72 / dpi
