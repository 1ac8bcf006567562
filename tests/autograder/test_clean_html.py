"""Whatever a student writes as text, a page's scripts, ids, fields and addresses are those that its template writes."""

import html
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell
from traitlets.config import Config

from autograder.in_nbgrader.pages.page import LONGEST_KEPT, UNDESCRIBED, Page, from_markdown, highlighted
from autograder.in_nbgrader.pages.policy import TEMPLATES
from autograder.showing.clean_html import ATTRIBUTES, TAGS, cleaned

sys.path.append(str(Path(__file__).parents[1] / "hostile"))

from markup import CELLS

RESOURCES = {
    "base_url": "",
    "nbgrader": {"notebook": "a", "score": 1, "max_score": 2, "late_penalty": 0},
    **dict.fromkeys(("first_name", "last_name", "student", "notebook_id"), "<img src=x>"),
    "index": 0,
    "total": 1,
}


class Tags(HTMLParser):
    """The elements with their attributes, in the order in which they are opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def shown(text: str) -> str:
    return str(cleaned(from_markdown(text)))


def page_of(cells, template: str) -> str:
    config = Config()
    config.HTMLExporter.template_name = template
    config.HTMLExporter.extra_template_basedirs = [str(TEMPLATES)]
    css = TEMPLATES.parent / "static" / "node_modules" / "bootstrap" / "dist" / "css"
    config.HTMLExporter.extra_template_paths = [str(css)]
    config.HTMLExporter.sanitize_html = True
    for number, cell in enumerate(cells):
        cell.id = f"{number}"
    return Page(config=config, nonce="secret").from_notebook_node(new_notebook(cells=cells), dict(RESOURCES))[0]


@pytest.mark.parametrize("name", CELLS)
def test_of_a_text_only_what_is_on_the_lists_is_left(name):
    for tag, attributes in Tags(shown(CELLS[name])).found:
        assert tag in TAGS
        assert set(attributes) <= ATTRIBUTES.get(tag, set()) | {"class", "rel"}
        assert re.match(r"https?://|mailto:", attributes.get("href") or "https://"), attributes
        assert re.fullmatch(r"(text-align:(left|center|right))?", attributes.get("style") or "")


OUTPUTS = {
    "text/html": "<script>hostile(1)</script><form id=a><b>b</b></form>",
    "text/markdown": CELLS["an_autolink_below_a_table"],
    "text/latex": "<script>hostile(1)</script>$\\href{javascript:hostile(2)}{x}$",
    "text/plain": "\x1b[31m<script>hostile(1)</script>\x1b]8;;javascript:hostile(2)\x07x",
}


def of_the_template(cells, template: str) -> tuple[Counter[str], ...]:
    """What of a page is not a student's to write: elements, and what may name, run or load something."""
    tags = Tags(page_of(cells, template)).found
    kinds = [Counter(f"{kind} {of[kind]}" for _, of in tags if kind in of) for kind in ("id", "name", "src", "nonce")]
    handlers = Counter(f"{name} {of[name]}" for _, of in tags for name in of if name.startswith("on"))
    return Counter(tag for tag, _ in tags if tag not in TAGS), *kinds, handlers


@pytest.mark.parametrize("template", ["formgrade", "feedback"])
def test_a_page_has_the_elements_of_its_template_whatever_is_shown(template):
    hostile = [make(text) for text in CELLS.values() for make in (new_markdown_cell, new_raw_cell, new_code_cell)]
    harmless = [type(cell)(cell, source="a") for cell in hostile]
    for cells, data in ((hostile, OUTPUTS), (harmless, dict.fromkeys(OUTPUTS, "a"))):
        cells.append(new_code_cell("a", outputs=[new_output("display_data", {of: data[of]}) for of in data]))
    assert of_the_template(hostile, template) == of_the_template(harmless, template)


@pytest.mark.parametrize("kind", ["application/javascript", "image/svg+xml"])
def test_scripts_and_pictures_as_outputs_run_nothing(kind):
    shows = new_output("display_data", {kind: "<svg onload='hostile(1)'><script>hostile(2)</script></svg>"})
    assert "hostile" not in page_of([new_code_cell("a", outputs=[shows])], "formgrade")  # a picture is an <img>


@pytest.mark.parametrize("template", ["formgrade", "feedback"])
def test_every_picture_has_words(template):
    """nbconvert would add them to the finished page, and parse all of it for that."""
    kinds = ("image/png", "image/jpeg", "image/svg+xml")
    bare = [new_output("display_data", {kind: "<svg/>"}) for kind in kinds]
    told = new_output("display_data", {"image/png": "a"}, metadata={"image/png": {"alt": "x > a line"}})
    tags = Tags(page_of([new_code_cell("a", outputs=[*bare, told])], template))
    alts = [attributes["alt"] for tag, attributes in tags.found if tag == "img"]
    assert alts == [UNDESCRIBED, UNDESCRIBED, UNDESCRIBED, "x > a line"]


