"""A student's text is shown to others: no script in it runs. And plain nbgrader gives the same points."""

import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from entries import FULL, TINY, entries, hand_in
from formgrader import formgrader
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from test_nbgrader import nbgrader
from tiny_course import RIGHT, Class

from autograder.grading.grade_course import How, grade
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse

pytestmark = pytest.mark.slow

MARKDOWN = """<script>hostile("script")</script>
<img src="x" onerror="hostile('image')">
<svg onload="hostile('svg')"><a xlink:href="javascript:hostile('link')">x</a></svg>
<iframe srcdoc="<script>hostile('frame')</script>"></iframe>
<details open ontoggle="hostile('details')">text</details>
<style>body { display: none }</style>
[a link](javascript:hostile('markdown')) <b>bold</b>
$\\text{</script><script>hostile('formula')</script>}$
"""
ANSWER = """print("<script>hostile('printed')</script>", "\\x1b]8;;javascript:hostile('terminal')\\x07x\\x1b]8;;\\x07")
# </script></pre><script>hostile('source')</script>


def pairwise_dot(x, y):
    print("<img src=x onerror=hostile('called')>")
    raise ValueError("<script>hostile('raised')</script>")
"""


class Runs(HTMLParser):
    """Notes what a browser would run of all that says `hostile`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag, attributes):
        self.inside = tag if tag in ("script", "style") else ""
        for name, value in attributes:
            text = re.sub(r"[\x00-\x20]", "", value or "").lower()
            if "hostile" in text and (name.startswith("on") or name == "srcdoc" or text.startswith("javascript:")):
                self.found.append(f"{tag} {name}")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside and ("hostile(" in data or "body { display: none" in data):
            self.found.append(self.inside)


def runs(page: str) -> list[str]:
    parser = Runs()
    parser.feed(page)
    return parser.found


def test_what_runs_is_recognised():
    assert len(runs(markdown2html_mistune(MARKDOWN))) >= 7
    assert runs("&lt;script&gt;hostile(1)&lt;/script&gt; <b>bold</b>") == []


@pytest.fixture(scope="module")
def course(hostile_course, tmp_path_factory, layers):
    """A course with one submission full of scripts, graded, with feedback."""
    folder = tmp_path_factory.mktemp("scripts")
    shutil.copytree(hostile_course.course, folder / "course", ignore=shutil.ignore_patterns("submitted", "autograded"))
    layout = dataclasses.replace(hostile_course, course=folder / "course")

    def change(notebook):
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source += "\n\n" + MARKDOWN

    klass = Class(layout)
    klass.submit("scripted", {**RIGHT, "pairwise_dot": ANSWER}, change)
    (graded,) = grade(layout, klass.submitted, (TINY,), How(layers=layers))
    assert graded.problem is None
    NbgraderCourse(layout.course).generate_feedback(TINY)
    return layout


def test_feedback_runs_no_script(course):
    (page,) = course.course.glob("feedback/scripted/*/*.html")
    text = page.read_text(encoding="utf-8")
    assert runs(text) == []
    assert "bold" in text
    assert "hostile(" in text


def test_the_formgrader_runs_no_script(course):
    with formgrader(course.course, course.course.parent) as get:
        (entry,) = json.loads(get(f"formgrader/api/submitted_notebooks/{TINY}/{TINY}"))
        page = get(f"formgrader/submissions/{entry['id']}/")
        policy = get(f"formgrader/submissions/{entry['id']}/", header="Content-Security-Policy")
    assert runs(page) == []
    assert "default-src 'none'" in policy
    (scripts,) = re.findall(r"script-src ([^;]*)", policy)
    assert re.match(r"'nonce-[\w-]+' ", scripts)
    assert "'unsafe-inline'" not in scripts
    assert "hostile(" in page


PLAIN = ("patches_allclose", "patches_the_server", "writes_a_verdict_to_the_channel", "answers_nan", "prints_a_report")
PLAIN += ("a_test_that_gives_points_by_itself", "a_test_copied_with_more_points", "softmax_by_aten", "aborts")
PLAIN += (
    "forges_a_tensor_of_its_own_kind",
    "reads_the_gradebook",
    "kills_everybody",
    "a_kernel_killed_where_names_hide",
)


def test_plain_nbgrader_gives_the_same_points(hostile_course, tmp_path, layers):
    shutil.copytree(
        hostile_course.course, tmp_path / "course", ignore=shutil.ignore_patterns("submitted", "autograded")
    )
    layout = dataclasses.replace(hostile_course, course=tmp_path / "course")
    chosen = [entry for entry in entries() if entry.name in PLAIN or entry.student == "honest-tiny_0"]
    assert len(chosen) == len(PLAIN) + 1
    hand_in(layout, layout.course / "submitted", chosen)
    for lesson in {entry.lesson for entry in chosen}:
        nbgrader("autograde", lesson, course=layout.course)
    with NbgraderCourse(layout.course).gradebook() as gradebook:
        for entry in chosen:
            notebook = gradebook.find_submission_notebook(entry.lesson, entry.lesson, entry.student)
            found = {grade.name: (grade.auto_score, grade.max_score) for grade in notebook.grades}
            for test, (score, most) in found.items():
                wanted = entry.points.get(test.removeprefix("test_"), 0.0)
                assert score == pytest.approx(most if wanted == FULL else wanted, abs=0), (entry.student, test)
