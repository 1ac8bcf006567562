"""Pictures: what is drawn is what was given, every error says both numbers, and grey keeps the order of the values."""

import base64
import io
import itertools
from xml.etree import ElementTree

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from attnlib.plot import (
    ACCENT,
    COLOUR_MAP,
    FONT_SIZE,
    GREY,
    INK,
    plot_attention,
    plot_heads,
    plot_links,
    plot_mask,
    plot_reaction,
    show,
    use_style,
    watched,
)

WORDS = ["The", "old", "cat", "sat", "on", "a", "mat", "and", "slept", ".", "$x$", "costs $5", "internationalization"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def weights(*shape: int) -> torch.Tensor:
    return torch.softmax(torch.randn(shape, generator=torch.Generator().manual_seed(2)), -1)


def texts(labels: list[Text]) -> list[str]:
    return [label.get_text() for label in labels]


def inside(*axes: plt.Axes) -> bool:
    """Whether, once drawn, nothing of the Axes is cut off at the figure's edge."""
    axes[0].figure.canvas.draw()
    page = axes[0].figure.bbox.padded(1)
    return all(
        page.x0 <= box.x0 and page.y0 <= box.y0 and box.x1 <= page.x1 and box.y1 <= page.y1
        for box in (ax.get_tightbbox() for ax in axes)
    )


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 7), (12, 12), (2, 31), (41, 41)])
def test_attention_draws_the_weights_with_tokens_on_both_axes(shape: tuple[int, int]) -> None:
    table = weights(*shape)
    queries, keys = [f"query{i}" for i in range(shape[0])], [f"key{j}" for j in range(shape[1])]
    ax = plot_attention(table, queries, keys, title="a title")
    np.testing.assert_allclose(ax.images[0].get_array(), table.numpy(), rtol=0, atol=1e-7)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("keys", "queries", "a title")
    assert texts(ax.get_yticklabels()) == queries
    assert texts(ax.get_xticklabels()) == keys
    assert inside(ax)


def test_values_stand_in_the_cells_of_a_small_matrix_only() -> None:
    table = torch.tensor([[0.0, 0.125, 0.875], [1.0, 0.0, 0.0]])
    assert texts(plot_attention(table).texts) == ["0", "0.12", "0.88", "1.00", "0", "0"]
    assert not plot_attention(table, values=False).texts
    assert not plot_attention(weights(13, 13)).texts
    assert len(plot_attention(weights(13, 2), values=True).texts) == 26


def test_values_are_readable_on_every_colour() -> None:
    ax = plot_attention(torch.linspace(0, 1, 12).reshape(2, 6))
    image = ax.images[0]
    for text, value in zip(ax.texts, torch.linspace(0, 1, 12).tolist(), strict=True):
        ink, paper = (
            _relative_luminance(colour) for colour in (to_rgb(text.get_color()), image.cmap(image.norm(value)))
        )
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5  # the contrast that WCAG asks for


def _relative_luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_grey_keeps_the_order_of_the_values() -> None:
    lightness = [_relative_luminance(colour) for colour in plt.get_cmap(COLOUR_MAP)(np.linspace(0, 1, 33))]
    assert all(dark < light for light, dark in itertools.pairwise(lightness))


