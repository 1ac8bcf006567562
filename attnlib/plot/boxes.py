"""Boxes and arrows: a diagram from tensors, with their numbers or their shapes in the boxes.

A `Box` that has a tensor shows it; one without is a step of the computation. Boxes are placed in a grid whose
columns and rows are as wide and as high as what they hold; an `Arrow` goes from one box to another, straight or past
corners. What is drawn is measured in inches, so that type has the same size in every diagram.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnlib.plot.inputs import shortened
from attnlib.plot.style import ACCENT, FONT_SIZE, GREY, INK, PALE

if TYPE_CHECKING:
    import matplotlib.axes

Point = tuple[float, float]
LINE = 0.19  # inches from one line of text to the next
CELL = 0.46, 0.27  # inches: the cell of one number
GAP = 0.5, 0.42  # inches between columns and between rows
LARGEST = 64  # numbers in one box


@dataclass(frozen=True, kw_only=True)
class Box:
    """A thing in a diagram, at (column, row) of the grid: a tensor under its name, or a step of the computation."""

    name: str
    at: Point
    value: Tensor | None = None
    axes: str = ""
    """The names of the tensor's axes, such as "b q d", for a diagram of shapes."""
    rows: Sequence[str] = ()
    """Names of the rows of a tensor whose numbers are shown; `columns` likewise."""
    columns: Sequence[str] = ()
    decimals: int = 2
    """The number of decimals shown, unless all numbers are whole."""
    id: str = ""
    """The name by which arrows refer to the box, if not the box's own."""
    accent: bool = False
    faint: bool = False


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """An arrow between two boxes, by way of corners (column, row) of the grid."""

    start: str
    end: str
    label: str = ""
    via: Sequence[Point] = ()
    accent: bool = False
    dotted: bool = False
    """Draw it without a head: it joins a step to its result."""


def plot_boxes(
    boxes: Sequence[Box],
    arrows: Sequence[Arrow],
    *,
    shapes: bool = False,
    title: str | None = None,
    ax: "matplotlib.axes.Axes | None" = None,
) -> "matplotlib.axes.Axes":
    """Draw boxes and arrows, with the tensors' numbers in the boxes, or with their `shapes`.

    >>> boxes = [Box(name="x", at=(0, 0), value=torch.tensor([1.0, -0.5])), Box(name="norm", at=(1, 0))]
    >>> ax = plot_boxes(boxes, [Arrow(start="x", end="norm")])
    >>> [text.get_text() for text in ax.texts]
    ['x', '1.00', '−0.50', 'norm']
    """
    import matplotlib.pyplot as plt

    drawn = [_Drawn(box, shapes) for box in boxes]
    by_id = {one.box.id or one.box.name: one for one in drawn}
    for name in (name for arrow in arrows for name in (arrow.start, arrow.end)):
        if name not in by_id:
            raise ValueError(f"an arrow goes to or from {name!r}, and the boxes are {', '.join(by_id)}")
    across = _Scale([(one.box.at[0], one.width) for one in drawn], _label_room(arrows, by_id))
    down = _Scale([(one.box.at[1], one.height) for one in drawn], {}, gap=GAP[1])
    for one in drawn:
        one.centre = across.at(one.box.at[0]), down.at(one.box.at[1])
    corners = [(across.at(column), down.at(row)) for arrow in arrows for column, row in arrow.via]
    left = min(0.0, *(x for x, _ in corners), 0.0)
    top = min(0.0, *(y for _, y in corners), 0.0)
    right, bottom = max([across.end, *(x for x, _ in corners)]), max([down.end, *(y for _, y in corners)])
    if ax is None:
        figure = plt.figure(figsize=(right - left + 0.2, bottom - top + (0.5 if title else 0.2)))
        ax = figure.add_axes((0.0, 0.0, 1.0, (bottom - top + 0.2) / figure.get_size_inches()[1]))
    for one in drawn:
        one.draw(ax)
    for arrow in arrows:
        way = [by_id[arrow.start].centre, *((across.at(c), down.at(r)) for c, r in arrow.via), by_id[arrow.end].centre]
        way[0] = by_id[arrow.start].edge_towards(way[1], by_id[arrow.end] if len(way) == 2 else None)
        way[-1] = by_id[arrow.end].edge_towards(way[-2], by_id[arrow.start] if len(way) == 2 else None)
        _draw_arrow(ax, way, arrow)
    ax.set(xlim=(left - 0.1, right + 0.1), ylim=(bottom + 0.1, top - 0.1), aspect="equal")
    ax.set_title(title or "", fontsize=FONT_SIZE + 1)
    ax.set_axis_off()
    return ax


