"""Feedback and the class report, which are sent as files: they fit a phone, look like the site, and can be printed."""

import sys
from datetime import date
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from attnlib.checks import run
from autograder.report.analysis import analyse, shared_misconceptions
from autograder.report.page import page as report_page

sys.path.append(str(Path(__file__).parents[1] / "autograder"))

from small_class import FIVE, KNOWN, LOST
from test_clean_html import page_of

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG = "output = torch.einsum('b h q k, b h k d -> b h q d', weights, values).transpose(1, 2).flatten(2)  # " + "x" * 60
WIDTHS = [390, 800, 1280]


def feedback() -> str:
    """The feedback on a wrong answer, as nbgrader makes it."""
    report = run("attention_scores", lambda q, k: q @ k.mT)
    of = {"grade_id": "test_attention_scores", "grade": True, "solution": False, "score": 0, "points": 4}
    shown = new_output("display_data", {kind: report._repr_mimebundle_()[kind] for kind in ("text/plain", "text/html")})
    cells = [
        new_markdown_cell("## Score every query\n\nA text that is long enough to be broken on a phone."),
        new_code_cell(f"def attention_scores(q, k):\n    {LONG}\n    return q @ k.mT", execution_count=1),
        new_code_cell("grade()", outputs=[shown], execution_count=2, metadata={"nbgrader": of}),
    ]
    return page_of(cells, "feedback")


def class_report() -> str:
    """The item analysis of a small class."""
    submissions = [*FIVE, LOST]
    return report_page(analyse(submissions, KNOWN), shared_misconceptions(submissions, KNOWN), date(2026, 1, 2))


@pytest.fixture(scope="module", params=[feedback, class_report], ids=["feedback", "class_report"])
def sent(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("sent") / "page.html"
    file.write_text(request.param(), encoding="utf-8")
    return file.as_uri()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(chromium, sent, width, tmp_path):
    context = chromium.new_context(viewport={"width": width, "height": 844}, is_mobile=width < 500)
    page = context.new_page()
    page.goto(sent)
    page.screenshot(path=tmp_path / f"{width}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("document.documentElement.lang") == "en"
    small = """() => [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() &&
        [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) && parseFloat(getComputedStyle(e).fontSize) < 11)
        .map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(small) == []
    spilt = (
        "() => [...document.querySelectorAll('.panel-heading')].filter(e => e.scrollHeight > e.clientHeight + 1).length"
    )
    assert page.evaluate(spilt) == 0
    context.close()


def test_the_look_is_the_site_s(page, sent):
    page.goto(sent)
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(34, 40, 50)"
    assert "system" in page.evaluate("getComputedStyle(document.body).fontFamily")


def test_in_print_nothing_is_cut_off_and_no_address_is_added(page, sent, tmp_path):
    page.goto(sent)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})  # A4 at 96 dots an inch, without its margins
    cut = """() => [...document.querySelectorAll('pre, .wide, table')].filter(e => e.checkVisibility() &&
        e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX != 'visible')
        .map(e => e.outerHTML.slice(0, 80))"""
    assert page.evaluate(cut) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 720
    added = "() => [...document.links].map(a => getComputedStyle(a, '::after').content).filter(c => c != 'none')"
    assert page.evaluate(added) == []
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
