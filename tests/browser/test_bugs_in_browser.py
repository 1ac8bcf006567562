"""The page of ten bugs, as a visitor has it: by mouse, finger and keyboard, in both themes, without scripts."""

import re

import pytest
from test_front_in_browser import CONTRAST, THEMES, WIDTHS
from test_site_in_browser import SITE, _built, site  # noqa: F401  # fixtures

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def opened(page, site):  # noqa: F811
    """The page; it may complain of nothing, and ask for nothing more."""
    said, asked = [], []
    page.on("console", lambda told: said.append(told.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda sent: asked.append(sent.url.removeprefix(site)))
    page.goto(f"{site}bugs.html")
    page.context.set_offline(True)
    yield page
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {"bugs.html"}


def shown(page):
    """The one bug that is there to be seen."""
    assert page.locator(".bug:visible").count() == 1
    return page.locator(".bug:visible")


def wrong_lines(bug):
    return bug.get_attribute("data-lines").split()


def line(bug, number):
    return bug.locator(f"button[data-line='{number}']")


def innocent(bug):
    return next(
        each for each in bug.locator(".lines button").all() if each.get_attribute("data-line") not in wrong_lines(bug)
    )


def test_ten_bugs_are_found_one_after_another(opened):
    for number in range(1, 11):
        bug = shown(opened)
        assert bug.locator("h2").inner_text().startswith(f"{number}. ")
        assert not bug.locator(".answer pre").is_visible()
        line(bug, wrong_lines(bug)[0]).click()
        assert "on the first try" in bug.locator(".said").inner_text()
        repair = bug.locator(".answer pre").inner_text()
        assert re.search(r"^line \d+:\n[-+] ", repair)
        assert opened.inner_text("#score") == f"{number} of 10 found, {number} of them on the first try."
        if number < 10:
            bug.locator(".next").click()
    assert not shown(opened).locator(".next").is_visible()
    assert opened.locator("#places").inner_text().count("✓") == 10


def test_another_line_is_said_to_be_right_and_costs_a_try(opened):
    bug = shown(opened)
    other = innocent(bug)
    for _ in range(2):  # the second time it is known
        other.click()
        number = other.get_attribute("data-line")
        assert bug.locator(".said").inner_text() == f"Line {number} does what it should."
    line(bug, wrong_lines(bug)[0]).click()
    assert "after 2 tries" in bug.locator(".said").inner_text()
    assert opened.inner_text("#score") == "1 of 10 found, 0 of them on the first try."
    other.click(force=True)  # it is over
    assert bug.locator(".said").inner_text().startswith("Right")


def test_who_gives_up_sees_the_line_and_has_not_found_it(opened):
    bug = shown(opened)
    bug.locator(".answer summary").click()
    bug.locator(".said:not(:empty)").wait_for()  # the browser tells of an opened `details` a moment later
    assert bug.locator(".said").inner_text() == f"It was line {' or '.join(wrong_lines(bug))}."
    assert bug.locator(".lines .yes").count() == len(wrong_lines(bug))
    line(bug, wrong_lines(bug)[0]).click(force=True)
    assert opened.inner_text("#score") == "0 of 10 found, 0 of them on the first try."
    assert opened.locator("#places button").first.get_attribute("aria-label") == "Bug 1, answer shown"


def test_it_works_by_keyboard_alone(opened):
    focused = (
        "document.activeElement.dataset.line || document.activeElement.className || document.activeElement.tagName"
    )
    bug = shown(opened)
    for _ in range(40):
        opened.keyboard.press("Tab")
        if opened.evaluate(focused) == "1":
            break
    assert opened.evaluate(focused) == "1"
    lines = [each.get_attribute("data-line") for each in bug.locator(".lines button").all()]
    opened.keyboard.press("ArrowUp")  # nothing is there
    assert opened.evaluate(focused) == "1"
    opened.keyboard.press("End")
    assert opened.evaluate(focused) == lines[-1]
    opened.keyboard.press("Home")
    for _ in range(lines.index(wrong_lines(bug)[0])):
        opened.keyboard.press("ArrowDown")
    opened.keyboard.press("Enter")
    assert bug.locator(".said").inner_text().startswith("Right")
    for _ in range(4):  # the answer, its text, and on
        opened.keyboard.press("Tab")
        if opened.evaluate(focused) == "next":
            break
    opened.keyboard.press("Enter")
    assert opened.evaluate(focused) == "H2"
    assert shown(opened).locator("h2").inner_text().startswith("2. ")


def test_the_address_leads_back_to_the_bug(page, site):  # noqa: F811
    page.goto(f"{site}bugs.html")
    page.locator("#places button").nth(3).click()
    assert page.url.endswith("bugs.html#bug-4")
    page.reload()
    assert shown(page).get_attribute("id") == "bug-4"
    for strange in ("#bug-11", "#%E0%A4%A", "#"):
        page.goto("about:blank")
        page.goto(f"{site}bugs.html{strange}")
        assert shown(page).get_attribute("id") == "bug-1"


def test_without_scripts_all_of_it_can_be_read(chromium, site):  # noqa: F811
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{site}bugs.html")
    assert page.locator(".bug:visible").count() == 10
    assert page.locator(".answer pre:visible").count() == 0
    page.locator(".answer summary").first.click()
    assert page.locator(".answer pre:visible").count() == 1
    assert page.locator("noscript").inner_text().startswith("Without JavaScript")
    context.close()


def test_on_paper_are_all_ten_bugs_and_nothing_to_press(opened):
    line(shown(opened), wrong_lines(shown(opened))[0]).click()
    opened.emulate_media(media="print")
    assert opened.locator(".bug:visible").count() == 10
    assert opened.locator("#places, .next").locator("visible=true").count() == 0


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_bug_fits_and_can_be_read(page, site, width, theme):  # noqa: F811
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.emulate_media(color_scheme=theme)
    page.goto(f"{site}bugs.html")
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    cut = "all => all.filter(each => each.getBoundingClientRect().right > innerWidth + 0.5).length"
    for number in range(10):
        page.locator("#places button").nth(number).click()
        bug = shown(page)
        innocent(bug).click()
        line(bug, wrong_lines(bug)[-1]).click()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert bug.locator("*:visible").evaluate_all(cut) == 0
    assert (
        page.evaluate(CONTRAST, "h1, h2, h3, p, a, summary, pre, .lines button, .number, .next, #places button") >= 4.5
    )
    sizes = "all => Math.min(...all.flatMap(({ offsetWidth, offsetHeight }) => [offsetWidth, offsetHeight]))"
    assert page.locator("button:visible").evaluate_all(sizes) >= 24  # for a finger


def test_the_page_is_light():
    assert (SITE / "bugs.html").stat().st_size < 100_000
