"""The site's pages on paper, and where no scripts run."""

import pytest
from test_every_kind_of_page import LESSON
from test_site_in_browser import _built, site  # noqa: F401  # fixtures

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_without_scripts_nothing_is_shown_that_needs_them(chromium, site):  # noqa: F811
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    for name in ("index.html", "try.html", "bugs.html", "course.html"):
        page.goto(f"{site}{name}")
        assert page.locator("button:not(.lines *), input, #code").locator("visible=true").count() == 0
    page.goto(f"{site}try.html")
    assert page.locator("noscript").inner_text().startswith("The reader needs JavaScript")
    context.close()


def test_a_dark_page_is_printed_dark_on_white(page, site):  # noqa: F811
    page.emulate_media(color_scheme="dark")
    told = "when => { dispatchEvent(new Event(when)); return document.documentElement.dataset.theme; }"
    for name in ("index.html", "course.html"):
        page.goto(f"{site}{name}")
        page.wait_for_function("document.documentElement.dataset.theme == 'dark'")
        assert page.evaluate(told, "beforeprint") == "light"
        assert page.evaluate(told, "afterprint") == "dark"


def test_without_scripts_a_phone_has_the_list_of_pages(chromium, site):  # noqa: F811
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{site}{LESSON}")
    there, lesson = page.locator("#to-pages a"), page.locator("#pst-primary-sidebar a[href^='00_']")
    there.click()
    box = lesson.bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 390
    assert 0 <= box["y"] < 844
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    lesson.click()
    page.wait_for_url("**/00_*.html")
    page.set_viewport_size({"width": 1280, "height": 844})
    assert page.locator("#pst-primary-sidebar a[href^='01_']").is_visible()
    assert not there.is_visible()
    context.close()


PAPER = """() => {
    const texts = [...document.querySelectorAll("#jb-print-docs-body h1, #jb-print-toc h2, article h2")];
    const cut = [...document.querySelectorAll("article pre")].filter(each => each.scrollWidth > each.clientWidth);
    return [[...new Set(texts.map(each => each.getBoundingClientRect().left))],
        document.querySelector("#jb-print-docs-body h1").getBoundingClientRect().right <= innerWidth - 30,
        cut.map(each => each.textContent.slice(0, 60))];
}"""


def test_on_paper_the_headline_has_a_margin_and_no_code_is_cut_off(page, site):  # noqa: F811
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})  # A4 within Chromium's margins
    for name in (LESSON, "mistakes/over_queries.html"):
        page.goto(f"{site}{name}")
        (left,), free, cut = page.evaluate(PAPER)
        assert (name, left, free, cut) == (name, 32, True, [])
