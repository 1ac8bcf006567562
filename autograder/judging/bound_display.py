"""Keep a page of a submission cheap to make, regardless of what a student wrote."""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_output

MOST_WORK = 200_000_000  # sum of squares of the cells' lengths, as rendering is quadratic; a lesson takes a tenth
MOST_TEXT = 100_000
MOST_TEXT_IN_ALL = 1_000_000
MOST_PRINTED_IN_ALL = 200_000  # for each the page's maker takes some twenty times as long as for text


def bound_display(notebook: NotebookNode) -> NotebookNode:
    """Show long text as it is and long code without colours, and cut text and output that nobody would read.

    mistune and pygments, with which nbgrader makes its pages, look ahead from every character of some kinds: a text of
    10,000 asterisks, or of 10,000 names with dots between them, takes them seconds, and ten times as much minutes.
    """
    work, room = MOST_WORK, MOST_TEXT_IN_ALL
    for cell in notebook.cells:
        if cell.cell_type == "code":
            continue
        length = len(cell.source)
        if length > min(room, MOST_TEXT):
            cell.source = f"{cell.source[: min(room, MOST_TEXT)]}\n… (cut: {length} characters)"
        room -= min(room, length)
        work -= length**2
        if work < 0:
            work += length**2
            cell.source = fenced(cell.source)
    if sum(len(cell.source) ** 2 for cell in notebook.cells if cell.cell_type == "code") > MOST_WORK:
        notebook.metadata.setdefault("language_info", NotebookNode())["pygments_lexer"] = "text"
    room = MOST_PRINTED_IN_ALL
    for cell in notebook.cells:
        printed = [o for o in cell.get("outputs", []) if o.output_type in ("stream", "error")]
        room -= len(str(printed)) if printed else 0
        if printed and room < 0:
            cell.outputs = [new_output("stream", name="stdout", text="… (left out: other cells print too much)")]
    return notebook


def fenced(text: str) -> str:
    """The text as a block of code, in which no character means anything.

    >>> print(fenced("*a* ~~~ b"))
    ~~~~
    *a* ~~~ b
    ~~~~
    """
    fence = "~" * (1 + max(2, *(len(run) for run in re.findall("~+", text)), 0))
    return f"{fence}\n{text}\n{fence}"
