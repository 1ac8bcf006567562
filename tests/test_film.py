"""Films: every frame is there, the last one stays, and the same pictures are the same bytes."""

import base64
import io
import sys
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from attnlib.plot import ACCENT, GREY, film
from attnlib.plot.film import gif, still


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def a_dot() -> tuple[plt.Figure, object]:
    """A figure, and what moves its dot to x."""
    figure, ax = plt.subplots(figsize=(3, 2), layout="constrained")
    ax.set(xlim=(-1, 11), ylim=(-1, 1))
    (dot,) = ax.plot([0], [0], "o", color=ACCENT)
    return figure, lambda x: dot.set_data([x], [0])


def test_each_frame_is_there_and_the_last_one_stays():
    figure, move = a_dot()
    with Image.open(io.BytesIO(gif(figure, move, range(11), seconds=1.1))) as found:
        assert found.n_frames == 11
        pauses, places = [], []
        for number in range(11):
            found.seek(number)
            pauses.append(found.info["duration"])
            picture = np.asarray(found.convert("RGB")).astype(int)
            orange = np.abs(picture - (213, 94, 0)).sum(axis=-1) < 90
            places.append(orange.nonzero()[1].mean())
    assert pauses == [100] * 10 + [2500]
    steps = np.diff(places)
    assert (np.abs(steps - steps.mean()) < 1).all()  # it moves evenly, to the right, and the axes do not
    assert steps.mean() > 10


def test_the_same_pictures_are_the_same_bytes():
    one, other = (gif(*a_dot(), range(4)) for _ in range(2))
    assert one == other


def test_the_still_is_the_last_frame():
    figure, move = a_dot()
    made = gif(figure, move, [2, 5, 8])
    figure.canvas.draw()
    with Image.open(io.BytesIO(still(made))) as found:
        assert found.format == "PNG"
        drawn = np.asarray(figure.canvas.buffer_rgba())[..., :3].astype(int)
        assert np.abs(np.asarray(found.convert("RGB")).astype(int) - drawn).mean() < 1


def test_one_frame_is_no_film():
    with pytest.raises(ValueError, match="a film needs at least 2 frames, got 1"):
        gif(*a_dot(), [1])


def test_a_notebook_gets_the_gif_and_its_alt_text(monkeypatch):
    shown = []
    display = SimpleNamespace(display=lambda data, raw: shown.append(data))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: "a shell"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    _, move = a_dot()
    film(move, range(3), "a dot moves to the right")
    (data,) = shown
    assert data["text/plain"] == "a dot moves to the right"
    image = ElementTree.fromstring(data["text/html"].replace(">", "/>"))
    assert image.get("alt") == "a dot moves to the right"
    assert base64.b64decode(image.get("src").removeprefix("data:image/gif;base64,")).startswith(b"GIF89a")
    assert plt.get_fignums() == []


def test_two_curves_that_differ_in_colour_alone_are_refused():
    _, ax = plt.subplots()
    lines = [ax.plot([0, 1], color=colour, label=name)[0] for name, colour in (("one", ACCENT), ("two", GREY))]
    ax.legend()
    with pytest.raises(ValueError, match="'one' and 'two' differ in colour alone"):
        film(lambda y: lines[0].set_ydata([0, y]), [1, 2], "lines")
