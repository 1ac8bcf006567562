"""Hostile cells, opened in the formgrader, in feedback and in the class report: nothing runs, loads or covers."""

import os
from datetime import date

import pytest
from jupyter_servers import jupyter_lab
from markup import CELLS, with_hostile_text
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from tiny_course import RIGHT, TINY, Class, make_layout

from attnlib.checks import exercises
from autograder.building.build_course import prepare
from autograder.grading.grade_course import How, grade
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.pages.policy import MATHJAX
from autograder.lesson_text.layout import CONFIG
from autograder.report.analysis import analyse, shared_misconceptions
from autograder.report.collect import collect
from autograder.report.page import page as report_page
from autograder.sandbox.probe import probe

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STUDENT = "ada <img src=x onerror=hostile('folder')>"
NAMES = {"first_name": "<img src=x onerror=hostile('first')>", "last_name": "</script><script>hostile('last')</script>"}
ANSWER = """print("<script>hostile('printed')</script>", "\\x1b]8;;javascript:hostile(1)\\x07x")
# </script></pre><script>hostile('source')</script>


class Wrong(Exception):
    "<script>hostile('class')</script>"


def pairwise_dot(x, y):
    raise Wrong("<script>hostile('raised')</script><img src=x onerror=hostile('raised')>")
"""
WATCH = """window.ran = [];
window.hostile = name => window.ran.push(String(name));
document.addEventListener("securitypolicyviolation", event => window.ran.push(event.violatedDirective));
"""


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """A course in which one student handed in every hostile cell, graded, with feedback."""
    layout = make_layout(tmp_path_factory.mktemp("hostile"))
    prepare(layout, ())
    klass = Class(layout)
    klass.submit(STUDENT, {**RIGHT, "pairwise_dot": ANSWER}, with_hostile_text)
    (graded,) = grade(layout, klass.submitted, (TINY,), How(layers=probe("auto")))
    assert graded.problem is None
    with klass.course.gradebook() as gradebook:
        gradebook.update_or_create_student(STUDENT, **NAMES)
    klass.course.generate_feedback(TINY)
    return layout


@pytest.fixture(scope="module")
def lab(layout, tmp_path_factory):
    """JupyterLab in the course's folder."""
    text = f"c = get_config()\nload_subconfig({str(CONFIG)!r})\nc.CourseDirectory.root = {str(layout.course)!r}\n"
    (layout.course.parent / "nbgrader_config.py").write_text(text, encoding="utf-8")
    with jupyter_lab(layout.course.parent, tmp_path_factory.mktemp("jupyter")) as address:
        yield address


@pytest.fixture
def home(lab, opened):
    """The server's address, where the page has logged in."""
    opened.goto(lab.format("tree"))
    opened.goto("about:blank")
    opened.asked.clear()
    return lab.partition("{}")[0]


