"""Whoever cannot see a lesson's figures or use a mouse: headings nest, figures have words, drawings have keys."""

import re
from itertools import pairwise

import pytest

from autograder.lesson_text.figures import FIGURE
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook

LESSONS = Layout().lessons()


def lesson(name):
    return read_notebook(Layout().solutions / f"{name}.ipynb")


def headings(name):
    """The levels of the lesson's headings, in its order."""
    texts = [cell.source for cell in lesson(name).cells if cell.cell_type == "markdown"]
    plain = re.sub(r"^```.*?^```", "", "\n".join(texts), flags=re.MULTILINE | re.DOTALL)
    return [len(marks) for marks in re.findall(r"^(#+) ", plain, flags=re.MULTILINE)]


def outputs(name):
    cells = [cell for cell in lesson(name).cells if cell.cell_type == "code"]
    return [out for cell in cells for out in cell.outputs if "data" in out]


def is_figure(output):
    return FIGURE.fullmatch(output.data.get("text/html", "")) is not None


@pytest.mark.parametrize("name", LESSONS)
def test_headings_nest(name):
    levels = headings(name)
    assert levels[0] == 1
    assert levels.count(1) == 1
    steps = pairwise(levels)
    assert [(above, below) for above, below in steps if below > above + 1] == []


@pytest.mark.parametrize("name", LESSONS)
def test_every_figure_says_in_words_what_it_shows(name):
    figures = [out.data for out in outputs(name) if {"image/png", "image/gif"} & out.data.keys() or is_figure(out)]
    assert figures
    for data in figures:  # JupyterLab has no text for an image that isn't in HTML
        alts = re.findall(r"""<img\b[^>]* alt=(["'])(.+?)\1""", data.get("text/html", ""))
        assert [len(alt.split()) > 5 for _, alt in alts] == [True], data.get("text/plain")


@pytest.mark.parametrize("name", LESSONS)
def test_every_image_in_the_text_and_in_a_drawing_has_its_words(name):
    texts = [cell.source for cell in lesson(name).cells if cell.cell_type == "markdown"]
    pages = [*texts, *(out.data["text/html"] for out in outputs(name) if "text/html" in out.data)]
    images = [tag for page in pages for tag in re.findall(r"<img\b[^>]*>", page)]
    assert [tag[-200:] for tag in images if not re.search(r"alt=(['\"]).+?\1", tag)] == []
    assert [text for text in texts if "![](" in text] == []


@pytest.mark.parametrize("name", LESSONS)
def test_whatever_reacts_to_the_mouse_reacts_to_the_keyboard(name):
    for out in outputs(name):
        page = out.data.get("text/html", "")
        assert page.count(":hover>") <= page.count(":focus>")
        assert "onmouse" not in page
        assert page.count("class='hit'") == page.count("tabindex='0' role='img' aria-label=")