def _width(text: str, size: float = FONT_SIZE) -> float:
    """The width of a line of text, in inches."""
    from matplotlib.textpath import TextPath

    plain = text.replace("$", r"\$")  # a token may be a dollar sign
    return float(TextPath((0, 0), plain, size=size).get_extents().width / 72) if text.strip() else 0.0


def _number(value: float, decimals: int) -> str:
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{decimals}f}".replace("-", "−")


class _Scale:
    """The positions of the grid's columns (or rows), in inches: each is as wide as its widest box."""

    def __init__(self, sizes: Sequence[tuple[float, float]], room: dict[float, float], gap: float = GAP[0]) -> None:
        widest: dict[float, float] = {}
        for place, size in sizes:
            widest[place] = max(size, widest.get(place, 0.0))
        whole = sorted(place for place in widest if place == int(place))
        self.centres: dict[float, float] = {}
        self.end = 0.0
        for place in whole:
            before = max(gap, room.get(place, 0.0)) if self.centres else 0.0
            self.centres[place] = self.end + before + widest[place] / 2
            self.end += before + widest[place]

    def at(self, place: float) -> float:
        """Return a place in inches: between the centres of two columns, or one inch per column outside of them."""
        known = sorted(self.centres)
        if place <= known[0]:
            return self.centres[known[0]] + (place - known[0])
        if place >= known[-1]:
            return self.centres[known[-1]] + (place - known[-1])
        low, high = max(p for p in known if p <= place), min(p for p in known if p >= place)
        share = (place - low) / (high - low) if high > low else 0.0
        return self.centres[low] + share * (self.centres[high] - self.centres[low])


def _label_room(arrows: Sequence[Arrow], by_id: "dict[str, _Drawn]") -> dict[float, float]:
    """The width needed before each column, for the labels of the arrows that enter it from the left."""
    room: dict[float, float] = {}
    for arrow in arrows:
        start, end = by_id[arrow.start].box.at, by_id[arrow.end].box.at
        if arrow.label and end[0] > start[0] and not arrow.via:
            needed = max(map(_width, arrow.label.split("\n"))) + 0.3
            room[end[0]] = max(room.get(end[0], 0.0), needed)
    return room


