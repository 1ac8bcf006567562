"""The first page and the reader to try, as a visitor has them: by mouse, finger and keyboard, in both themes."""

import json
import re

import exported_reader
import numpy as np
import pytest
from test_site_in_browser import SITE, _built, site  # noqa: F401  # fixtures

from autograder.building.front import date_reader
from autograder.lesson_text.layout import Layout

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDTHS = {390: 844, 800: 1000, 1280: 800}
THEMES = ("light", "dark")
TEXTS = "h1, p, a, button, figcaption, summary, code, .letter, #looks b, #verdict div"
CONTRAST = """selector => {
    const lightness = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = each => /rgba\\(.*, 0\\)/.test(getComputedStyle(each).backgroundColor) && each.parentElement
        ? ground(each.parentElement) : getComputedStyle(each).backgroundColor;
    return Math.min(...[...document.querySelectorAll(selector)].map(each => {
        const both = [getComputedStyle(each).color, ground(each)].map(lightness).sort((a, b) => b - a);
        return (both[0] + 0.05) / (both[1] + 0.05);
    }));
}"""


@pytest.fixture
def opened(page, site, request):  # noqa: F811
    """The page to try, with all letters shown at once; it may complain of nothing, and ask for nothing more."""
    said, asked = [], []
    page.on("console", lambda told: said.append(told.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda sent: asked.append(sent.url.removeprefix(site)))
    page.emulate_media(reduced_motion=getattr(request, "param", "reduce"))
    page.goto(f"{site}try.html")
    page.context.set_offline(True)
    yield page
    assert said == []
    assert {url for url in asked if not url.startswith("data:")} == {"try.html"}


def answer(page):
    return "".join(page.locator("#answer button").all_inner_texts())


def weights(page):
    """The drawn weights of the chosen character of the answer (h, k)."""
    drawn = "all => all.map(each => [...each.querySelectorAll('i')].map(i => Number(i.style.getPropertyValue('--w'))))"
    return np.array(page.locator(".character").evaluate_all(drawn)).T


def test_it_reads_a_thousand_unseen_dates_as_pytorch_does(opened):
    lesson, texts = date_reader.dates(Layout().solutions)
    exported = json.loads(opened.locator("#weights").text_content())
    reader = exported_reader.load(lesson["DateReader"](texts, num_heads=4), exported)
    unseen = texts[date_reader.LEARNED :]
    found = opened.evaluate("texts => texts.map(text => reader.read(text))", unseen)
    off, right = 0.0, 0
    for text, day, read in zip(unseen, lesson["days"][date_reader.LEARNED :], found, strict=True):
        logits, looks = exported_reader.read(reader, text)
        off = max(
            off, np.abs(np.subtract(logits, read["logits"])).max(), np.abs(np.subtract(looks, read["weights"])).max()
        )
        right += read["date"] == day.isoformat()
    assert (len(unseen), right >= 990) == (1000, True)
    assert off < 1e-4
    spelled = "texts => texts.filter(text => isSpelling(text, dayOf(reader.read(text).date), languages)).length"
    assert opened.evaluate(spelled, unseen) == right  # the calendar that the page asks knows all spellings


def test_every_language_is_read(opened):
    for button in opened.locator("#languages button").all():
        button.click()
        assert answer(opened) == "1969-07-20"
        assert "calendar spells it the same way" in opened.locator("#said").inner_text()
    assert opened.locator("#languages button").count() == len(date_reader.LANGUAGES)


def test_hovering_and_focusing_a_letter_shows_where_its_heads_looked(opened):
    opened.fill("#text", "20 July 1969")
    for i, place in ((2, 10), (9, 1)):  # the third digit of the year, the last one of the day
        opened.locator("#answer button").nth(i).hover()
        assert opened.locator("#answer [aria-pressed=true]").inner_text() == "1969-07-20"[i]
        looks = weights(opened)
        assert looks.shape == (4, 12)
        np.testing.assert_allclose(looks.sum(axis=1), 1, atol=1e-6)
        assert looks.sum(axis=0).argmax() == place
        assert opened.locator("#lines path").count() == (looks >= 0.05).sum()
        rows = opened.locator("#looks li").all_inner_texts()
        assert [row[:6] for row in rows] == [f"head {head}" for head in range(4)]
        heard = opened.locator("#looks .heard").all_text_contents()
        assert all(re.fullmatch(r": (a space|\S), character \d+,", one) for one in heard)
        assert f": {'20 July 1969'[place]}, character {place + 1}," in heard
        assert opened.locator("#looks code").evaluate_all("all => all.every(each => each.ariaHidden == 'true')")
    opened.locator("#answer button").nth(3).focus()
    assert weights(opened).sum(axis=0).argmax() == 11


def test_one_digit_changes_and_its_letter_follows(opened):
    opened.fill("#text", "20 July 1969")
    opened.locator("#typed button").nth(4).click()  # the 6
    assert opened.input_value("#text") == "20 July 1979"
    assert answer(opened) == "1979-07-20"
    assert "You changed “6” to “7”. In the answer, the third digit of the year (6 → 7) followed." in opened.inner_text(
        "#said"
    )
    assert opened.locator("#answer .changed").all_inner_texts() == ["7"]
    assert opened.locator("#typed .edited").all_inner_texts() == ["7"]
    assert opened.locator("#answer [aria-pressed=true]").inner_text() == "7"
    opened.fill("#text", "20 July 1979!")  # a longer text is another text
    assert "You changed" not in opened.inner_text("#said")


def test_it_works_by_keyboard_alone(opened):
    opened.locator("#text").focus()
    opened.keyboard.press("Control+A")
    opened.keyboard.type("3 May 2011")
    assert answer(opened) == "2011-05-03"
    focused = "document.activeElement.closest('#answer, #typed')?.id"
    for _ in range(20):
        opened.keyboard.press("Tab")
        if opened.evaluate(focused) == "answer":
            break
    opened.keyboard.press("End")
    assert opened.locator("#answer button:focus").get_attribute("aria-label").startswith("3, the last digit of the day")
    opened.keyboard.press("ArrowLeft")
    assert opened.locator("#answer [aria-pressed=true]").get_attribute("aria-label").startswith("0, the first digit")
    opened.keyboard.press("Home")
    opened.keyboard.press("ArrowLeft")  # nothing is there
    assert opened.evaluate("[...document.querySelectorAll('#answer button')].indexOf(document.activeElement)") == 0
    opened.keyboard.press("Tab")
    assert opened.evaluate(focused) == "typed"
    for key, day in (("ArrowUp", "04"), ("ArrowDown", "03"), ("Enter", "04")):
        opened.keyboard.press(key)
        assert opened.evaluate(focused) == "typed"
        assert answer(opened) == f"2011-05-{day}"
    opened.keyboard.press("Shift+Tab")
    assert opened.evaluate(focused) == "answer"


@pytest.mark.parametrize(
    ("text", "letters", "sentence"),
    [
        ("", 0, "There's nothing to read yet"),
        ("   ", 0, "There's nothing to read yet"),
        ("сегодня", 0, "No character of your text was in the dates it learned from"),
        ("20 July 1969 ☃", 10, "It has never met “☃”: no head can look there"),
        ("the day after tomorrow", 10, "It's unsure about"),
        ("31 February 2023", 10, "2023-02-31 isn't a day of the Gregorian calendar"),
        ("20 July 1969" + " and then" * 20, 10, "Your text has 192 characters; the longest date it learned from has"),
        ("1" * 5000, 10, "Only the first 200 of your 5,000 characters are read"),
        ("Monday, 20 July 1969", 10, "The weekday in your text is another one"),
        ("mardi 20 juillet 1969", 10, "The weekday in your text is another one"),
        ("my 20 July 1969", 10, "Your text isn't one of the spellings it learned"),
        ("<img src=x onerror=alert(1)>", 10, "no head can look there"),
    ],
)
def test_a_text_that_is_no_date_is_read_and_the_page_says_so(opened, text, letters, sentence):
    opened.fill("#text", text)
    assert len(answer(opened)) == letters
    assert sentence in opened.inner_text("#said")
    assert "spells it the same way" not in opened.inner_text("#said")
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_address_holds_what_is_read_of_a_long_text(opened):
    opened.fill("#text", "20 July 1969" + " and then" * 100_000)
    opened.keyboard.press("Tab")
    assert opened.evaluate("decodeURIComponent(location.hash).length") == 1 + 200


def test_a_browser_that_refuses_a_new_address_keeps_the_focus(opened):
    """Safari does after a hundred in a few seconds, as while an arrow key is held down."""
    opened.evaluate("() => { history.replaceState = () => { throw new DOMException('too many', 'SecurityError'); }; }")
    opened.locator("#typed button").first.focus()
    before = opened.locator("#text").input_value()
    opened.keyboard.press("ArrowUp")
    assert opened.locator("#text").input_value() != before
    assert opened.evaluate("Boolean(document.activeElement.closest('#typed'))")


def test_the_address_leads_back_to_the_text(page, site):  # noqa: F811
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}try.html")
    page.fill("#text", "20. listopada 1969.")
    page.keyboard.press("Enter")
    page.locator("#typed button").last.click()  # 1960
    assert page.url.endswith("try.html#20.%20listopada%201960.")
    page.reload()
    assert (page.input_value("#text"), answer(page)) == ("20. listopada 1960.", "1960-10-20")
    page.goto(f"{site}try.html#3%20May%202011")  # the same page
    page.wait_for_function("document.getElementById('text').value == '3 May 2011'")
    assert answer(page) == "2011-05-03"
    for broken in ("#%E0%A4%A", "#"):
        page.goto("about:blank")
        page.goto(f"{site}try.html{broken}")
        assert answer(page) == "1969-07-20"