def test_what_is_kept_of_one_page_stands_in_no_other():
    """Cells of the same text share their HTML, if they are in the same language."""
    shell = [new_code_cell("%%bash\necho"), new_code_cell("echo")]
    pages = [page_of([new_code_cell(text), *shell], "feedback") for text in ("a = 1", "a = 2", "a = 1")]
    assert pages[0] == pages[2] != pages[1]
    assert [page.count('<span class="mi">2</span>') for page in pages] == [0, 1, 0]
    assert all(f'<span class="{of}">echo</span>' in page for page in pages for of in ("nb", "n"))


def test_long_cells_are_not_kept():
    """Else a few thousand of them would fill the memory of a watch."""
    cells = [of("x" * (LONGEST_KEPT + 1)) for of in (new_code_cell, new_markdown_cell)]
    before = [made.cache_info().currsize for made in (highlighted, from_markdown)]
    assert "x" * LONGEST_KEPT in page_of(cells, "feedback")
    assert [made.cache_info().currsize for made in (highlighted, from_markdown)] == before


def test_a_student_s_name_is_text():
    assert "&lt;img src=x&gt;, &lt;img src=x&gt;" in page_of([], "formgrade")


def test_feedback_s_list_of_contents_names_the_exercises_with_their_points():
    cells = [new_code_cell("def softmax(): ...", metadata={"nbgrader": {"grade_id": "softmax", "solution": True}})]
    cells[0].metadata.nbgrader |= {"grade": False, "comment": "Nearly!"}
    for name, score, most in (("test_softmax", 2.5, 5.0), ("test_scores", 4, 4)):
        of = {"grade_id": name, "grade": True, "solution": False, "score": score, "points": most}
        cells.append(new_code_cell("check()", metadata={"nbgrader": of}))
    contents = re.search(r'<div id="toc">.*?</div>', page_of(cells, "feedback"), re.DOTALL)[0]
    lines = [re.sub(r"<[^>]*>", "", line).strip() for line in contents.split("</li>")[:-1]]
    assert lines == ["Comment on softmax", "softmax: 2.5 of 5 points", "scores: 4 of 4 points"]
    assert 'href="#test_softmax"' in contents


def test_formulas_reach_mathjax_as_they_were_written():
    text = (
        "$a_1<b_2$, $x*y*z$ and\n\n$$\\begin{pmatrix}a & b\\\\ c & d\\end{pmatrix}$$\n\n\\begin{align}a&=b\\end{align}"
    )
    page = html.unescape(shown(text))
    for formula in (
        "$a_1<b_2$",
        "$x*y*z$",
        "$$\\begin{pmatrix}a & b\\\\ c & d\\end{pmatrix}$$",
        "\\begin{align}a&=b\\end",
    ):
        assert formula in page


def test_plain_markup_of_a_lesson_stays():
    text = "## A *b* `c`\n\n> d\n\n1. e\n\n| f | g |\n|:-:|---|\n| h | i |\n\n<details><summary>j</summary>k</details>"
    page = shown(text + "\n\n```python\nimport torch\n```")
    for tag in ("h2", "em", "code", "blockquote", "ol", "table", "details", "summary", 'td style="text-align:center"'):
        assert f"<{tag}>" in page, tag
    assert '<span class="kn">import</span>' in page


LEADING_SOMEWHERE = [
    "[a](beside.html)",
    "[a](  <beside.html> 'title')",
    "[a](\nbeside.html)",
    "![a](beside.svg)",
    "[![a](beside.svg)](beside.html)",
    "[a][b]\n\n[b]: beside.html",
    "[b]\n\n  [b]:\n  <beside.html> 'title'",
    "[a](files/beside.html)",
    "![a](attachment:beside.svg)",
    "[a](/formgrader/submissions/x/beside.html)",
    "[a](//host/beside.html)",
    "[a](\\https://x)",
    "[a](java&#115;cript:f())",
    "<a href='beside.html'>a</a>",
    "<A\nHREF=beside.html>a</A>",
    "<javascript:f()>",
    "| a |\n|---|\n| [a](beside.html) |",
    "> [a]: beside.html\n\n[a]",
    "[a](beside.html#https://x)",
    "[a](#part)",
]


@pytest.mark.parametrize("text", LEADING_SOMEWHERE)
def test_no_link_of_a_student_s_leads_to_a_file_or_into_the_page(text):
    assert not re.search(r"<[^>]*\b(href|src)\s*=", shown(text), re.IGNORECASE), shown(text)


@pytest.mark.parametrize(
    "text", ["![a](https://x.org/a.png)", "![a][b]\n\n[b]: https://x.org/a.png", "[![a](https://x)](#b)"]
)
def test_a_picture_on_the_web_is_not_loaded(text):
    assert "<img" not in shown(text)


@pytest.mark.parametrize("target", ["https://arxiv.org/abs/1706.03762", "HTTP://x.org", "mailto:a@b.org"])
def test_links_to_the_web_stay(target):
    for text in (f"[a]({target})", f"[a](<{target}>)", f"[a][b]\n\n[b]: {target}"):
        assert f'href="{target}"' in shown(text)
