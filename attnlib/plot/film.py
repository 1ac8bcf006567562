"""Films: one figure, changed from frame to frame, shown as a GIF that a notebook keeps and a page can carry."""

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from attnlib.plot.style import alike_but_for_colour, display_image

Frame = TypeVar("Frame")


def film(draw: Callable[[Frame], object], frames: Iterable[Frame], alt: str, seconds: float = 6.0) -> None:
    """Show the current figure as a film: `draw(frame)` changes it for each frame, and `alt` describes it.

    It lasts for about `seconds`, holds its last picture, and is shown three times. `draw` should move what has been
    drawn once (`line.set_data`, `image.set_data`): that is quick, and only what has changed is stored. The
    layout is that of the first frame. As with `show`, legend entries that differ only in colour raise a ValueError.
    Where there is no notebook, the last frame is shown.
    """
    import matplotlib.pyplot as plt

    figure = plt.gcf()
    made = gif(figure, draw, frames, seconds)
    for one, other in alike_but_for_colour(figure):
        raise ValueError(f"{one!r} and {other!r} differ in colour alone: use another line, marker, width or hatch")
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        plt.show()
        return
    display_image(made, alt)
    plt.close(figure)


def gif(figure: Any, draw: Callable[[Frame], object], frames: Iterable[Frame], seconds: float = 6.0) -> bytes:
    """The frames as a GIF of 64 colours, the same bytes for the same pictures.

    >>> import matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots(figsize=(2, 1))
    >>> (dot,) = ax.plot([0], [0], "o")
    >>> gif(figure, lambda x: dot.set_data([x], [0]), [0.0, 0.02, 0.04])[:6]
    b'GIF89a'
    >>> plt.close(figure)
    """
    from PIL import Image

    pictures = []
    for frame in frames:
        draw(frame)
        figure.canvas.draw()
        figure.set_layout_engine("none")  # nothing jumps, and a frame takes half the time
        size, drawn = figure.canvas.get_width_height(physical=True), bytes(figure.canvas.buffer_rgba())
        pictures.append(Image.frombytes("RGBA", size, drawn).convert("RGB"))
    if len(pictures) < 2:
        raise ValueError(f"a film needs at least 2 frames, got {len(pictures)}")
    width, height = pictures[0].size
    sheet = Image.new("RGB", (width, 3 * height))  # the colours of the start, the middle and the end
    for row, picture in enumerate((pictures[0], pictures[len(pictures) // 2], pictures[-1])):
        sheet.paste(picture, (0, row * height))
    found = sheet.quantize(63, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette() or []
    inks = [tuple(found[i : i + 3]) for i in range(0, 3 * 63, 3) if min(found[i : i + 3], default=255) < 245]
    palette = Image.new("P", (1, 1))
    palette.putpalette([255, 255, 255, *(part for ink in inks for part in ink)])  # no white but that of the paper
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    pause = round(1000 * seconds / len(pictures))
    file = io.BytesIO()
    pauses = [pause] * len(others) + [2500]
    first.save(file, "GIF", save_all=True, append_images=others, duration=pauses, loop=3, optimize=False)
    return file.getvalue()


def still(film: bytes) -> bytes:
    """Return the last frame of a GIF as a PNG: for print, and for readers who want nothing to move."""
    from PIL import Image

    file = io.BytesIO()
    with Image.open(io.BytesIO(film)) as image:
        image.seek(image.n_frames - 1)  # type: ignore[attr-defined]
        image.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, "PNG", optimize=True
        )
    return file.getvalue()
