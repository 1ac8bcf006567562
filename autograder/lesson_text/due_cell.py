"""The folded cell below the title of every student's notebook but the first: what is due again of earlier lessons."""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.lesson_text.lesson import FOLDED

SOURCE = """# Optional: what is due again from earlier lessons. practice.next() opens the first.
from attnlib.checks import practice

practice.due()"""
LATER_LESSON = re.compile(r"(?!00)\d\d_.*")


def due_cells(lesson: str) -> list[NotebookNode]:
    """The cell, the same bytes each time; none in a lesson that nothing comes before."""
    cell: NotebookNode = new_code_cell(SOURCE, id="due", metadata=FOLDED)
    return [cell] if LATER_LESSON.fullmatch(lesson) else []
