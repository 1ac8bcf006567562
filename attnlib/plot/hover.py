"""Interactive attention lines: point at a word, or move to it with the Tab key, and only its lines are left.

Inline SVG and CSS, without a script, because notebooks run scripts only where they trust them. The words are in an
image, which is all that is left where the rest is taken out (a notebook on GitHub); what reacts lies on top of it.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from torch import Tensor

from attnlib.plot.inputs import shortened, table_of, tokens_of
from attnlib.plot.links import plot_links
from attnlib.plot.style import ACCENT, GREY, INK, png, shown_at

ROW, TOP, LETTER, GAP, LINES, BAR = 24, 34, 8.2, 8, 150, 48
"""Pixels: a word's height, the headings, a letter's width, the air around words, the lines, the longest bar."""
FONT = "font-family='DejaVu Sans, Verdana, sans-serif' font-size='13'"


@dataclass(frozen=True)
class HoverLinks:
    """The result of `hover_links`: a notebook shows it as HTML where it can, and as a plain image elsewhere."""

    html: str
    image: bytes = field(repr=False)
    alt: str

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, object], dict[str, object]]:
        data: dict[str, object] = {
            "text/html": self.html,
            "image/png": base64.b64encode(self.image).decode(),
            "text/plain": self.alt,
        }
        return data, {"image/png": {"alt": self.alt, **shown_at(self.image)}}


def hover_links(
    weights: Tensor,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    query: int | None = None,
    threshold: float = 0.02,
    title: str = "",
    alt: str = "",
) -> HoverLinks:
    """Attention weights (q, k) as lines; pointing at a query leaves only its own lines, with their numbers.

    At first the lines of `query` are drawn, or those of all queries. `alt` is for readers who cannot see the picture;
    by default it says where each word looks most.

    >>> import torch
    >>> drawn = hover_links(torch.tensor([[0.75, 0.25], [0.0, 1.0]]), ["ein", "Hund"], ["a", "dog"])
    >>> drawn.alt
    'Who looks at whom: ein at a (0.75), Hund at dog (1.00).'
    """
    import matplotlib.pyplot as plt

    table = table_of(weights, "weights", "(q, k)", 2).nan_to_num()
    asks, answers = tokens_of(queries, keys, *table.shape)
    rows = [shortened(token) for token in asks] if asks else [str(i) for i in range(table.shape[0])]
    columns = [shortened(token) for token in answers] if answers else [str(j) for j in range(table.shape[1])]
    ax = plot_links(weights, queries, keys, query=query, threshold=threshold, title=title or None)
    image = png(ax.figure)
    plt.close(ax.figure)  # type: ignore[arg-type]
    layout = _Layout(table, rows, columns, threshold)
    alt = alt or f"Who looks at whom: {', '.join(_strongest(layout, i) for i in range(len(rows)))}."
    return HoverLinks(_page(layout, query, title, alt), image, alt)


@dataclass(frozen=True)
class _Layout:
    """The table, its words, and where they are in pixels."""

    table: Tensor
    rows: list[str]
    columns: list[str]
    threshold: float

    @property
    def left(self) -> float:
        """The position where the words of the queries end and the lines begin."""
        return _width(["queries", *self.rows])

    @property
    def right(self) -> float:
        """The position where the lines end and the words of the keys begin."""
        return self.left + LINES

    @property
    def bars(self) -> float:
        """The position where the bars with the weights begin."""
        return self.right + _width(["keys", *self.columns])

    @property
    def size(self) -> tuple[int, int]:
        return round(self.bars + BAR + GAP), TOP + ROW * max(len(self.rows), len(self.columns)) + 6

    def heights(self, words: list[str]) -> list[float]:
        step = self.step(words)
        return [TOP + step * (i + 0.5) for i in range(len(words))]

    def step(self, words: list[str]) -> float:
        """The height of one word in a column of this many."""
        return (self.size[1] - TOP - 6) / len(words)

    def shown(self, i: int) -> list[float | None]:
        """Return the weights of a query, None for those too small to get a line."""
        return [weight if weight >= max(self.threshold, 1e-12) else None for weight in self.table[i].tolist()]

    def lines(self, i: int) -> str:
        start, pairs = self.heights(self.rows)[i], zip(self.shown(i), self.heights(self.columns), strict=True)
        return "".join(
            f"<path d='M{self.left:.0f} {start:.0f}L{self.right:.0f} {y:.0f}' "
            f"stroke-width='{0.5 + 5.5 * min(weight, 1):.1f}' opacity='{min(0.12 + 0.88 * weight, 1):.2f}'/>"
            for weight, y in pairs
            if weight is not None
        )

    def numbers(self, i: int) -> str:
        """Return bars with numbers in attributes, so that no text is left over if a page drops the drawing."""
        bar = "<span data-w='{0:.2f}' style='--w:{0:.2f}'></span>"
        return "".join("<span></span>" if weight is None else bar.format(weight) for weight in self.shown(i))

    def words(self, x: float, words: list[str], anchor: str, heading: str) -> str:
        return f"<text x='{x:.0f}' y='16' text-anchor='{anchor}' fill='{GREY}'>{heading}</text>" + "".join(
            f"<text x='{x:.0f}' y='{y + 4:.0f}' text-anchor='{anchor}'>{escape(word)}</text>"
            for word, y in zip(words, self.heights(words), strict=True)
        )


def _width(words: list[str]) -> float:
    return LETTER * max(map(len, words)) + 2 * GAP


def _strongest(layout: _Layout, i: int) -> str:
    key = int(layout.table[i].argmax())
    return f"{layout.rows[i]} at {layout.columns[key]} ({layout.table[i, key]:.2f})"


def _still(layout: _Layout, query: int | None) -> str:
    """Return the drawing before anything is pointed at, with all words."""
    width, height = layout.size
    shown = "".join(layout.lines(i) for i in (range(len(layout.rows)) if query is None else [query]))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' {FONT}>"
        f"<rect width='100%' height='100%' fill='white'/><g stroke='{INK}'>{shown}</g>"
        f"{layout.words(layout.left - GAP, layout.rows, 'end', 'queries')}"
        f"{layout.words(layout.right + GAP, layout.columns, 'start', 'keys')}</svg>"
    )


def _live(layout: _Layout) -> str:
    """Return a field for each query that reacts, and what it then shows: a white sheet with the query's own lines."""
    left, height, step = layout.left, layout.size[1], layout.step(layout.rows)
    sheet = f"<path class='sheet' d='M{left - 3:.0f} {TOP - 8}h{LINES + 6}V{height}h-{LINES + 6}z'/>"
    column = f"x='{layout.bars:.0f}' y='{TOP}' width='{BAR}' height='{height - TOP}'"
    return "".join(
        f"<g tabindex='0' role='img' aria-label='{escape(_strongest(layout, i), quote=True)}'>"
        f"<rect class='hit' y='{y - step / 2:.0f}' width='{left:.0f}' height='{step:.0f}'/>"
        f"<g class='own'>{sheet}{layout.lines(i)}<foreignObject {column}>"
        f"<div xmlns='http://www.w3.org/1999/xhtml'>{layout.numbers(i)}</div></foreignObject></g></g>"
        for i, y in enumerate(layout.heights(layout.rows))
    )


