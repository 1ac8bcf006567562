"""A student opens lesson 02 in JupyterLab, answers wrong, reads why, answers right, and validates."""

import re
import shutil
from pathlib import Path

import pytest
from jupyter_servers import jupyter_lab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
LESSON = "02_scaled_dot_product_attention"
FORGETS_THE_SCALE = "def attention_scores(q, k):\n    return q @ k.transpose(-2, -1)"
RIGHT = f"{FORGETS_THE_SCALE} / math.sqrt(q.shape[-1])"
LINES = """each => [each.textContent.split("\\n").length,
    Math.round(each.scrollHeight / parseFloat(getComputedStyle(each).lineHeight))]"""


def cell(page, text):
    return page.locator(".jp-Notebook .jp-CodeCell").filter(has_text=text).first


def fill(page, text, source):
    """Replace the cell that has `text`."""
    cell(page, text).locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.insert_text(source)


def run(page, text):
    """Run the cell, and wait for its new number."""
    prompt = cell(page, text).locator(".jp-InputPrompt")
    before = prompt.inner_text()
    cell(page, text).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    done = "([prompt, before]) => /\\d/.test(prompt.innerText) && prompt.innerText != before"
    page.wait_for_function(done, arg=[prompt.element_handle(), before])


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """JupyterLab as `make lab` starts it, on a copy of the student notebooks."""
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "notebooks" / ".jupyter"))
    with jupyter_lab(tmp_path / "notebooks", tmp_path / "jupyter") as address:
        yield address


def test_a_student_reads_the_diagnosis_answers_right_and_validates(lab, page, picture):
    page.goto(lab.format(f"lab/tree/{LESSON}.ipynb"))
    page.locator(".jp-Toolbar-kernelName").filter(has_text="Python 3").wait_for()
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    assert page.get_by_text("Create Assignment").count() == 0  # an instructor's tool
    run(page, "import math")
    check = 'check("attention_scores"'
    verdict = cell(page, check).locator(".jp-OutputArea-output")

    fill(page, "def attention_scores", FORGETS_THE_SCALE)
    run(page, "def attention_scores")
    run(page, check)
    verdict.filter(has_text="The scale is missing").first.wait_for()
    assert "✗" in verdict.first.inner_text()
    cell(page, "def attention_scores").evaluate("cell => cell.scrollIntoView()")
    picture(page, "diagnosis")
    for width in (390, 800, 1200):  # the columns of yours and right stay side by side
        page.set_viewport_size({"width": width, "height": 800})
        written, drawn = verdict.locator("pre").filter(has_text=re.compile(r"yours\s+right")).evaluate(LINES)
        assert written == drawn > 3

    fill(page, "def attention_scores", RIGHT)
    run(page, "def attention_scores")
    run(page, check)
    verdict.filter(has_text="✓").wait_for()
    assert "The scale is missing" not in verdict.inner_text()

    page.get_by_role("button", name="Validate").click()
    said = page.locator(".jp-Dialog-content")
    said.filter(has_text=re.compile("validat", re.IGNORECASE)).wait_for()
    assert 'check("softmax"' in said.inner_text()  # not answered yet
    assert check not in said.inner_text()
