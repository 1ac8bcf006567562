"""The built site: its links lead somewhere, its pages run without a complaint, and a phone is wide enough."""

import re
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urldefrag

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SITE = Path(__file__).resolve().parents[2] / "build" / "site" / "html"
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html") if "_static" not in path.parts)
GALLERY = ["index", "over_queries", "no_causal_mask", "keeps_first_answer", "symptom-not_a_number", "symptom-raises"]
"""Of the gallery's pages, which are all made of three templates, those that are opened."""
SOME = [name for name in PAGES if not name.startswith("mistakes/")] + [f"mistakes/{name}.html" for name in GALLERY]
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}


@pytest.fixture(scope="session", autouse=True)
def _built():
    assert PAGES, "the site is not built: make site"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site():
    """The address of a server for the built files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_every_link_within_the_site_leads_to_something():
    texts = {page: (SITE / page).read_text(encoding="utf-8") for page in PAGES}
    ids = {page: set(re.findall(r'\bid=["\']([^"\']+)', text)) for page, text in texts.items()}
    dead, tried = [], 0
    for page, text in texts.items():
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]*)"', text):
            target, place = urldefrag(unquote(unescape(link)))
            if re.match(r"[a-z]+:", target):
                continue
            tried += 1
            path = (SITE / page).parent / target if target else SITE / page
            other = path.resolve().relative_to(SITE).as_posix()
            if not path.is_file() or (place and place not in ids.get(other, ())):
                dead.append((page, link))
    assert tried > len(PAGES)
    assert dead == []


def test_every_picture_says_in_words_what_it_shows():
    tags = [tag for page in PAGES for tag in re.findall(r"<img\b[^>]*>", (SITE / page).read_text(encoding="utf-8"))]
    words = {tag: re.findall(r"""\balt=(["'])(.+?)\1""", tag) for tag in tags}
    assert len(tags) > 100
    assert [tag[-200:] for tag, alts in words.items() if [len(alt.split()) > 5 for _, alt in alts] != [True]] == []


def test_a_search_engine_can_say_what_is_on_each_page():
    shown = {}
    for page in PAGES:
        text = (SITE / page).read_text(encoding="utf-8")
        found = re.findall(r'<meta name="description" content="([^"]*)"', text)
        shown[page] = [unescape(one) for one in found]
    made_by_sphinx = {"genindex.html", "search.html"}
    wrong = {p: d for p, d in shown.items() if p not in made_by_sphinx and not (len(d) == 1 and 30 <= len(d[0]) <= 160)}
    assert wrong == {}
    lessons = [d[0] for p, d in shown.items() if p.startswith("notebooks/")]
    assert len(set(lessons)) == len(lessons) == 13
    assert not any("minutes to read" in one for one in lessons)


BLANK = "about:blank"
"""The address of MathJax's font without characters, which Chromium now and then refuses to load."""
STRETCHED = """() => [...document.querySelectorAll('article img')]
    .filter(({naturalHeight: h, clientHeight: shown}) => h && shown)
    .filter(({naturalWidth: w, naturalHeight: h, clientWidth, clientHeight}) =>
        Math.abs(clientWidth / clientHeight / w * h - 1) > 0.03)
    .map(each => each.src)"""


@pytest.mark.parametrize("size", SIZES)
def test_no_page_complains_or_is_wider_than_the_screen(page, site, size):
    said = []
    bad = ("error", "warning")
    page.on("console", lambda told: said.append(f"{told.text} {told.location}") if told.type in bad else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    given_up = "net::ERR_ABORTED"  # by the browser, for the next page
    page.on("requestfailed", lambda asked: said.append(asked.url) if asked.failure != given_up else None)
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[size], strict=True)))
    for name in SOME:
        page.goto(f"{site}{name}", wait_until="load")
        width = page.evaluate("document.documentElement.scrollWidth")
        said = [each for each in said if BLANK not in each]
        assert (name, said, width) == (name, [], SIZES[size][0])
        assert (name, page.evaluate(STRETCHED)) == (name, [])


RAW = """() => [...document.querySelectorAll('.math')]
    .map(each => each.textContent).filter(text => /\\\\[([]/.test(text))"""
DRAWN = """() => [...document.querySelectorAll('article .math.notranslate')].every(each =>
    each.querySelector('.MathJax, .MathJax_Display')
    && !each.querySelector('[class*=MathJax_Process], .MathJax_Error, .merror'))"""


