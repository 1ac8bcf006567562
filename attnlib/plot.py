"""Pictures of attention: a heat map, a grid of heads, a mask, and who looks at whom.

Every function takes a tensor of any dtype, on any device, with or without gradient, and returns the Axes that it drew
on, so that a caller can add to the picture. Dark means much attention, on one scale of lightness, which colour
blindness and a black-and-white printer leave intact. matplotlib is imported when something is drawn, not before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    import matplotlib.axes

COLOUR_MAP = "Blues"
INK = "#08306b"  # the dark end of the colour map
LARGEST_WITH_VALUES = 12  # rows or columns up to which the numbers are printed into the cells
LONGEST_LABEL = 16  # characters


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
    table = _table(weights, "weights", "(q, k)", 2)
    queries, keys = _tokens(queries, keys, *table.shape)
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

    Returns a NumPy array with the h Axes, in the order of the heads. Pass `axes`, h of them, to draw on your own.

    >>> axes = plot_heads(torch.eye(3).expand(2, 3, 3), ["a", "b", "c"])
    >>> axes.shape, axes[1].get_title()
    ((2,), 'head 1')
    """
    import matplotlib.pyplot as plt
    import numpy as np

    table = _table(weights, "weights", "(h, q, k)", 3)
    heads = len(table)
    queries, keys = _tokens(queries, keys, *table.shape[1:])
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
    table = _table(mask, "mask", "(q, k)", 2)
    queries, keys = _tokens(queries, keys, *table.shape)
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


def plot_links(
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    query: int | None = None,
    threshold: float = 0.02,
    title: str | None = None,
) -> "matplotlib.axes.Axes":
    """Attention weights (q, k) as lines from each query, left, to the keys that it looks at, right.

    A line is as thick and as dark as its weight; weights below `threshold` are left out. `query` draws that one's lines
    alone, which is how to read a crowded picture.

    >>> ax = plot_links(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.01, 0.99]]), ["ein", "Hund"], ["a", "dog", "barks"])
    >>> len(ax.collections[0].get_segments())
    3
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    table = _table(weights, "weights", "(q, k)", 2).nan_to_num()
    (q, k), tall = table.shape, max(table.shape)
    if query is not None and not 0 <= query < q:
        raise ValueError(f"query must be one of the {q} positions 0 … {q - 1}, got {query}")
    queries, keys = _tokens(queries, keys, q, k)
    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, min(0.9 + 0.28 * tall, 9.5)), layout="constrained")
    chosen = range(q) if query is None else [query]
    strong = [(table[i, j].item(), i, j) for i in chosen for j in range(k) if table[i, j] >= max(threshold, 1e-12)]
    strong.sort()  # the strongest lines are drawn last, on top
    height = ([(i + 0.5) * tall / q for i in range(q)], [(j + 0.5) * tall / k for j in range(k)])
    lines = [[(0.0, height[0][i]), (1.0, height[1][j])] for _, i, j in strong]
    colours = [(*to_rgb(INK), min(0.1 + 0.9 * weight, 1.0)) for weight, _, _ in strong]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=[0.4 + 4.6 * min(w, 1) for w, _, _ in strong]))
    size = min(10.0, max(3.5, 0.75 * _points(ax)[1] / tall))
    for side, (tokens, align) in enumerate(((queries, "right"), (keys, "left"))):
        x = side + 0.04 * (2 * side - 1)
        ax.text(x, -0.35, ("queries", "keys")[side], ha=align, va="bottom", color="0.25")
        for index, y in enumerate(height[side]):
            faded = side == 0 and query not in (None, index)
            text = str(index) if tokens is None else _shorten(tokens[index])
            style: dict[str, Any] = {"fontsize": size, "color": "0.55" if faded else "black"}
            ax.text(x, y, text, ha=align, va="center", parse_math=False, **style)
    ax.set(xlim=(-0.6, 1.6), ylim=(tall, -1.0), title=title or "")
    ax.set_axis_off()
    return ax


def _table(values: Tensor, name: str, shape: str, ndim: int) -> Tensor:
    if values.ndim != ndim or values.numel() == 0:
        hint = "; pick one sequence (and head) of the batch" if values.ndim > ndim else ""
        raise ValueError(f"{name} must have shape {shape}, none of them empty, got {tuple(values.shape)}{hint}")
    return values.detach().to("cpu", torch.float32)


def _tokens(
    queries: Sequence[str] | None, keys: Sequence[str] | None, q: int, k: int
) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    if keys is None and queries is not None and q == k:
        keys = queries
    for name, tokens, positions in (("queries", queries, q), ("keys", keys, k)):
        if tokens is not None and len(tokens) != positions:
            raise ValueError(f"{name} must name each of the {positions} positions, got {len(tokens)} tokens")
    return queries, keys


def _shorten(token: str) -> str:
    """Turn a token into a label that is visible and at most 16 characters long."""
    text = str(token).replace("\n", "\\n").replace("\t", "\\t")
    text = text if text.strip() else "␣" * len(text) or "''"
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 6]}…{text[-5:]}"


def _largest(table: Tensor) -> float:
    finite = table[table.isfinite()]
    return float(finite.max()) if finite.numel() and finite.max() > 0 else 1.0


def _size(shape: torch.Size, queries: Sequence[str] | None, keys: Sequence[str] | None) -> tuple[float, float]:
    """Width and height in inches at which a matrix of this shape, its labels beside it, fits a notebook."""
    cell = min(0.45, 6.5 / max(shape))
    left, below = (
        0.09 * max(map(len, map(_shorten, tokens)), default=1) if tokens else 0.2 for tokens in (queries, keys)
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


def _points(ax: "matplotlib.axes.Axes") -> tuple[float, float]:
    """Width and height of an Axes in points, the unit of font sizes."""
    extent, dpi = ax.get_window_extent(), ax.figure.dpi
    return extent.width * 72 / dpi, extent.height * 72 / dpi


def _label_axes(
    ax: "matplotlib.axes.Axes", shape: torch.Size, queries: Sequence[str] | None, keys: Sequence[str] | None
) -> None:
    from matplotlib.ticker import MaxNLocator

    room = min(points / positions for points, positions in zip(_points(ax), reversed(shape), strict=True))
    size = min(10.0, max(6.0, 0.8 * room))
    every = max(1, round(7.0 / room))  # where not even small labels fit, every other token is named, or fewer
    for axis, tokens, name in ((ax.yaxis, queries, "queries"), (ax.xaxis, keys, "keys")):
        axis.set_label_text(name)
        if tokens is None:
            axis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
            continue
        labels = [_shorten(token) for token in tokens]
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

    size = min(9.0, max(4.0, 0.36 * _points(ax)[0] / table.shape[1]))
    for (i, j), value in np.ndenumerate(table.numpy()):
        red, green, blue, opaque = image.cmap(image.norm(value))
        dark = opaque and 0.21 * red**2.2 + 0.72 * green**2.2 + 0.07 * blue**2.2 < 0.18  # white has more contrast
        text = "0" if value == 0 else f"{value:.2f}"
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color="white" if dark else "black")
