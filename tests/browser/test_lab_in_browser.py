"""JupyterLab on a small screen, or with a screen reader: figures have words, drawings fit, a verdict is heard."""

import shutil
from pathlib import Path

import pytest
from jupyter_servers import jupyter_lab
from nbformat.v4 import new_code_cell, new_notebook
from test_student_in_browser import run

from autograder.lesson_text.lesson import KERNEL
from autograder.lesson_text.notebook import write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CELLS = [
    """import matplotlib.pyplot as plt, torch
from attnlib.checks import check
from attnlib.plot import film, hover_links, show
plt.plot([1, 2]); show('a line that "rises"')""",
    """figure, axes = plt.subplots(); (dot,) = axes.plot([0], [0], "o")
film(lambda x: dot.set_data([x], [0]), [0.0, 0.02], "a dot that moves")""",
    """words = "the animal did not cross the street because it was tired".split()
hover_links(torch.softmax(torch.arange(121.0).reshape(11, 11).sin(), -1), words)""",
    'check("attention_scores", lambda q, k: q @ k.mT)',
]
IMAGES = """all => all.map(image => [image.alt, image.complete && image.naturalWidth > 0,
    image.getBoundingClientRect().right <= image.closest('.jp-OutputArea-output').getBoundingClientRect().right + 1])"""
SOLVED = "09_fast_decoding"


@pytest.fixture
def lab(tmp_path):
    """JupyterLab with a notebook that shows one thing of each kind, and with a solved lesson."""
    kinds = new_notebook(cells=[new_code_cell(source) for source in CELLS], metadata={"kernelspec": KERNEL})
    write_notebook(kinds, tmp_path / "home" / "kinds.ipynb")
    shutil.copy(ROOT / "solutions" / f"{SOLVED}.ipynb", tmp_path / "home")
    with jupyter_lab(tmp_path / "home", tmp_path / "jupyter") as address:
        yield address


def test_what_runs_has_words_fits_and_is_heard(lab, page):
    page.goto(lab.format("lab/tree/kinds.ipynb"))
    page.locator(".jp-Toolbar-kernelName").filter(has_text="Python 3").wait_for()
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("ControlOrMeta+B")  # the list of files would leave a phone's width to nothing else
    for source in CELLS:
        run(page, source.partition("\n")[0])
    verdict = page.get_by_role("group", name="Verdict on attention_scores")
    verdict.wait_for()
    assert verdict.get_by_role("alert").inner_text().startswith("✗ attention_scores: the values are not right")
    heading = verdict.get_by_role("heading", level=4)
    assert heading.inner_text() == verdict.get_by_role("alert").inner_text()
    assert any("The scale is missing" in one for one in verdict.get_by_role("heading", level=5).all_inner_texts())
    drawing = page.locator(".jp-OutputArea-output div[id^=links]")
    for width in (390, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        images = page.locator(".jp-OutputArea-output img").evaluate_all(IMAGES)
        assert [alt for alt, _, _ in images[:2]] == ['a line that "rises"', "a dot that moves"]
        assert images[2][0].startswith("Who looks at whom: the at")
        assert all(drawn and fits for _, drawn, fits in images)
        for other in (drawing.locator("img"), drawing.locator("svg")):  # what reacts lies on the words
            box, whole = other.bounding_box(), drawing.bounding_box()
            assert [round(box[side]) for side in box] == [round(whole[side]) for side in box]
    word = drawing.locator("g[tabindex='0']").nth(8)
    word.focus()
    assert word.locator(".own").evaluate("drawing => getComputedStyle(drawing).opacity") == "1"


def test_a_solved_lesson_that_is_only_read_has_its_figures_with_their_words(lab, page):
    page.goto(lab.format(f"lab/tree/{SOLVED}.ipynb"))  # not trusted: JupyterLab cleans what is in it
    figures = page.locator(".jp-OutputArea-output img")
    figures.first.wait_for()
    found = figures.evaluate_all(IMAGES)
    assert len(found) >= 3
    assert all(len(alt.split()) > 5 and drawn for alt, drawn, _ in found)
