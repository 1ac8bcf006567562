"""The folded cell below the title of all students' notebooks but the first: what is due again from earlier lessons."""

import re

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from autograder.lesson_text.lesson import FOLDED

SOURCE = """# Optional: what is due again from earlier lessons. practice.next() opens the first.
from attnlib.checks import practice

practice.due()"""
LATER_LESSON = re.compile(r"(?!00)\d\d_.*")


def due_cells(lesson: str) -> list[NotebookNode]:
    """Return the cell, with the same bytes each time; none for a lesson without earlier ones."""
    cell: NotebookNode = new_code_cell(SOURCE, id="due", metadata=FOLDED)
    return [cell] if LATER_LESSON.fullmatch(lesson) else []