@pytest.mark.parametrize("opened", ["no-preference"], indirect=True)
def test_letters_appear_one_after_another_and_typing_waits_for_no_show(opened):
    waiting = opened.locator("#answer .waiting")
    opened.locator("#languages button").first.click()
    seen = [waiting.count()]
    while seen[-1] > 0:
        opened.wait_for_timeout(40)
        seen.append(waiting.count())
    assert seen[0] >= 7
    assert len({*seen}) > 3
    assert seen == sorted(seen, reverse=True)
    opened.locator("#languages button").last.click()
    opened.locator("#answer button").nth(1).hover()
    assert waiting.count() == 0
    opened.fill("#text", "3 May 2011")
    assert waiting.count() == 0
    assert answer(opened) == "2011-05-03"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_both_pages_fit_and_can_be_read(page, site, width, theme):  # noqa: F811
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    for name in ("index.html", "try.html"):
        page.goto(f"{site}{name}")
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert (
            page.evaluate(CONTRAST, "h1, p, a, button, figcaption, summary, code, #answer button, .letter, #looks b")
            >= 4.5
        )
    cut = "all => all.filter(each => each.getBoundingClientRect().right > innerWidth).length"
    assert page.locator("main *:not(pre *)").evaluate_all(cut) == 0
    sizes = "all => Math.min(...all.flatMap(({ offsetWidth, offsetHeight }) => [offsetWidth, offsetHeight]))"
    assert page.locator("button").evaluate_all(sizes) >= 24  # for a finger


