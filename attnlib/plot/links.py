"""Who looks at whom: a line from each query to the keys that it looks at."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnlib.plot.inputs import points_of, shortened, table_of, tokens_of
from attnlib.plot.style import INK

if TYPE_CHECKING:
    import matplotlib.axes


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

    A line is as thick and as dark as its weight; weights below `threshold` are left out. `query` draws only its
    lines, which makes a crowded picture readable.

    >>> import torch
    >>> ax = plot_links(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.01, 0.99]]), ["ein", "Hund"], ["a", "dog", "barks"])
    >>> len(ax.collections[0].get_segments())
    3
    """
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    table = table_of(weights, "weights", "(q, k)", 2).nan_to_num()
    (q, k), tall = table.shape, max(table.shape)
    if query is not None and not 0 <= query < q:
        raise ValueError(f"query must be one of the {q} positions 0 … {q - 1}, got {query}")
    queries, keys = tokens_of(queries, keys, q, k)
    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, min(0.9 + 0.28 * tall, 9.5)), layout="constrained")
    chosen = range(q) if query is None else [query]
    strong = [(table[i, j].item(), i, j) for i in chosen for j in range(k) if table[i, j] >= max(threshold, 1e-12)]
    strong.sort()  # the strongest lines are drawn last, on top
    height = ([(i + 0.5) * tall / q for i in range(q)], [(j + 0.5) * tall / k for j in range(k)])
    lines = [[(0.0, height[0][i]), (1.0, height[1][j])] for _, i, j in strong]
    colours = [(*to_rgb(INK), min(0.1 + 0.9 * weight, 1.0)) for weight, _, _ in strong]
    ax.add_collection(LineCollection(lines, colors=colours, linewidths=[0.4 + 4.6 * min(w, 1) for w, _, _ in strong]))
    size = min(10.0, max(3.5, 0.75 * points_of(ax)[1] / tall))
    for side, (tokens, align) in enumerate(((queries, "right"), (keys, "left"))):
        x = side + 0.04 * (2 * side - 1)
        ax.text(x, -0.35, ("queries", "keys")[side], ha=align, va="bottom", color="0.25")
        for index, y in enumerate(height[side]):
            faded = side == 0 and query not in (None, index)
            text = str(index) if tokens is None else shortened(tokens[index])
            style: dict[str, Any] = {"fontsize": size, "color": "0.55" if faded else "black"}
            ax.text(x, y, text, ha=align, va="center", parse_math=False, **style)
    ax.set(xlim=(-0.6, 1.6), ylim=(tall, -1.0), title=title or "")
    ax.set_axis_off()
    return ax
