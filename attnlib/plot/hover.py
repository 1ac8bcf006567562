"""Who looks at whom, to be touched: point at a word, or walk to it with the tab key, and only its lines are left.

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

ROW, TOP, SIDE, MIDDLE = (
    24,
    34,
    150,
    190,
)  # pixels: a word's height, the headings, the words beside the lines, the lines
FONT = "font-family='DejaVu Sans, Verdana, sans-serif' font-size='13'"


@dataclass(frozen=True)
class HoverLinks:
    """What `hover_links` returns: a notebook shows it as HTML where it can, and as a plain image elsewhere."""

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

    At first the lines of `query` are drawn, or of all. `alt` is for those who cannot see it, and says by default where
    each word looks most.

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
    return HoverLinks(_page(_still(layout, query), _live(layout), layout.size, title, alt), image, alt)


@dataclass(frozen=True)
class _Layout:
    """The table, its words, and where they are in pixels."""

    table: Tensor
    rows: list[str]
    columns: list[str]
    threshold: float

    @property
    def size(self) -> tuple[int, int]:
        return 2 * SIDE + MIDDLE, TOP + ROW * max(len(self.rows), len(self.columns)) + 6

    def heights(self, words: list[str]) -> list[float]:
        tall = self.size[1] - TOP - 6
        return [TOP + tall * (i + 0.5) / len(words) for i in range(len(words))]

    def strong(self, i: int) -> list[tuple[float, float]]:
        """The weights of a query that are drawn, each with the height of its key."""
        pairs = zip(self.table[i].tolist(), self.heights(self.columns), strict=True)
        return [(weight, y) for weight, y in pairs if weight >= max(self.threshold, 1e-12)]

    def lines(self, i: int, colour: str) -> str:
        start = f"x1='{SIDE}' y1='{self.heights(self.rows)[i]:.0f}' x2='{SIDE + MIDDLE}'"
        return "".join(
            f"<line {start} y2='{y:.0f}' stroke='{colour}' stroke-width='{0.5 + 5.5 * min(weight, 1):.1f}' "
            f"stroke-opacity='{min(0.12 + 0.88 * weight, 1):.2f}'/>"
            for weight, y in self.strong(i)
        )

    def numbers(self, i: int) -> str:
        """Bars with numbers, which are attributes: no text is left over where a page drops the drawing."""
        x, faint = self.size[0] - 52, f"fill='{ACCENT}' opacity='0.3'"
        return "".join(
            f"<rect x='{x}' y='{y - 8:.0f}' width='{44 * min(weight, 1):.1f}' height='16' {faint}/>"
            f"<foreignObject x='{x}' y='{y - 9:.0f}' width='50' height='18'>"
            f"<span xmlns='http://www.w3.org/1999/xhtml' data-w='{weight:.2f}'></span></foreignObject>"
            for weight, y in self.strong(i)
        )

    def words(self, x: int, words: list[str], anchor: str, heading: str) -> str:
        return f"<text x='{x}' y='16' text-anchor='{anchor}' fill='{GREY}'>{heading}</text>" + "".join(
            f"<text x='{x}' y='{y + 4:.0f}' text-anchor='{anchor}'>{escape(word)}</text>"
            for word, y in zip(words, self.heights(words), strict=True)
        )


def _strongest(layout: _Layout, i: int) -> str:
    key = int(layout.table[i].argmax())
    return f"{layout.rows[i]} at {layout.columns[key]} ({layout.table[i, key]:.2f})"


def _still(layout: _Layout, query: int | None) -> str:
    """The drawing before anything is pointed at, with all words."""
    width, height = layout.size
    shown = "".join(layout.lines(i, INK) for i in (range(len(layout.rows)) if query is None else [query]))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' {FONT}>"
        f"<rect width='100%' height='100%' fill='white'/>{shown}"
        f"{layout.words(SIDE - 8, layout.rows, 'end', 'queries')}"
        f"{layout.words(SIDE + MIDDLE + 8, layout.columns, 'start', 'keys')}</svg>"
    )


def _live(layout: _Layout) -> str:
    """For each query a field that reacts, and what it shows then: a white sheet with its own lines."""
    height, step = layout.size[1], (layout.size[1] - TOP - 6) / len(layout.rows)
    return "".join(
        f"<g tabindex='0' role='img' aria-label='{escape(_strongest(layout, i), quote=True)}'>"
        f"<rect class='hit' x='0' y='{y - step / 2:.0f}' width='{SIDE}' height='{step:.0f}'/>"
        f"<g class='own'><rect x='{SIDE - 3}' y='{TOP - 8}' width='{MIDDLE + 6}' height='{height - TOP + 8}' "
        f"fill='white'/>"
        f"{layout.lines(i, ACCENT)}{layout.numbers(i)}</g></g>"
        for i, y in enumerate(layout.heights(layout.rows))
    )


def _rules(name: str) -> str:
    return (
        f"#{name} .own{{opacity:0;pointer-events:none}}#{name} .hit{{fill:transparent;cursor:pointer}}"
        f"#{name} g:hover>.own,#{name} g:focus>.own{{opacity:1}}#{name} g{{outline:none}}"
        f"#{name} g:hover>.hit,#{name} g:focus>.hit{{fill:{ACCENT};fill-opacity:.18}}"
        f"#{name} svg:has(g:hover) g:focus:not(:hover)>*{{opacity:0}}"
        f"#{name} g:focus-visible>.hit{{stroke:{ACCENT};stroke-width:2}}"
        f"#{name} span::after{{content:attr(data-w);font:12px/18px DejaVu Sans,Verdana,sans-serif;color:black}}"
    )


def _page(still: str, live: str, size: tuple[int, int], title: str, alt: str) -> str:
    name = "links" + hashlib.sha256((still + live).encode()).hexdigest()[:8]
    source = base64.b64encode(still.encode()).decode()
    box, place = f"width='{size[0]}' height='{size[1]}'", "position:absolute;left:0;top:0;max-width:none"
    heading = f"<div style='font-weight:bold'>{escape(title)}</div>" if title else ""
    return (
        f"{heading}<div id='{name}' style='position:relative;width:{size[0]}px;height:{size[1]}px'>"
        f"<style>{_rules(name)}</style>"
        f"<img src='data:image/svg+xml;base64,{source}' {box} alt='{escape(alt, quote=True)}' style='{place}'/>"
        f"<svg xmlns='http://www.w3.org/2000/svg' {box} style='{place}'>{live}</svg></div>"
    )