@pytest.mark.parametrize("width", [390, 1280])
def test_the_three_doors_are_on_the_first_screen(page, site, width):  # noqa: F811
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.goto(f"{site}index.html")
    doors = page.locator(".doors > li")
    assert [door.locator("h2").inner_text() for door in doors.all()] == [
        "Try it now",
        "Start on your machine",
        "Teach with it",
    ]
    ends = doors.evaluate_all("all => all.map(each => each.getBoundingClientRect().bottom)")
    assert max(ends) <= WIDTHS[width]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#command")
    assert re.search(r"\bmake\b.* lab$", page.inner_text("#command"))


def test_the_films_stand_still_where_motion_is_not_wanted(page, site):  # noqa: F811
    for motion, ending in (("no-preference", "gif"), ("reduce", "png")):
        page.emulate_media(reduced_motion=motion)
        page.goto(f"{site}index.html")
        films = page.locator("picture img")
        assert films.count() == 2
        for film in films.all():
            film.scroll_into_view_if_needed()
            page.wait_for_function("film => film.complete && film.naturalWidth > 0", arg=film.element_handle())
            assert film.evaluate("film => film.currentSrc").endswith(ending)


def test_a_theme_that_was_chosen_counts_on_all_pages(page, site):  # noqa: F811
    page.emulate_media(color_scheme="light")
    page.goto(f"{site}index.html")
    page.locator("#theme").click()
    for name in ("try.html", "course.html", "index.html"):
        page.goto(f"{site}{name}")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.inner_text("#theme") == "Light"


def test_the_reader_is_there_within_a_second_on_a_slow_phone(page, site):  # noqa: F811
    assert (SITE / "try.html").stat().st_size <= 300_000
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    took = []
    for _ in range(3):  # others may be busy on this machine, too: the best counts
        page.goto("about:blank")
        page.goto(f"{site}try.html", wait_until="load")
        took.append(page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"))
        assert answer(page)
    assert min(took) < 1000  # ms, on a processor that is slowed down four times
    keystroke = (
        "text => { const start = performance.now(); show(text, { play: false }); return performance.now() - start; }"
    )
    took = [page.evaluate(keystroke, "the day after tomorrow"[:end]) for end in range(3, 23)]
    assert sorted(took)[10] < 200
