"""Molecules on a page: atoms as discs, bonds as lines, and a number that says which atom is which."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnlib.plot.style import GREY, INK

if TYPE_CHECKING:
    import matplotlib.axes

BARE = ("white", GREY)
NARROW = 0.09  # between the lines of a double bond, in lengths of a bond
BOND = 1.5  # the length of a bond in the coordinates


def plot_molecules(
    points: Sequence[tuple[float, float]],
    bonds: Sequence[tuple[int, int, int]],
    symbols: Sequence[str],
    numbers: Sequence[int | None],
    *,
    ax: "matplotlib.axes.Axes",
    start: float = 0.0,
) -> float:
    """Draw molecules from ``start`` to the right, and return where they end.

    Atoms with the same number get the same colour, in whichever picture they are; an atom without one stays white.

    >>> import matplotlib.pyplot as plt
    >>> _, ax = plt.subplots()
    >>> round(plot_molecules([(0.0, 0.0), (1.5, 0.0)], [(0, 1, 2)], ["C", "O"], [1, None], ax=ax), 1)
    1.5
    >>> len(ax.lines), [text.get_text() for text in ax.texts]
    (2, ['C1', 'O'])
    """
    import matplotlib.pyplot as plt

    left = min(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    places = [(x - left + start, y - (low + high) / 2) for x, y in points]
    for one, other, many in bonds:
        (x0, y0), (x1, y1) = places[one], places[other]
        aside = NARROW * (y0 - y1), NARROW * (x1 - x0)
        for line in range(many):
            by = line - (many - 1) / 2
            ax.plot([x0 + by * aside[0], x1 + by * aside[0]], [y0 + by * aside[1], y1 + by * aside[1]], color=INK, lw=1)
    colours = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    for (x, y), symbol, number in zip(places, symbols, numbers, strict=True):
        fill, edge = BARE if number is None else (colours[(2 * number + 1 + number // 10) % 20], INK)
        label = symbol if number is None else f"{symbol}{number}"
        disc = {"boxstyle": "circle,pad=0.22", "fc": fill, "ec": edge, "lw": 0.8}
        ax.text(x, y, label, ha="center", va="center", fontsize=6.5, bbox=disc)
    return max(x for x, _ in places)
