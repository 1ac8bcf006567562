"""A page of a submission costs little to make: what nbgrader's libraries are slow with never reaches them."""

import nbconvert.filters.markdown_mistune as mistune_filter
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder.in_nbgrader.pages.page import Page
from autograder.judging.bound_display import MOST_PRINTED_IN_ALL, MOST_TEXT_IN_ALL, MOST_WORK, bound_display
from autograder.lesson_text.lesson import LANGUAGE

SLOW = [
    "*a ",
    "\\\\(a ",
    "\\begin{a} ",
    "1. a\n",
    "[a](",
    "](",
    "](<",
    "`",
    "$$",
    "> - ",
    "<b ",
    "\n~~~a",
    "[a]: b\n",
    "<!--",
]


def notebook(*cells):
    for number, cell in enumerate(cells):
        cell.id = f"{number}"
    return new_notebook(cells=list(cells), metadata={"language_info": dict(LANGUAGE)})


def parsed(shown, monkeypatch) -> list[int]:
    """The lengths of the texts in which the page's maker looked for markup."""
    lengths = []
    inner = mistune_filter.MathInlineParser.parse

    def parse(self, state):
        lengths.append(len(state.src))
        return inner(self, state)

    monkeypatch.setattr(mistune_filter.MathInlineParser, "parse", parse)
    Page(exclude_output=True).from_notebook_node(shown)
    return lengths


@pytest.mark.slow
@pytest.mark.parametrize("unit", SLOW)
def test_of_long_text_no_character_is_taken_for_markup(unit, monkeypatch):
    text = (unit * 50_000)[:48_000]
    shown = bound_display(notebook(new_markdown_cell("*a*"), new_markdown_cell(text)))
    assert sum(length**2 for length in parsed(shown, monkeypatch)) <= MOST_WORK


def test_many_cells_have_one_budget():
    cells = [new_markdown_cell("*a " * 3000) for _ in range(500)]
    shown = bound_display(notebook(*cells)).cells
    markup = [cell for cell in shown if not cell.source.startswith("~~~")]
    assert 0 < sum(len(cell.source) ** 2 for cell in markup) <= MOST_WORK
    assert sum(len(cell.source) for cell in shown) < MOST_TEXT_IN_ALL + 100 * len(cells)


def test_text_that_is_as_long_as_a_lesson_is_shown_as_it_is(source):
    before = [cell.source for cell in source.cells]
    source.cells.append(new_markdown_cell("*An essay.* " * 500))
    shown = bound_display(NotebookNode(source))
    assert [cell.source for cell in shown.cells] == [*before, "*An essay.* " * 500]
    assert "pygments_lexer" not in shown.metadata.language_info


def test_a_fence_is_longer_than_any_in_the_text():
    shown = bound_display(notebook(new_markdown_cell("~~~~~\n<b>" + "x" * 20_000)))
    assert shown.cells[0].source.startswith("~~~~~~\n~~~~~\n<b>")
    assert "&lt;b&gt;" in Page().from_notebook_node(shown)[0]


def test_long_code_is_shown_without_colours(monkeypatch):
    shown = bound_display(notebook(new_code_cell("a" + ".a" * 20_000)))
    assert shown.metadata.language_info.pygments_lexer == "text"
    assert shown.cells[0].source == "a" + ".a" * 20_000
    assert '<span class="n">' not in Page().from_notebook_node(shown)[0]
    coloured = bound_display(notebook(new_code_cell("a.a")))
    assert '<span class="n">' in Page().from_notebook_node(coloured)[0]


def test_what_cells_print_has_one_budget():
    printed = [
        new_output("stream", name="stdout", text="x" * 2_000),
        new_output("error", ename="E", evalue="<" * 4_000),
    ]
    verdict = new_output("execute_result", {"text/plain": "1.0"}, execution_count=1)
    cells = [new_code_cell(outputs=list(printed)) for _ in range(4_000)] + [new_code_cell(outputs=[verdict])]
    shown = bound_display(notebook(*cells)).cells
    assert shown[0].outputs == printed
    assert sum(len(str(cell.outputs)) for cell in shown) < MOST_PRINTED_IN_ALL + 200 * len(cells)
    assert [output.text for output in shown[-2].outputs] == ["… (left out: other cells print too much)"]
    assert shown[-1].outputs == [verdict]