def test_nan_is_shown_as_nan() -> None:
    ax = plot_attention(torch.tensor([[0.25, 0.75], [float("nan")] * 2]))
    assert texts(ax.texts) == ["0.25", "0.75", "nan", "nan"]
    assert ax.images[0].get_clim() == (0.0, 0.75)
    assert plot_attention(torch.full((2, 2), float("nan"))).images[0].get_clim() == (0.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_any_dtype_and_a_tensor_with_gradient(dtype: torch.dtype) -> None:
    table = weights(3, 5).to(dtype).requires_grad_()
    for ax in (plot_attention(table), plot_links(table), plot_heads(table[None])[0]):
        assert isinstance(ax, plt.Axes)
    assert table.grad is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: plots of GPU tensors were not tried")
def test_a_tensor_on_the_gpu() -> None:
    table = weights(3, 5).cuda()
    np.testing.assert_allclose(plot_attention(table).images[0].get_array(), table.cpu().numpy(), rtol=0, atol=1e-7)
    assert plot_mask(table > 0.1).images


@pytest.mark.parametrize("origin", [-1, 1])
def test_an_origin_that_is_no_atom_on_the_left_is_refused(origin: int) -> None:
    with pytest.raises(ValueError, match="every origin must be between 0 and 0, an atom on the left, got"):
        plot_reaction([(0, 0), (0, 0)], [], ["C", "O"], [origin], ax=plt.gca())


def test_square_weights_share_their_tokens() -> None:
    assert texts(plot_attention(weights(3, 3), WORDS[:3]).get_xticklabels()) == WORDS[:3]
    assert texts(plot_links(weights(3, 3), WORDS[:3]).texts)[5:] == WORDS[:3]


def test_labels_stay_visible_short_and_literal() -> None:
    ax = plot_attention(weights(3, 3), ["$x$ costs $5", " \n", "internationalization"])
    ax.figure.canvas.draw()  # a dollar sign taken for mathematics would fail here
    assert texts(ax.get_xticklabels()) == ["$x$ costs $5", " \\n", "internatio…ation"]
    assert texts(plot_attention(weights(2, 2), [" ", ""]).get_xticklabels()) == ["␣", "''"]


def test_crowded_axes_name_fewer_tokens() -> None:
    _, ax = plt.subplots(figsize=(2, 2))
    plot_attention(weights(41, 41), [f"t{i}" for i in range(41)], ax=ax)
    assert 5 <= len(texts(ax.get_yticklabels())) <= 21
    assert texts(ax.get_yticklabels())[1] == f"t{round(ax.get_yticks()[1])}"


@pytest.mark.parametrize(("heads", "columns", "rows"), [(1, 1, 1), (3, 3, 1), (8, 4, 2), (7, 4, 2), (13, 4, 4)])
def test_heads_stand_in_a_grid_on_one_scale(heads: int, columns: int, rows: int) -> None:
    table = weights(heads, 5, 7)
    axes = plot_heads(table, WORDS[:5], WORDS[3:10])
    assert axes.shape == (heads,)
    assert axes[0].get_gridspec().get_geometry() == (rows, columns)
    for head, ax in enumerate(axes):
        np.testing.assert_allclose(ax.images[0].get_array(), table[head].numpy(), rtol=0, atol=1e-7)
        assert ax.get_title() == f"head {head}"
        assert ax.images[0].get_clim() == (0.0, table.max().item())
    assert len(axes[0].figure.axes) == heads + 1  # one colour bar, no empty cells
    assert inside(*axes)


def test_heads_on_given_axes_with_given_titles() -> None:
    _, given = plt.subplots(1, 2)
    axes = plot_heads(weights(2, 3, 3), axes=given, titles=["previous token", "first token"])
    assert list(axes) == list(given)
    assert [ax.get_title() for ax in axes] == ["previous token", "first token"]


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 7), (41, 41)])
def test_mask_hatches_what_is_blocked_and_says_so(shape: tuple[int, int]) -> None:
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.4
    ax = plot_mask(mask, title="random")
    np.testing.assert_array_equal(ax.images[0].get_array(), mask.numpy())
    (hatched,) = ax.collections
    assert hatched.get_hatch() == "////"
    centres = {(round(y), round(x)) for x, y in (path.vertices[:4].mean(0) for path in hatched.get_paths())}
    assert centres == {(i, j) for i in range(shape[0]) for j in range(shape[1]) if not mask[i, j]}
    assert texts(ax.get_legend().get_texts()) == ["may attend", "blocked"]
    assert inside(ax)


def test_links_are_as_thick_and_dark_as_their_weights() -> None:
    ax = plot_links(torch.tensor([[0.1, 0.9, 0.0], [0.0, 0.01, 0.99]]), ["ein", "Hund"], ["a", "dog", "barks"])
    lines = ax.collections[0]
    assert len(lines.get_segments()) == 3  # 0.01 is below the threshold
    assert all(np.diff(lines.get_linewidths()) > 0)
    assert all(np.diff(lines.get_colors()[:, 3]) > 0)
    y = {text.get_text(): text.get_position()[1] for text in ax.texts}
    ends = [(start[1], end[1]) for start, end in lines.get_segments()]
    assert ends == [(y["ein"], y["a"]), (y["ein"], y["dog"]), (y["Hund"], y["barks"])]


