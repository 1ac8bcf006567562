"""A reaction as a picture: atoms as discs, bonds as lines, and each product atom in the colour of its origin."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnlib.plot.style import GREY, INK

if TYPE_CHECKING:
    import matplotlib.axes
    from torch import Tensor

BARE = ("white", GREY)
NARROW = 0.09  # between the lines of a double bond, in lengths of a bond
ARROW = 3.6  # the room for it, in the coordinates, where a bond is 1.5 long
Point = tuple[float, float]


def plot_reaction(
    points: Sequence[Point],
    bonds: Sequence[tuple[int, int, int]],
    symbols: Sequence[str],
    origins: Sequence[int],
    shares: "Tensor | None" = None,
    *,
    ax: "matplotlib.axes.Axes",
) -> None:
    """Draw both sides of a reaction; each atom of the product has the number and the colour of its origin.

    ``points`` are where to draw each atom, those on the left first; ``bonds`` are (atom, atom, order), ``symbols`` the
    elements. ``origins`` (p) holds the origin of each atom of the product, as an index among the atoms on the left;
    those that are no atom's origin stay white. With ``shares`` (p, r), links show how a head divides its attention: the
    wider the link, the larger the weight.

    >>> import matplotlib.pyplot as plt
    >>> _, ax = plt.subplots()
    >>> places = [(0, 0), (1.5, 0), (3, 0), (0, 0), (1.5, 0)]
    >>> plot_reaction(places, [(0, 1, 1), (3, 4, 2)], ["C", "O", "O", "O", "C"], [1, 0], ax=ax)
    >>> [text.get_text() for text in ax.texts if text.get_text()]
    ['C2', 'O1', 'O', 'O1', 'C2']

    Raises ValueError unless there are a point and a symbol for each atom, and every origin is an atom on the left.
    """
    import matplotlib.pyplot as plt

    r = _atoms_on_the_left(points, symbols, origins)
    end = max(x for x, _ in points[:r]) - min(x for x, _ in points[:r])
    places = [*_moved(points[:r], 0.0), *_moved(points[r:], end + ARROW)]
    numbers = {origin: atom for atom, origin in enumerate(origins, start=1)}
    numbers |= {r + atom: numbers[origin] for atom, origin in enumerate(origins)}
    colours = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]

    def colour(atom: int) -> str | tuple[float, ...]:
        fill: tuple[float, ...] = colours[(2 * numbers[atom] + 1 + numbers[atom] // 10) % 20]
        return fill

    for one, other, many in bonds:
        _plot_bond(places[one], places[other], many, ax)
    for atom, row in enumerate([] if shares is None else shares.tolist()):
        for origin, share in enumerate(row):
            if share > 0.05:
                ends = zip(places[origin], places[r + atom], strict=True)
                ax.plot(*ends, color=colour(r + atom), lw=5 * share, alpha=0.45, zorder=0.5)
    for atom, ((x, y), symbol) in enumerate(zip(places, symbols, strict=True)):
        fill, edge = (colour(atom), INK) if atom in numbers else BARE
        label = f"{symbol}{numbers[atom]}" if atom in numbers else symbol
        disc = {"boxstyle": "circle,pad=0.22", "fc": fill, "ec": edge, "lw": 0.8}
        ax.text(x, y, label, ha="center", va="center", fontsize=8, bbox=disc)
    arrow = {"arrowstyle": "-|>", "color": GREY, "lw": 1.5}
    ax.annotate("", (end + 0.7 * ARROW, 0), (end + 0.3 * ARROW, 0), arrowprops=arrow)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.margins(0.05)


def _atoms_on_the_left(points: Sequence[Point], symbols: Sequence[str], origins: Sequence[int]) -> int:
    """Return how many there are; a ValueError unless everything fits."""
    r = len(symbols) - len(origins)
    if len(points) != len(symbols) or r < 1:
        raise ValueError(
            f"a point and a symbol for each atom of both sides are required, got {len(points)} points, "
            f"{len(symbols)} symbols and {len(origins)} origins"
        )
    if not all(0 <= origin < r for origin in origins):
        raise ValueError(f"every origin must be between 0 and {r - 1}, an atom on the left, got {list(origins)}")
    return r


def _plot_bond(start: Point, end: Point, many: int, ax: "matplotlib.axes.Axes") -> None:
    (x0, y0), (x1, y1) = start, end
    aside = NARROW * (y0 - y1), NARROW * (x1 - x0)
    for line in range(many):
        by = line - (many - 1) / 2
        ax.plot([x0 + by * aside[0], x1 + by * aside[0]], [y0 + by * aside[1], y1 + by * aside[1]], color=INK, lw=1)


def _moved(points: Sequence[Point], start: float) -> list[Point]:
    """Shift the drawing to begin at ``start``, with the middle of its height at 0."""
    left, heights = min(x for x, _ in points), [y for _, y in points]
    return [(x - left + start, y - (min(heights) + max(heights)) / 2) for x, y in points]
