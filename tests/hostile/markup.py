"""The cells of markup.txt, by their names; and a notebook's cell of text for each."""

import re
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_raw_cell

TEXT = Path(__file__).with_name("markup.txt").read_text(encoding="utf-8")
CELLS = {
    name: re.sub("«([0-9a-f]+)»", lambda found: chr(int(found[1], 16)), text).removesuffix("\n")
    for name, text in re.findall(r"^=== (\w+)\n(.*?\n)(?=\n===|\Z)", TEXT, re.MULTILINE | re.DOTALL)
}


def with_hostile_text(notebook: NotebookNode) -> None:
    """Put each of them below the notebook's first cell, as text and as a raw cell."""
    notebook.cells[1:1] = [make(text) for text in CELLS.values() for make in (new_markdown_cell, new_raw_cell)]
