"""Tables: attention weights as a heat map, a grid of heads, a mask."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlib.plot.inputs import points_of, shortened, table_of, tokens_of
from attnlib.plot.style import COLOUR_MAP, INK

if TYPE_CHECKING:
    import matplotlib.axes

LARGEST_WITH_VALUES = 12  # rows or columns up to which the numbers are printed into the cells


def plot_attention(
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    title: str | None = None,
    values: bool | None = None,
    vmax: float | None = None,
    colorbar: bool = True,
) -> "matplotlib.axes.Axes":
    """Attention weights (q, k) as a heat map: row i shows where query i looks.

    The tokens label the axes; `keys` default to the `queries` where there are as many. The numbers are printed into the
    cells (`values`) up to 12 rows and columns; a weight of exactly zero is printed as `0`, and NaN is grey. The colours
    run from 0 to `vmax`, by default the largest weight.

    >>> weights = torch.tensor([[0.75, 0.25, 0.0], [0.1, 0.8, 0.1]])
    >>> ax = plot_attention(weights, ["ein", "Hund"], ["a", "dog", "barks"])
    >>> ax.get_xlabel(), [label.get_text() for label in ax.get_xticklabels()]
    ('keys', ['a', 'dog', 'barks'])
    """
    table = table_of(weights, "weights", "(q, k)", 2)
    queries, keys = tokens_of(queries, keys, *table.shape)
    ax = _axes_for_matrix(ax, table.shape, queries, keys)
    image = ax.imshow(table.numpy(), cmap=COLOUR_MAP, vmin=0, vmax=_largest(table) if vmax is None else vmax)
    ax.set_facecolor("0.8")  # shines through where a weight is NaN
    ax.set_title(title or "")
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label="attention weight", shrink=0.8)
    _label_axes(ax, table.shape, queries, keys)
    if max(table.shape) <= LARGEST_WITH_VALUES if values is None else values:
        _print_values(ax, image, table)
    return ax


def plot_heads(
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    axes: Any = None,
    columns: int = 4,
    titles: Sequence[str] | None = None,
) -> Any:
    """Attention weights (h, q, k) as a grid of heat maps, one for each head, on one shared scale.

    Returns a NumPy array with the h Axes, in the order of the heads. Pass `axes`, h of them, to draw on your own axes.

    >>> axes = plot_heads(torch.eye(3).expand(2, 3, 3), ["a", "b", "c"])
    >>> axes.shape, axes[1].get_title()
    ((2,), 'head 1')
    """
    import matplotlib.pyplot as plt
    import numpy as np

    table = table_of(weights, "weights", "(h, q, k)", 3)
    heads = len(table)
    queries, keys = tokens_of(queries, keys, *table.shape[1:])
    if titles is None:
        titles = [f"head {head}" for head in range(heads)]
    for name, given in (("titles", titles), ("axes", axes)):
        if given is not None and len(given) != heads:
            raise ValueError(f"{name} must have one entry for each of the {heads} heads, got {len(given)}")
    own_grid, columns = axes is None, min(columns, heads)
    if axes is None:
        rows = -(-heads // columns)
        width, height = _size(table.shape[1:], queries, keys)
        shrink = min(1.0, 12.0 / (columns * width))
        size = (columns * width * shrink + 1.0, rows * max(height * shrink, 1.8))
        grid = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="compressed")[1]
        for unused in grid.flat[heads:]:
            unused.remove()
        axes = list(grid.flat[:heads])
    drawn = np.empty(heads, dtype=object)
    scale: dict[str, Any] = {"values": False, "vmax": _largest(table), "colorbar": False}
    for head, ax in enumerate(axes):
        drawn[head] = plot_attention(table[head], queries, keys, ax=ax, title=titles[head], **scale)
        if own_grid and head % columns:
            ax.tick_params(labelleft=False)
            ax.set_ylabel("")
        if own_grid and head + columns < heads:
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
    drawn[0].figure.colorbar(drawn[0].images[0], ax=list(drawn), label="attention weight", shrink=0.8)
    return drawn


def plot_mask(
    mask: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    title: str | None = None,
) -> "matplotlib.axes.Axes":
    """A mask (q, k), bool, True = may attend: dark cells are open, hatched ones are blocked, as the legend says.

    >>> ax = plot_mask(torch.ones(4, 4, dtype=torch.bool).tril())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['may attend', 'blocked']
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be torch.bool, True = may attend, got {mask.dtype}")
    table = table_of(mask, "mask", "(q, k)", 2)
    queries, keys = tokens_of(queries, keys, *table.shape)
    ax = _axes_for_matrix(ax, table.shape, queries, keys)
    ax.imshow(table.numpy(), cmap=ListedColormap(["white", INK]), vmin=0, vmax=1)
    corners = torch.tensor([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
    blocked = (table == 0).nonzero().flip(-1)[:, None] + corners  # (column, row) of every cell's corners
    hatched: dict[str, Any] = {"facecolor": "white", "edgecolor": "0.6", "hatch": "////", "linewidth": 0.0}
    ax.add_collection(PolyCollection(list(blocked.numpy()), **hatched), autolim=False)
    _label_axes(ax, table.shape, queries, keys)
    ax.set_title(title or "")
    legend = [Patch(facecolor=INK, label="may attend"), Patch(**hatched | {"linewidth": 0.5}, label="blocked")]
    ax.legend(handles=legend, loc="upper left", bbox_to_anchor=(1.02, 1.0), borderaxespad=0.0, frameon=False)
    return ax


def _largest(table: Tensor) -> float:
    finite = table[table.isfinite()]
    return float(finite.max()) if finite.numel() and finite.max() > 0 else 1.0


def _size(shape: torch.Size, queries: Sequence[str] | None, keys: Sequence[str] | None) -> tuple[float, float]:
    """Width and height in inches at which a matrix of this shape, its labels beside it, fits a notebook."""
    cell = min(0.45, 6.5 / max(shape))
    left, below = (
        0.09 * max(map(len, map(shortened, tokens)), default=1) if tokens else 0.2 for tokens in (queries, keys)
    )
    return max(cell * shape[1], 1.5) + left + 0.7, max(cell * shape[0], 1.5) + below + 0.8


def _axes_for_matrix(
    ax: "matplotlib.axes.Axes | None", shape: torch.Size, queries: Sequence[str] | None, keys: Sequence[str] | None
) -> "matplotlib.axes.Axes":
    import matplotlib.pyplot as plt

    if ax is not None:
        return ax
    width, height = _size(shape, queries, keys)
    return plt.subplots(figsize=(width + 1.2, height), layout="compressed")[1]


def _label_axes(
    ax: "matplotlib.axes.Axes", shape: torch.Size, queries: Sequence[str] | None, keys: Sequence[str] | None
) -> None:
    from matplotlib.ticker import MaxNLocator

    room = min(points / positions for points, positions in zip(points_of(ax), reversed(shape), strict=True))
    size = min(10.0, max(6.0, 0.8 * room))
    every = max(1, round(7.0 / room))  # where not even small labels fit, every other token is named, or fewer
    for axis, tokens, name in ((ax.yaxis, queries, "queries"), (ax.xaxis, keys, "keys")):
        axis.set_label_text(name)
        if tokens is None:
            axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
            continue
        labels = [shortened(token) for token in tokens]
        axis.set_ticks(range(0, len(labels), every), labels=labels[::every])
        crowded = axis is ax.xaxis and max(map(len, labels)) * size * 0.62 > room
        slanted: dict[str, Any] = (
            {"rotation": 90 if room < 14 else 45, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        )
        if crowded and room < 14:
            slanted["va"] = "center"
        for label in axis.get_ticklabels():
            label.set(fontsize=size, parse_math=False, **slanted)  # a token may be a dollar sign


def _print_values(ax: "matplotlib.axes.Axes", image: Any, table: Tensor) -> None:
    import numpy as np

    size = min(9.0, max(4.0, 0.36 * points_of(ax)[0] / table.shape[1]))
    for (i, j), value in np.ndenumerate(table.numpy()):
        red, green, blue, opaque = image.cmap(image.norm(value))
        dark = opaque and 0.21 * red**2.2 + 0.72 * green**2.2 + 0.07 * blue**2.2 < 0.18  # white has more contrast
        text = "0" if value == 0 else f"{value:.2f}"
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