class _Drawn:
    """A box with its size, and its place once that is computed."""

    def __init__(self, box: Box, shapes: bool) -> None:
        self.box = box
        self.centre: Point = (0.0, 0.0)
        self.lines = box.name.split("\n")
        self.numbers = None if shapes or box.value is None else _matrix(box.name, box.value)
        if box.value is not None and shapes:
            sizes = " × ".join(map(str, box.value.shape))
            self.lines += [f"({', '.join(box.axes.split())})", sizes] if box.axes else [sizes]
        widest, high = max(map(_width, self.lines)), LINE * len(self.lines)
        if self.numbers is None:
            self.width, self.height = max(widest + 0.24, 0.36), max(high + 0.16, 0.36)
            return
        rows, columns = self.numbers.shape
        for names, wanted in ((box.rows, rows), (box.columns, columns)):
            if names and len(names) != wanted:
                raise ValueError(f"{box.name} has {wanted} rows or columns to name, got {len(names)} names")
        self.beside = max((_width(shortened(name)) + 0.1 for name in box.rows), default=0.0)
        self.cell = max(CELL[0], *(_width(shortened(name)) + 0.1 for name in box.columns), 0.0), CELL[1]
        self.above = high + (LINE if box.columns else 0.0)
        self.width = max(self.beside + columns * self.cell[0], widest)
        self.height = self.above + rows * self.cell[1]

    def frame(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of what arrows touch: the numbers, not the names beside and above them."""
        (x, y), (width, height) = self.centre, (self.width, self.height)
        left, top = x - width / 2, y - height / 2
        if self.numbers is None:
            return left, top, left + width, top + height
        columns = self.numbers.shape[1]
        spare = (width - self.beside - columns * self.cell[0]) / 2
        left += spare + self.beside
        return left, top + self.above, left + columns * self.cell[0], top + height

    def edge_towards(self, point: Point, other: "_Drawn | None") -> Point:
        """Return the middle of the side that faces a point or another box."""
        left, top, right, bottom = self.frame()
        middle = (left + right) / 2, (top + bottom) / 2
        reach = other.frame() if other else (point[0], point[1], point[0], point[1])
        beside = self.beside if self.numbers is not None else 0.0
        if reach[0] >= right:
            return right + 0.03, middle[1]
        if reach[2] <= left:
            return left - beside - 0.03, middle[1]
        above = self.above if self.numbers is not None else 0.0
        return (middle[0], bottom + 0.03) if point[1] > middle[1] else (middle[0], top - above - 0.03)

    def draw(self, ax: "matplotlib.axes.Axes") -> None:
        from matplotlib.patches import FancyBboxPatch

        box, edge = self.box, ACCENT if self.box.accent else "0.7" if self.box.faint else INK
        ink = GREY if box.faint else "black"
        left, top, right, bottom = self.frame()
        if self.numbers is not None:
            self._draw_numbers(ax, edge)
            return
        step = box.value is None
        style = f"round,pad=0,rounding_size={0.12 if step else 0.01}"
        surface = "white" if box.faint or not step else "#fdebdd" if box.accent else PALE
        size = right - left, bottom - top
        ax.add_patch(
            FancyBboxPatch((left, top), *size, boxstyle=style, facecolor=surface, edgecolor=edge, linewidth=1.3)
        )
        middle, start = (left + right) / 2, (top + bottom - LINE * (len(self.lines) - 1)) / 2
        named = len(box.name.split("\n"))
        for number, line in enumerate(self.lines):
            colour = ink if number < named else GREY
            _text(ax, middle, start + LINE * number, line, colour, bold=not step and number < named)

    def _draw_numbers(self, ax: "matplotlib.axes.Axes", edge: str) -> None:
        from matplotlib.colors import to_rgb
        from matplotlib.patches import Rectangle

        assert self.numbers is not None
        left, top, right, bottom = self.frame()
        for number, line in enumerate(self.lines):
            _text(ax, (left + right) / 2, top - self.above + LINE * (number + 0.4), line, "black", bold=True)
        (width, height), table = self.cell, self.numbers
        finite = table[table.isfinite()]
        largest = max(float(finite.abs().max()) if finite.numel() else 0.0, 1e-12)
        decimals = 0 if (finite == finite.round()).all() else self.box.decimals
        for i, row in enumerate(table.tolist()):
            for j, value in enumerate(row):
                strength = 0.4 * min(abs(value) / largest, 1.0) if abs(value) < float("inf") else 0.0
                colour = [1 - strength * (1 - c) for c in to_rgb(INK if value > 0 else ACCENT)]
                corner = left + j * width, top + i * height
                ax.add_patch(Rectangle(corner, width, height, facecolor=colour, edgecolor="0.75", linewidth=0.6))
                _text(ax, corner[0] + width / 2, corner[1] + height / 2, _number(value, decimals), "black")
        ax.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=edge, linewidth=1.3))
        for i, name in enumerate(self.box.rows):
            _text(ax, left - 0.06, top + (i + 0.5) * height, shortened(name), GREY, align="right")
        for j, name in enumerate(self.box.columns):
            _text(ax, left + (j + 0.5) * width, top - 0.6 * LINE, shortened(name), GREY)


def _matrix(name: str, value: Tensor) -> Tensor:
    """The tensor as a matrix; a vector is one row."""
    if value.ndim > 2 or not 0 < value.numel() <= LARGEST:
        wanted = f"a vector or a matrix of at most {LARGEST} numbers"
        raise ValueError(f"{name} must be {wanted} for its numbers to be shown, got {tuple(value.shape)}")
    matrix: Tensor = torch.atleast_2d(value.detach().to("cpu", torch.float32))
    return matrix


def _text(
    ax: "matplotlib.axes.Axes", x: float, y: float, text: str, colour: str, *, align: str = "center", bold: bool = False
) -> None:
    style: dict[str, Any] = {"ha": align, "va": "center", "color": colour, "fontsize": FONT_SIZE, "parse_math": False}
    ax.text(x, y, text, **style, fontweight="bold" if bold else "normal")


def _draw_arrow(ax: "matplotlib.axes.Axes", way: Sequence[Point], arrow: Arrow) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    colour, head = ACCENT if arrow.accent else GREY, "-" if arrow.dotted else "-|>"
    style: dict[str, Any] = {"color": colour, "linewidth": 1.5, "linestyle": ":" if arrow.dotted else "-"}
    ax.add_patch(
        FancyArrowPatch(path=Path(way), arrowstyle=head, mutation_scale=11, **style, fill=False, capstyle="butt")
    )
    if not arrow.label:
        return
    legs = list(pairwise(way))
    (x0, y0), (x1, y1) = max(legs, key=lambda leg: abs(leg[0][0] - leg[1][0]) + abs(leg[0][1] - leg[1][1]))
    lines = arrow.label.split("\n")
    if abs(x1 - x0) < 0.05:
        for number, line in enumerate(lines):
            _text(ax, x0 + 0.08, (y0 + y1) / 2 + LINE * (number - (len(lines) - 1) / 2), line, colour, align="left")
        return
    lift = 0.12 + abs(y1 - y0) * 0.5 * _width(max(lines, key=len)) / max(abs(x1 - x0), 0.1)
    for number, line in enumerate(lines):
        _text(ax, (x0 + x1) / 2, (y0 + y1) / 2 - lift - LINE * (len(lines) - 1 - number), line, colour)
