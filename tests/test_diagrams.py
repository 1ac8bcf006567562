"""Diagrams: what is in the boxes is computed from the tensors given, arrows end at boxes, and nothing overlaps."""

import itertools
import math
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from attnlib.plot import (
    Arrow,
    Box,
    hover_links,
    plot_block,
    plot_boxes,
    plot_course_map,
    plot_encoder_decoder,
    plot_flow,
)

QUERY = torch.tensor([2.0, 2.0, 0.0, 0.0])
KEYS = torch.tensor([[2.0, 2.0, 0.0, 0.0], [2.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
VALUES = torch.tensor([[4.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
WORDS = ["animal", "street", "cross"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def texts(ax: plt.Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("token", ["$$", "$_$"])
def test_a_box_is_as_wide_as_its_dollar_signs(token: str) -> None:
    assert texts(plot_boxes([Box(name=token, at=(0, 0))], [])) == [token]


def flow() -> plt.Axes:
    return plot_flow(QUERY, KEYS, VALUES, asks=["it"], answers=WORDS, gives=["legs", "lanes"], title="a finding")


def flow_of_shapes() -> plt.Axes:
    return plot_flow(torch.ones(2, 3, 5, 7), torch.ones(2, 3, 11, 7), torch.ones(2, 3, 11, 13), shapes=True)


def encoder_decoder() -> plt.Axes:
    return plot_encoder_decoder(*(torch.zeros(2, n, d) for n, d in ((29, 32), (29, 64), (11, 64), (11, 64))))


def block() -> plt.Axes:
    return plot_block(torch.tensor([0.0, 1.0]), torch.tensor([3.08, 0.0]), torch.tensor([0.25, -0.5]))


def post_ln() -> plt.Axes:
    return plot_block(*torch.zeros(3, 2, 5, 12), shapes=True, norm_first=False)


def course() -> plt.Axes:
    return plot_course_map(3)


EVERY = [flow, flow_of_shapes, encoder_decoder, block, post_ln, course]


@pytest.mark.parametrize("draw", EVERY)
def test_no_text_covers_another_or_leaves_the_page(draw: Callable[[], plt.Axes]) -> None:
    ax = draw()
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    page = ax.figure.bbox
    assert all(box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1 for box in boxes)
    assert all(box.y0 >= page.y0 - 1 and box.y1 <= page.y1 + 1 for box in boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert not one.padded(-1.5).overlaps(other.padded(-1.5))


@pytest.mark.parametrize("draw", EVERY)
def test_no_arrow_crosses_a_text(draw: Callable[[], plt.Axes]) -> None:
    ax = draw()
    ax.figure.canvas.draw()
    paths = [a.get_path() for a in ax.patches if isinstance(a, FancyArrowPatch)]
    drawn = [path.codes != Path.CLOSEPOLY for path in paths]  # its vertex means nothing
    lines = [
        Path(p.vertices[kept], p.codes[kept]).transformed(ax.transData) for p, kept in zip(paths, drawn, strict=True)
    ]
    assert lines
    for line, text in itertools.product(lines, ax.texts):
        assert not line.intersects_bbox(text.get_window_extent().padded(-2), filled=False), text.get_text()


def test_the_flow_computes_its_numbers() -> None:
    shown = texts(flow())
    scores = torch.tensor([8.0, 4.0, 0.0]) / math.sqrt(4)
    weights = torch.softmax(scores, -1)
    assert [f"{w:.3f}" for w in weights.tolist()] == ["0.867", "0.117", "0.016"]
    expected = ["4", "2", "0", "0.867", "0.117", "0.016", "3.47", "0.23"]
    numbers = [text for text in shown if text.replace(".", "").isdigit()]
    assert numbers[-8:] == expected
    assert shown.count("animal") == 4  # beside keys and values, above scores and weights


def test_the_flow_names_the_axes_of_its_shapes() -> None:
    shown = texts(flow_of_shapes())
    assert shown[shown.index("scores") + 1 : shown.index("scores") + 3] == ["(b, h, q, k)", "2 × 3 × 5 × 11"]
    assert "(b, h, k, d_v)" in shown
    assert "(k, d_k)" in texts(plot_flow(QUERY, KEYS, VALUES, shapes=True))


def test_three_axes_begin_with_the_batch_and_any_dtype_will_do() -> None:
    whole = torch.ones(2, 5, 4, dtype=torch.int64)
    shown = texts(plot_flow(whole, whole, whole, shapes=True))
    assert {"(b, q, d_k)", "(b, k, d_k)", "(b, q, k)", "(b, q, d_v)"} <= set(shown)


def test_the_memory_has_an_arrow_of_its_own() -> None:
    shown = texts(encoder_decoder())
    assert "keys and values" in shown
    assert shown[shown.index("memory") + 2] == "2 × 29 × 64"


def test_the_block_adds() -> None:
    shown = texts(block())
    assert shown[shown.index("the sum") + 1 :][:2] == ["3.08", "1.00"]
    assert shown[shown.index("the new x") + 1 :][:2] == ["3.33", "0.50"]
    assert shown.index("norm1") < shown.index("attention") < shown.index("norm2") < shown.index("MLP")
    after = texts(post_ln())
    assert after.index("attention") < after.index("norm1") < after.index("MLP") < after.index("norm2")


def test_the_block_is_as_narrow_as_a_phone() -> None:
    """A wider drawing is shrunk there, and its type with it: 358 pixels, 96 an inch."""
    ax = plot_block(*torch.rand(3, 4), columns=["legs", "lanes", "it", "animal"])
    assert 0.9 * ax.figure.get_size_inches()[0] < 358 / 96


def test_the_map_has_all_lessons() -> None:
    assert [text for text in texts(course()) if text.isdigit()] == [f"{n:02}" for n in range(13)]


def test_any_tensor_and_any_axes() -> None:
    _, ax = plt.subplots()
    value = torch.tensor([[float("-inf"), float("nan")], [-1.5, 2.0]], dtype=torch.bfloat16, requires_grad=True)
    assert plot_boxes([Box(name="scores", at=(0, 0), value=value)], [], ax=ax) is ax
    assert texts(ax) == ["scores", "−∞", "nan", "−1.50", "2.00"]


def test_errors_name_what_was_given() -> None:
    with pytest.raises(ValueError, match=r"big must be a vector or a matrix of at most 64 numbers .* got \(9, 9\)"):
        plot_boxes([Box(name="big", at=(0, 0), value=torch.zeros(9, 9))], [])
    with pytest.raises(ValueError, match="an arrow goes to or from 'c', and the boxes are a, b"):
        plot_boxes([Box(name="a", at=(0, 0)), Box(name="b", at=(1, 0))], [Arrow(start="a", end="c")])
    with pytest.raises(ValueError, match="keys has 3 rows or columns to name, got 2 names"):
        plot_flow(QUERY, KEYS, VALUES, answers=WORDS[:2])


def test_hover_shows_each_query_alone_and_needs_no_script() -> None:
    weights = torch.tensor([[0.75, 0.25, 0.0], [0.0, 0.01, 0.99]])
    drawn = hover_links(weights, ["a<b", "it's"], WORDS, title="x & y")
    page = ElementTree.fromstring(f"<div>{drawn.html}</div>")
    groups = [g for g in page.iter("{http://www.w3.org/2000/svg}g") if g.get("tabindex") == "0"]
    assert [g.get("aria-label") for g in groups] == ["a<b at animal (0.75)", "it's at cross (0.99)"]
    bars = [list(g.iter("{http://www.w3.org/1999/xhtml}span")) for g in groups]  # one for each word, empty or not
    assert {len(each) for each in bars} == {len(WORDS)}
    told = [[span.get("data-w") for span in each if span.get("data-w")] for each in bars]
    assert told == [["0.75", "0.25"], ["0.99"]]  # 0.01 is below the threshold
    assert "script" not in drawn.html
    assert ":hover" in drawn.html
    assert ":focus" in drawn.html


def test_hover_leaves_a_picture_where_only_the_image_is_kept() -> None:
    drawn = hover_links(torch.eye(3), WORDS)
    data, metadata = drawn._repr_mimebundle_()
    assert set(data) == {"text/html", "image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == drawn.alt  # type: ignore[index]
    page = ElementTree.fromstring(f"<div>{drawn.html}</div>")
    (image,) = page.iter("img")
    assert image.get("alt") == drawn.alt
    for svg in list(page.iter("{http://www.w3.org/2000/svg}svg")):
        assert not "".join(svg.itertext()).strip()  # no word is left over where a sanitiser drops the drawing
    assert not plt.get_fignums()


def test_two_drawings_on_a_page_do_not_share_their_rules() -> None:
    one, other = hover_links(torch.eye(3), WORDS), hover_links(torch.eye(3), WORDS, query=1)
    assert one.html != other.html
    assert one.html.split("id='")[1][:13] != other.html.split("id='")[1][:13]
    assert one.html == hover_links(torch.eye(3), WORDS).html