def test_every_formula_is_drawn(page, site):
    found = 0
    for name in PAGES:
        if 'class="math' in (SITE / name).read_text(encoding="utf-8"):
            page.goto(f"{site}{name}", wait_until="load")
            page.wait_for_function(DRAWN)
            assert page.evaluate(RAW) == []
            found += page.locator("article .math.notranslate").count()
    assert found > 900


@pytest.mark.parametrize("size", SIZES)
def test_no_formula_is_broken_in_a_table(page, site, size):
    """There MathJax would break it at every operator; a table that is too wide for a phone scrolls in its frame."""
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[size], strict=True)))
    for name in (name for name in PAGES if name.startswith(("notebooks/00", "notebooks/10"))):
        page.goto(f"{site}{name}", wait_until="load")
        page.wait_for_function(DRAWN)
        assert page.locator("article td .MathJax").count() > 15
        assert page.locator("article :is(td, th) .MathJax_FullWidth").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size][0]


MARKS = """() => [...document.querySelectorAll('article .MathJax_FullWidth')]
    .map(broken => broken.closest('.math').nextSibling?.data ?? '').filter(text => /^[.,;]/.test(text))"""


def test_no_mark_begins_a_line_behind_a_formula_that_is_broken_on_a_phone(page, site):
    page.set_viewport_size(dict(zip(("width", "height"), SIZES["phone"], strict=True)))
    (name,) = (name for name in PAGES if name.startswith("notebooks/10"))
    page.goto(f"{site}{name}", wait_until="load")
    page.wait_for_function(DRAWN)
    assert page.locator("article .MathJax_FullWidth").count() > 1
    assert page.evaluate(MARKS) == []


def test_no_table_of_a_lesson_scrolls_on_a_desktop(page, site):
    page.set_viewport_size(dict(zip(("width", "height"), SIZES["desktop"], strict=True)))
    wide = (
        "all => all.filter(it => it.scrollWidth > it.parentElement.clientWidth).map(it => it.textContent.slice(0, 60))"
    )
    for name in (name for name in PAGES if name.startswith("notebooks/")):
        page.goto(f"{site}{name}", wait_until="load")
        page.wait_for_function(DRAWN)
        assert (name, page.locator("article table").evaluate_all(wide)) == (name, [])


def test_a_line_as_wide_as_the_notebooks_fits_into_code_and_output(page, site):
    page.set_viewport_size(dict(zip(("width", "height"), SIZES["desktop"], strict=True)))
    (name,) = (name for name in PAGES if name.startswith("notebooks/02"))
    page.goto(f"{site}{name}")
    widened = "all => { all[0].textContent = 'x'.repeat(88); return all[0].scrollWidth - all[0].clientWidth; }"
    for kind in ("cell_input", "cell_output"):
        assert (kind, page.locator(f"article .{kind} pre:visible").evaluate_all(widened)) == (kind, 0)


def test_nothing_that_a_cell_prints_is_cut_off_on_a_desktop(page, site):
    page.set_viewport_size(dict(zip(("width", "height"), SIZES["desktop"], strict=True)))
    cut = "all => all.filter(it => it.scrollWidth > it.clientWidth).map(it => it.textContent.slice(0, 60))"
    for name in (name for name in PAGES if name.startswith("notebooks/")):
        page.goto(f"{site}{name}", wait_until="domcontentloaded")
        assert (name, page.locator("article .cell_output pre").evaluate_all(cut)) == (name, [])


def test_search_finds_a_lesson_and_the_page_turns_dark(page, site):
    page.goto(f"{site}search.html?q=softmax")
    found = page.locator("#search-results a", has_text="dot-product").first
    found.wait_for()
    assert "notebooks/02" in found.get_attribute("href")
    glass = page.locator("form.bd-search:visible svg, form.bd-search:visible i").first.bounding_box()
    begins = page.locator("form.bd-search:visible input[type=search]").first.evaluate(
        "input => input.getBoundingClientRect().left + parseFloat(getComputedStyle(input).paddingLeft)"
    )
    assert glass["x"] + glass["width"] <= begins  # the magnifying glass covers no letter
    ground = {}
    for mode in ("dark", "light"):
        page.locator("button.theme-switch-button:visible").first.click()
        page.locator(f"button.theme-change-button[data-mode={mode}]:visible").click()
        page.wait_for_function("mode => document.documentElement.dataset.theme == mode", arg=mode)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        ground[mode] = sum(map(int, re.findall(r"\d+", colour)[:3])) / 3
    assert ground["dark"] < 60 < 200 < ground["light"]


