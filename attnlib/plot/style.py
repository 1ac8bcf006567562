"""One style for every figure of the course: a palette, a font size, and `show`, which gives a figure its alt text."""

import io
import sys

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
    """Show the current figure, with `alt` for those who cannot see it; in place of `plt.show()`.

    The text is where notebooks look for it: beside the image, and as the output's plain text.
    """
    import matplotlib.pyplot as plt

    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        plt.show()
        return
    from IPython.display import display

    figure = plt.gcf()
    display({"image/png": png(figure), "text/plain": alt}, raw=True, metadata={"image/png": {"alt": alt}})
    plt.close(figure)


def png(figure: object) -> bytes:
    """The figure as a notebook shows it."""
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight", metadata={"Software": None})  # type: ignore[attr-defined]
    return file.getvalue()