def _rules(name: str, step: float) -> str:
    return (
        f"#{name} .own{{opacity:0;pointer-events:none;stroke:{ACCENT}}}"
        f"#{name} .hit{{fill:transparent;cursor:pointer}}#{name} .sheet{{fill:white;stroke:none}}"
        f"#{name} g:hover>.own,#{name} g:focus>.own{{opacity:1}}#{name} g{{outline:none}}"
        f"#{name} g:hover>.hit,#{name} g:focus>.hit{{fill:{ACCENT};fill-opacity:.18}}"
        f"#{name} svg:has(g:hover) g:focus:not(:hover)>*{{opacity:0}}"
        f"#{name} g:focus-visible>.hit{{stroke:{ACCENT};stroke-width:2}}"
        f"#{name} span{{display:block;height:{step:.4g}px;font:12px/{step:.4g}px DejaVu Sans,Verdana,sans-serif;"
        f"color:black;background:linear-gradient({ACCENT}4d,{ACCENT}4d) 0/calc(var(--w,0)*100%) 16px no-repeat}}"
        f"#{name} span::after{{content:attr(data-w)}}"
    )


def _page(layout: _Layout, query: int | None, title: str, alt: str) -> str:
    still, live = _still(layout, query), _live(layout)
    name = "links" + hashlib.sha256((still + live).encode()).hexdigest()[:8]
    source = base64.b64encode(still.encode()).decode()
    width, height = layout.size
    heading = f"<div style='font-weight:bold'>{escape(title)}</div>" if title else ""
    return (
        f"{heading}<div id='{name}' style='position:relative;max-width:{width}px'>"
        f"<style>{_rules(name, layout.step(layout.columns))}</style>"
        f"<img src='data:image/svg+xml;base64,{source}' width='{width}' height='{height}' "
        f"alt='{escape(alt, quote=True)}' style='display:block;width:100%;height:auto'/>"
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
        f"style='position:absolute;left:0;top:0;width:100%;height:100%'>{live}</svg></div>"
    )