def test_no_answer_is_published_and_a_drawing_works_by_keyboard(page, site):
    (name,) = (name for name in PAGES if name.startswith("notebooks/02"))
    page.goto(f"{site}{name}")
    body = page.locator("article").inner_text()
    assert "raise NotImplementedError" in body
    assert "BEGIN SOLUTION" not in body
    word = page.locator("g[tabindex='0']").first
    own = word.locator(".own")
    assert own.evaluate("drawing => getComputedStyle(drawing).opacity") == "0"
    word.focus()
    assert own.evaluate("drawing => getComputedStyle(drawing).opacity") == "1"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_a_mistake_is_read_and_its_repair_unfolded(chromium, site, width, scheme):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{site}mistakes/over_queries.html")
    assert page.locator("h1:visible").inner_text() == "Softmax: the softmax runs over the queries"
    assert page.locator("#wrong .hll").count() == 2
    assert "expected" in page.locator("#seen").inner_text()
    folded = page.locator("#repair details").first
    assert not folded.locator("pre").is_visible()
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "+" in folded.locator("pre").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    context.close()


def test_a_lesson_says_what_is_core_and_what_comes_before_and_after(page, site):
    (name,) = (name for name in PAGES if name.startswith("notebooks/06"))
    page.goto(f"{site}{name}")
    badges = page.locator("article h2 .path").all_inner_texts()
    assert {*badges} == {"core", "more", "stretch"}
    assert badges[0] == "core"
    ground = page.locator("article h2 .path-core").first.evaluate("it => getComputedStyle(it).printColorAdjust")
    assert ground == "exact"  # white on white, a printer would leave the word out
    assert "· core" not in page.locator("article").inner_text()
    assert page.locator("#pst-page-toc-nav .path").count() == len(badges)
    before, after = (
        page.locator(f".prev-next-footer a.{side}").get_attribute("href") for side in ("left-prev", "right-next")
    )
    assert (before[:2], after[:2]) == ("05", "07")


def test_a_bug_leads_by_its_symptom_to_the_place_in_a_lesson(page, site):
    page.goto(f"{site}mistakes/index.html")
    page.get_by_role("link", name="The columns sum to 1").click()
    page.get_by_role("link", name="Softmax: the softmax runs over the queries").click()
    page.locator("#taught a", has_text="masked_softmax").click()
    page.wait_for_url("**/notebooks/05_*.html#task-masked-softmax")
    heading = page.locator("#task-masked-softmax").locator("xpath=ancestor-or-self::section[1]").locator("h3").first
    assert "softmax with a mask" in heading.inner_text()


def test_the_search_finds_a_mistake_by_what_one_sees(page, site):
    page.goto(f"{site}mistakes/index.html")
    page.get_by_label("Search for what you see").fill("softmax wrong axis queries")
    page.get_by_role("button", name="Search", exact=True).last.click()
    found = page.locator("#search-results a[href*='mistakes/over_queries']")
    found.wait_for()
    assert "queries" in found.inner_text()


def test_an_excerpt_of_the_search_is_of_the_page_s_own_text(page, site):
    page.goto(f"{site}search.html?q=softmax+over+the+queries")
    page.locator("#search-results li p.context").nth(9).wait_for()
    excerpts = page.locator("#search-results li p.context").all_inner_texts()
    assert [text for text in excerpts if "Light Dark" in text] == []  # the theme's buttons
    assert any("softmax" in text.lower() for text in excerpts)


def test_an_excerpt_of_the_search_has_its_formulas_as_one_types_them(page, site):
    page.goto(f"{site}search.html?q=softmax")
    page.locator("#search-results li p.context").nth(20).wait_for()
    excerpts = page.locator("#search-results li p.context").all_inner_texts()
    assert [text for text in excerpts if re.search(r"\\\(|\\\)|\\(cdot|frac|mathrm|sqrt|text)\b", text)] == []
    formulas = {
        r"\(w_j\)": "w_j",
        r"\(Q K^\top / \sqrt{d_k}\)": "Q K^T / √d_k",
        r"\(\mathrm{softmax}(s)\, V \approx e^{s_j - m}\)": "softmax(s)  V ≈ e^(s_j - m)",
        r"\(\frac12\)": "…",
    }
    read = "formula => Search.htmlToText(`<article><p>a <span class='math'>${formula}</span> b</p></article>`)"
    assert {formula: page.evaluate(read, formula) for formula in formulas} == {
        formula: f"a {text} b" for formula, text in formulas.items()
    }


def test_no_page_of_the_gallery_is_heavy():
    sizes = {name: (SITE / name).stat().st_size for name in PAGES if name.startswith(("mistakes/", "misconceptions/"))}
    assert len(sizes) > 1000
    assert {name: size for name, size in sizes.items() if size > 300_000} == {}
