"""One style for every figure of the course: a palette, a font size, and `show`, which gives a figure its alt text."""

import base64
import io
import sys
from html import escape
from itertools import combinations
from typing import Any

INK = "#08306b"  # navy: what is looked at; the dark end of the colour map
ACCENT = "#d55e00"  # orange: the one thing to notice
GREY = "#6b6b6b"  # what is there for comparison
PALE = "#deebf7"  # navy, as a surface
COLOUR_MAP = "Blues"  # from nothing to much: one scale of lightness, which colour blindness and a printer leave intact
DIVERGING = "PuOr"  # from negative (orange) over zero (white) to positive
FONT_SIZE = 10


def use_style() -> None:
    """Give all figures from here on the course's palette and font size; a lesson calls it once, in its first cell.

    >>> use_style()
    >>> import matplotlib as mpl
    >>> mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    ['#08306b', '#d55e00', '#6b6b6b']
    """
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(
        {
            "font.size": FONT_SIZE,
            "axes.titlesize": FONT_SIZE + 1,
            "axes.labelsize": FONT_SIZE,
            "legend.fontsize": FONT_SIZE - 1,
            "xtick.labelsize": FONT_SIZE - 1,
            "ytick.labelsize": FONT_SIZE - 1,
            "axes.prop_cycle": cycler(color=[INK, ACCENT, GREY]),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "image.cmap": COLOUR_MAP,
            "legend.frameon": False,
            "lines.linewidth": 2,
        }
    )


def show(alt: str) -> None:
    """Show the current figure, with `alt` for those who cannot see it; use it instead of `plt.show()`.

    Two legend entries that differ only in colour raise a ValueError: a reader who is colour-blind, or prints in
    grey, cannot tell them apart.
    """
    import matplotlib.pyplot as plt

    for one, other in alike_but_for_colour(plt.gcf()):
        raise ValueError(f"{one!r} and {other!r} differ in colour alone: use another line, marker, width or hatch")

    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        plt.show()
        return
    figure = plt.gcf()
    display_image(png(figure), alt)
    plt.close(figure)


def display_image(image: bytes, alt: str) -> None:
    """Show a PNG or a GIF in a notebook as an `<img>` with `alt`: JupyterLab shows `image/png` without its text."""
    from IPython.display import display
    from PIL import Image

    with Image.open(io.BytesIO(image)) as opened:
        kind, size = str(opened.format).lower(), opened.size
    width, height = shown_at(image).values() if kind == "png" else size
    source = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
    element = f'<img src="{source}" alt="{escape(alt)}" width="{width}" height="{height}">'
    display({"text/html": element, "text/plain": alt}, raw=True)


def alike_but_for_colour(figure: Any) -> list[tuple[str, str]]:
    """The pairs of labels in a legend whose entries have the same form, and colours with a contrast below 3:1.

    From 3:1 on, colours can be told apart without their hue (WCAG 2.2, technique G183).

    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> for label, colour, line in [("loss", ACCENT, "-"), ("score", GREY, "-"), ("chance", GREY, ":")]:
    ...     _ = ax.plot([0, 1], color=colour, linestyle=line, label=label)
    >>> _ = ax.legend()
    >>> alike_but_for_colour(figure)
    [('loss', 'score')]
    >>> plt.close(figure)
    """
    legends = [*figure.legends, *(ax.legend_ for ax in figure.axes if ax.legend_ is not None)]
    found = []
    for legend in legends:
        entries = zip(legend.get_texts(), legend.legend_handles, strict=True)
        for (text, handle), (other_text, other) in combinations(entries, 2):
            lighter, darker = sorted((_luminance(handle), _luminance(other)), reverse=True)
            if _form(handle) == _form(other) and (lighter + 0.05) / (darker + 0.05) < 3:
                found.append((text.get_text(), other_text.get_text()))
    return found


_FORM = ("linestyle", "marker", "linewidth", "markersize", "hatch", "sizes")


def _form(handle: Any) -> tuple[str, ...]:
    """Return the look of a legend entry, except for its colour."""
    asked = (getattr(handle, f"get_{name}", lambda: None)() for name in _FORM)
    return (type(handle).__name__, *map(str, asked))


def _luminance(handle: Any) -> float:
    """The lightness of the colour, from 0 for black to 1 for white, on white paper (WCAG 2.2, relative luminance)."""
    from matplotlib.colors import to_rgba_array

    colour = handle.get_color() if hasattr(handle, "get_color") else handle.get_facecolor()
    *rgb, alpha = to_rgba_array(colour, handle.get_alpha())[0]
    seen = [alpha * part + 1 - alpha for part in rgb]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in seen]
    return sum(weight * float(part) for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def png(figure: Any) -> bytes:
    """The figure as a notebook shows it: twice the pixels of an old screen, on white, in as few colours as it has."""
    from PIL import Image

    drawn, file = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", bbox_inches="tight", dpi=2 * figure.dpi)
    Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        file, "PNG", optimize=True
    )
    return file.getvalue()


def shown_at(image: bytes) -> dict[str, int]:
    """The width and the height at which a notebook shows a `png`, in its pixels: each is two by two of the image's."""
    from PIL import Image

    width, height = Image.open(io.BytesIO(image)).size
    return {"width": width // 2, "height": height // 2}
