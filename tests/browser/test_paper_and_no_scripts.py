"""The site's pages on paper, and where no scripts run."""

import pytest
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