@pytest.fixture
def opened(page):
    """A page that notes what runs, and whom it asks; its MathJax is from the folder MATHJAX, if that names one."""
    asked = page.asked = asked_by(page)
    page.on("dialog", lambda dialog: (asked.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.context.add_init_script(WATCH)
    if folder := os.environ.get("MATHJAX"):
        page.route(f"{MATHJAX}**", lambda route: route.fulfill(path=f"{folder}/{file_of(route.request.url)}"))
    page.context.route("**elsewhere.test/**", lambda route: route.abort())
    return page


def asked_by(page) -> list[str]:
    """The addresses that the page asks for, from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def file_of(url: str) -> str:
    return url.removeprefix(MATHJAX).partition("?")[0]


def has_mathjax(page) -> bool:
    return page.evaluate("Boolean(window.MathJax && MathJax.Hub)")


def settled(page) -> None:
    """Wait until all is loaded, and typeset where MathJax can be had."""
    page.wait_for_load_state("load")
    if has_mathjax(page):
        page.evaluate("new Promise(done => MathJax.Hub.Queue(done))")
    page.wait_for_timeout(1000)  # what would start by itself has started


def assert_nothing_ran(page, home: str) -> None:
    settled(page)
    assert page.evaluate("window.ran") == []
    strangers = [url for url in page.asked if not url.startswith((home, MATHJAX, "data:", "chrome-error:"))]
    assert strangers == []
    assert page.locator("iframe, object, embed, form, base, [autofocus]").count() == 0
    assert page.evaluate("getComputedStyle(document.body).display") == "block"
    for link in page.locator(".rendered_html a[href]").all():
        assert link.get_attribute("href").lower().startswith(("https://", "http://", "mailto:"))


def is_on_top(page, field) -> bool:
    """Whether a click on the middle of the field is one on it."""
    field.scroll_into_view_if_needed()
    page.wait_for_timeout(700)  # the formgrader scrolls by itself
    at = "field => { const box = field.getBoundingClientRect(); return document.elementFromPoint("
    return field.evaluate(at + "box.x + box.width / 2, box.y + box.height / 2) === field }")


def test_many_of_them_run_or_load_something_by_themselves_where_nothing_is_cleaned(opened):
    at_work, body = set(), ""
    opened.context.route("**/*", lambda route: route.abort())
    opened.context.route("http://plain.test/", lambda route: route.fulfill(body=body, content_type="text/html"))
    for name, text in CELLS.items():
        if "attachment:" in text:  # which stops nbconvert itself
            continue
        body = f"<!doctype html><body>{markdown2html_mistune(text)}"
        page = opened.context.new_page()
        asked = asked_by(page)
        page.goto("http://plain.test/", wait_until="commit")
        page.wait_for_timeout(200)
        if len(asked) > 1 or page.evaluate("(window.ran || []).length"):
            at_work.add(name)
        page.close()
    assert "an_autolink_below_a_table" in at_work
    assert len(at_work) >= 25, sorted(at_work)  # the others wait for a click, cover something, or need another mistake


def test_the_formgrader_runs_and_loads_nothing_of_a_student_s(home, layout, opened):
    page = opened
    page.goto(f"{home}formgrader/gradebook/{TINY}/{TINY}")
    page.get_by_role("link", name="Submission #1").wait_for()
    page.get_by_role("button", name="Show All Names").click()
    page.get_by_text(NAMES["last_name"]).wait_for()
    assert_nothing_ran(page, home)
    page.get_by_role("link", name="onerror=hostile").click()
    settled(page)
    fields = page.locator("input.score")
    assert [field.get_attribute("id") for field in fields.all()] == [f"test_{name}" for name in RIGHT]
    for name in RIGHT:
        field = page.locator(f"#test_{name}")
        assert field.count() == 1
        assert field.get_attribute("type") == "number"
        assert is_on_top(page, field)
    assert page.locator("#test_pairwise_dot").get_attribute("placeholder") == "0"
    assert page.locator(".nbgrader_cell").count() == 2 * len(RIGHT)
    with page.expect_response(lambda answer: "/api/grade/" in answer.url and answer.request.method == "PUT"):
        page.locator("#test_pairwise_dot").fill("1")
        page.keyboard.press("Tab")
    page.locator(".glyphicon-eye-open").click()
    page.get_by_text(NAMES["last_name"]).wait_for()
    assert_nothing_ran(page, home)
    with NbgraderCourse(layout.course).gradebook() as gradebook:
        grades = gradebook.find_submission_notebook(TINY, TINY, STUDENT).grades
        assert {grade.name: grade.manual_score for grade in grades} == {
            "test_predict_largest_dot": None,
            "test_pairwise_dot": 1,
        }


@pytest.mark.parametrize("place", ["manage_students", "manage_assignments", f"manage_submissions/{TINY}", "gradebook"])
def test_no_other_page_of_the_formgrader_runs_a_name(home, opened, place):
    opened.goto(f"{home}formgrader/{place}")
    opened.locator("#main-table tr td a").first.wait_for()
    assert_nothing_ran(opened, home)


def test_a_form_of_the_formgrader_still_opens(home, opened):
    opened.goto(f"{home}formgrader/manage_students")
    opened.get_by_role("link", name="Add new student").click()
    field = opened.get_by_text("First name (optional)")
    field.wait_for()
    assert field.is_visible()


def test_the_formgrader_would_run_nothing_that_was_not_cleaned(home, opened):
    opened.goto(f"{home}formgrader/gradebook/{TINY}")
    opened.locator("#main-table tr td a").first.wait_for()
    opened.evaluate("""() => {
        document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=hostile(1)><a href=javascript:hostile(2)>");
        const script = document.createElement("script");
        script.textContent = "hostile(3)";
        document.body.append(script);
        document.body.lastElementChild.previousElementSibling.click();
    }""")
    opened.wait_for_timeout(1000)
    ran = opened.evaluate("window.ran")
    assert ran
    assert not set(ran) & {"1", "2", "3"}


def test_feedback_runs_and_loads_nothing(layout, opened):
    (file,) = layout.course.glob("feedback/*/*/*.html")
    opened.goto(file.as_uri())
    assert_nothing_ran(opened, file.as_uri())
    contents = opened.locator("#toc li").all_inner_texts()
    assert contents == ["predict_largest_dot: 1 of 1 points", "pairwise_dot: 0 of 4 points"]


def test_the_class_report_runs_and_loads_nothing(layout, opened, tmp_path):
    submissions = collect(layout, (TINY,))
    known = exercises()
    html = report_page(analyse(submissions, known), shared_misconceptions(submissions, known), date(2026, 1, 2))
    file = tmp_path / "class.html"
    file.write_text(html, encoding="utf-8")
    opened.goto(file.as_uri())
    assert_nothing_ran(opened, file.as_uri())
    assert "ada <img" in opened.content().replace("&lt;", "<")


def test_formulas_are_typeset_and_name_nothing_outside(home, opened):
    opened.goto(f"{home}formgrader/gradebook/{TINY}/{TINY}")
    opened.get_by_role("link", name="Submission #1").click()
    settled(opened)
    if not has_mathjax(opened):
        pytest.skip(f"NOT TESTED: {MATHJAX} cannot be reached; MATHJAX=FOLDER names a copy of it")
    formulas = opened.locator(".rendered_html .mjx-chtml")
    assert formulas.count() >= 5
    for kind in ("[href]", "[style*=fixed]", ".modal", "#test_pairwise_dot"):
        assert opened.locator(f".mjx-chtml {kind}").count() == 0, kind
    assert opened.locator("nav .mjx-chtml").count() == 0
