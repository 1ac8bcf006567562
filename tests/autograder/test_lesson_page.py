"""A lesson's page: figures as images, how long it takes, and where its notebook opens."""

from urllib.parse import parse_qs, urlsplit

import IPython.display
import matplotlib.pyplot as plt
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnlib.plot import show
from attnlib.plot.style import png
from autograder.building import lesson_page
from autograder.building.colab import add_colab
from autograder.building.lesson_page import add_opening, addresses, with_figures
from autograder.lesson_text.figures import as_image

LESSON = "05_causal_attention"
REPOSITORY = "https://github.com/someone/attention"


@pytest.fixture
def figure(monkeypatch):
    """What a notebook keeps of a figure, and the image."""
    shown = []
    image = png(plt.figure(figsize=(2, 1)))
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append(data))
    show('a "line" that rises & falls')
    return new_output("display_data", shown[0]), image


def test_a_figure_is_an_image_again_with_its_text_and_its_size(figure):
    output, image = figure
    drawn = as_image(output)
    assert drawn.metadata["image/png"]["alt"] == 'a "line" that rises & falls'
    assert drawn.metadata["image/png"]["width"] == int.from_bytes(image[16:20]) // 2  # PNG's own width
    assert "text/html" not in drawn.data


@pytest.mark.parametrize("html", ["<b>no figure</b>", "<img src=x>", "<p>{figure}</p>"])
def test_other_html_stays_as_it_is(figure, html):
    other = new_output("display_data", {"text/html": html.format(figure=figure[0].data["text/html"])})
    assert as_image(other) is other


def a_lesson(url=None):
    cells = [new_markdown_cell("# A title\n\n" + "word " * 440), new_code_cell("1 + 1")]
    return add_colab(new_notebook(cells=cells), LESSON, url)


def opening(monkeypatch, url, hub, tmp_path):
    """The second paragraph of the page."""
    setting = f'[project.urls]\nJupyterHub = "{hub}"\n' if hub else ""
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'x'\n{setting}", encoding="utf-8")
    monkeypatch.setattr(lesson_page, "ROOT", tmp_path)
    monkeypatch.setattr(lesson_page, "repository_url", lambda root: url)
    page = with_figures(a_lesson(url), a_lesson(url))
    add_opening(page, LESSON)
    assert [cell.source[:9] for cell in page.cells] == ["# A title", "1 + 1"]  # no badge, and nothing to install
    return page.cells[0].source.split("\n\n")[1]


def test_without_an_address_the_page_says_how_to_open_the_lesson_at_home(monkeypatch, tmp_path):
    line = opening(monkeypatch, None, "https://hub.example.org", tmp_path)
    home = f"[get the course](../course.md#start), start JupyterLab with `make lab`, and open `{LESSON}.ipynb`"
    assert line == f"*2 minutes to read.* To work on it, {home}."


def test_the_shortest_page_takes_a_minute():
    page = new_notebook(cells=[new_markdown_cell("# A title\n\nA few words.")])
    add_opening(page, LESSON)
    assert "*A minute to read.*" in page.cells[0].source


def test_with_the_repository_s_address_it_opens_in_colab(monkeypatch, tmp_path):
    line = opening(monkeypatch, REPOSITORY, None, tmp_path)
    place = f"https://colab.research.google.com/github/someone/attention/blob/main/notebooks/{LESSON}.ipynb"
    assert f"open it in [Colab]({place}), or [get the course](../course.md#start), start JupyterLab" in line
    assert "[JupyterLab]" not in line


def test_with_a_hub_it_opens_in_jupyterlab(monkeypatch, tmp_path):
    assert "open it in [JupyterLab](https://hub.example.org/hub/user-redirect/git-pull?" in opening(
        monkeypatch, REPOSITORY, "https://hub.example.org/", tmp_path
    )
    asked = parse_qs(urlsplit(addresses(LESSON)["JupyterLab"]).query)
    assert asked == {
        "repo": [REPOSITORY],
        "branch": ["main"],
        "urlpath": [f"lab/tree/attention/notebooks/{LESSON}.ipynb"],
    }