def test_links_of_one_query_and_without_a_threshold() -> None:
    table = weights(5, 7)
    (lines,) = plot_links(table, query=3, threshold=0.0).collections
    assert len(lines.get_segments()) == 7
    assert len({start[1] for start, _ in lines.get_segments()}) == 1
    assert len(plot_links(torch.zeros(2, 3)).collections[0].get_segments()) == 0


@pytest.mark.parametrize("plot", [plot_attention, plot_links, lambda table, **kw: plot_mask(table > 0.2, **kw)])
def test_draws_on_the_given_axes(plot) -> None:  # type: ignore[no-untyped-def]
    _, ax = plt.subplots()
    assert plot(weights(3, 5), ax=ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("plot", [plot_attention, plot_links, lambda table, *rest: plot_mask(table > 0.2, *rest)])
def test_errors_of_shape_and_tokens(plot) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"must have shape \(q, k\), none of them empty, got \(2, 3, 5\); pick one"):
        plot(weights(2, 3, 5))
    with pytest.raises(ValueError, match=r"must have shape \(q, k\), none of them empty, got \(0, 5\)"):
        plot(weights(0, 5))
    with pytest.raises(ValueError, match="queries must name each of the 3 positions, got 5 tokens"):
        plot(weights(3, 5), WORDS[:5])
    with pytest.raises(ValueError, match="keys must name each of the 5 positions, got 3 tokens"):
        plot(weights(3, 5), None, WORDS[:3])


def test_errors_of_single_functions() -> None:
    with pytest.raises(ValueError, match=r"weights must have shape \(h, q, k\), none of them empty, got \(3, 5\)"):
        plot_heads(weights(3, 5))
    with pytest.raises(ValueError, match="titles must have one entry for each of the 2 heads, got 1"):
        plot_heads(weights(2, 3, 5), titles=["one"])
    with pytest.raises(ValueError, match="axes must have one entry for each of the 2 heads, got 1"):
        plot_heads(weights(2, 3, 5), axes=[plt.subplots()[1]])
    with pytest.raises(TypeError, match=r"mask must be torch.bool, True = may attend, got torch.float32"):
        plot_mask(weights(3, 5))
    with pytest.raises(ValueError, match=r"query must be one of the 3 positions 0 … 2, got 3"):
        plot_links(weights(3, 5), query=3)


def test_all_figures_have_one_style() -> None:
    with plt.rc_context():
        use_style()
        _, ax = plt.subplots()
        first, second = ax.plot([1, 2]) + ax.plot([2, 1])
        assert (first.get_color(), second.get_color()) == (INK, ACCENT)
        assert not ax.spines["top"].get_visible()
        assert ax.xaxis.label.get_size() == FONT_SIZE


def test_a_figure_is_shown_with_its_alt_text(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    plot_attention(weights(3, 3))
    show('three "words" < four')
    (data,) = shown
    assert data["text/plain"] == 'three "words" < four'
    image = ElementTree.fromstring(data["text/html"].replace(">", "/>"))
    assert image.get("alt") == 'three "words" < four'
    file = base64.b64decode(image.get("src", "").removeprefix("data:image/png;base64,"))
    width, height = Image.open(io.BytesIO(file)).size
    half = (str(width // 2), str(height // 2))  # two by two pixels of the image for one of the page
    assert (image.get("width"), image.get("height")) == half
    assert not plt.get_fignums()


@pytest.mark.parametrize(("form", "told_apart"), [({}, False), ({"hatch": "//"}, True), ({"color": INK}, True)])
def test_a_figure_whose_legend_needs_colours_is_not_shown(form: dict[str, str], told_apart: bool) -> None:
    _, ax = plt.subplots()
    ax.bar([0], [1], color=ACCENT, label="yours")
    ax.bar([1], [2], **{"color": GREY, **form}, label="ours")
    ax.legend()
    if told_apart:
        show("two bars")
    else:
        with pytest.raises(ValueError, match="'yours' and 'ours' differ in colour alone"):
            show("two bars")


def test_a_loop_may_look_once_more_at_what_it_has_learned():
    model = torch.nn.Embedding(3, 5)
    with watched(model, torch.tensor([[[1, 4]]])):
        for ids in (torch.tensor([[0, 2]]), torch.tensor([[1, 1]])):
            assert model(ids).shape == (1, 2, 5)
