"""Each kind of page at three widths and in both themes: nothing is broken, cut off or covered, says axe-core, too."""

from pathlib import Path

import pytest
from test_site_in_browser import BLANK, DRAWN, SITE, _built, site  # noqa: F401  # fixtures

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HERE = Path(__file__).parent
LOOKS = f"() => {{ {(HERE / 'looks.js').read_text(encoding='utf-8')}; return looks(); }}"
AXE = HERE / "axe" / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (390, 800, 1280)
LESSON = "notebooks/02_scaled_dot_product_attention.html"
KINDS = {
    "first page": "index.html",
    "to try": "try.html",
    "course": "course.html",
    "lesson": LESSON,
    "guide": "docs/instructors.html",
    "mistakes of a lesson": "misconceptions/05_causal_attention.html",
    "gallery": "mistakes/index.html",
    "mistake": "mistakes/over_queries.html",
    "symptom": "mistakes/symptom-not_a_number.html",
    "search": "search.html?q=softmax",
}
FOUND = "() => !document.getElementById('search-results') || document.querySelector('#search-results li')"


@pytest.fixture
def axe():
    """The program of axe-core."""
    assert AXE.exists(), "axe-core is missing: make browser brings it by npm"
    return AXE.read_text(encoding="utf-8")


def complaints(page, axe):
    """What axe-core finds serious or critical: the rule, and the first element."""
    page.evaluate(axe)
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_broken_cut_off_or_covered(page, site, axe, kind, theme):  # noqa: F811
    said = []
    page.on("console", lambda told: said.append(f"{told.text} {told.location}") if told.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{site}{KINDS[kind]}", wait_until="load")
        page.wait_for_function(DRAWN)
        page.wait_for_function(FOUND)
        page.evaluate("() => document.querySelectorAll('img').forEach(image => image.loading = 'eager')")
        page.wait_for_function("() => [...document.images].every(image => image.complete)")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        found = {what: each for what, each in page.evaluate(LOOKS).items() if each}
        assert (width, found) == (width, {})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    assert complaints(page, axe) == []
    assert [each for each in said if BLANK not in each] == []


BROKEN = """<!doctype html><html lang="en"><title>x</title><body style="font: 16px monospace">
    <p>The scale is $\\sqrt{d}$.</p> <img src="data:image/png;base64,AAAA">
    <pre style="width: 5em; white-space: pre-wrap; word-break: break-all">yours 1.2345678</pre>
    <div style="width: 4em; overflow: hidden; white-space: nowrap">a text that is cut off</div>
    <p style="position: absolute; top: 0">one text</p> <p style="position: absolute; top: 2px">another text</p>"""


def test_each_of_these_faults_is_seen(page, axe):
    page.set_content(BROKEN)
    page.wait_for_function("() => [...document.images].every(image => image.complete)")
    found = page.evaluate(LOOKS)
    assert {what: len(each) > 0 for what, each in found.items()} == dict.fromkeys(found, True)
    assert len(found) == 5
    assert "1.2345678" in found["brokenNumbers"][0]
    assert [rule for rule, _ in complaints(page, axe)] == ["image-alt"]


def test_no_page_is_heavy():
    sizes = {path: path.stat().st_size for path in SITE.rglob("*.html") if "_static" not in path.parts}
    assert len(sizes) > 1000
    assert {path.name: size for path, size in sizes.items() if size > 300_000} == {}


def test_a_lesson_is_there_within_a_second_on_a_slow_phone(page, site):  # noqa: F811
    page.set_viewport_size({"width": 390, "height": 844})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked():
        """Seconds of processor time that the page has taken; what else this machine does isn't in it."""
        return next(
            one["value"] for one in session.send("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration"
        )

    took = []
    for _ in range(6):
        page.goto("about:blank")
        before = worked()
        page.goto(f"{site}{LESSON}", wait_until="domcontentloaded")
        took.append(worked() - before)
    assert (
        4 * min(took) < 1
    )  # second, on a processor that is four times as slow; Chromium's throttle counts others' work
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.goto(f"{site}{LESSON}", wait_until="domcontentloaded")
    page.locator("button.primary-toggle").click()  # while the formulas are still being drawn
    page.locator("#pst-primary-sidebar-modal, #pst-primary-sidebar").get_by_text("Gallery of mistakes").first.wait_for()


def test_a_lesson_says_how_long_it_takes_and_how_to_start(page, site):  # noqa: F811
    page.goto(f"{site}{LESSON}")
    opening = page.locator("article h1 + p").inner_text()
    assert "minutes to read" in opening
    assert "make lab" in opening
    assert LESSON.split("/")[1].replace(".html", ".ipynb") in opening
    folded = page.locator("article details")
    assert folded.count() > 10
    assert folded.evaluate_all("all => all.filter(each => each.open).length") == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_a_hover_drawing_fits_and_a_word_shows_its_weights(page, site, width):  # noqa: F811
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark")  # where the theme frames other pictures
    page.goto(f"{site}{LESSON}")
    drawings = page.locator("article div[id^=links]")
    boxes = drawings.evaluate_all(
        "all => all.map(each => { const b = each.getBoundingClientRect();"
        "return [b.left, b.right, b.width, each.querySelector('svg').clientWidth]; })"
    )
    assert len(boxes) == 3
    assert all(left >= 0 and right <= width and drawn == round(wide) for left, right, wide, drawn in boxes)
    assert drawings.locator("img").evaluate_all("all => all.map(each => getComputedStyle(each).padding)") == ["0px"] * 3
    ground = "all => all.map(each => getComputedStyle(each.closest('.text_html')).backgroundColor)"
    assert drawings.evaluate_all(ground) == ["rgb(255, 255, 255)"] * 3  # like the pictures'
    word = drawings.first.locator("g[tabindex='0']").first
    word.scroll_into_view_if_needed()
    word.locator(".hit").hover()
    assert word.locator(".own").evaluate("drawing => getComputedStyle(drawing).opacity") == "1"
