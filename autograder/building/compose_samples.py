"""Sample submissions, each composed from a lesson's release and a small text with the answers alone.

`samples/LESSON/STUDENT.py` is py:percent text; a cell's title is the grade id of the answer that it gives:

    # %% pairwise_dot
    def pairwise_dot(x, y):
        return x @ y.mT

What cannot be Python code, such as a syntax error, stands as a comment in a cell marked `active="ipynb"`.
"""

from copy import deepcopy
from pathlib import Path

import jupytext
from nbformat import NotebookNode

from autograder.lesson_text.layout import Layout, shown
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.showing.errors import CourseError


def compose(release: NotebookNode, answers: dict[str, str], where: str) -> NotebookNode:
    """The released notebook with the answers filled in; a CourseError for an answer to nothing."""
    notebook = deepcopy(release)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
    for name, answer in answers.items():
        if name not in cells or not cells[name].metadata.nbgrader.solution:
            raise CourseError(f"{where} answers {name!r}, which the lesson does not ask.")
        cells[name].source = answer
    return notebook


def read_answers(path: Path) -> dict[str, str]:
    """The answers in a sample's text by grade id."""
    cells = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent").cells
    return {
        cell.metadata["title"]: cell.source for cell in cells if cell.cell_type == "code" and "title" in cell.metadata
    }


def compose_samples(layout: Layout, releases: Path, submitted: Path) -> int:
    """Write every sample as a submission, STUDENT/LESSON/LESSON.ipynb under `submitted`; returns how many."""
    samples = sorted(path for path in layout.samples.glob("*/*.py") if path.parent.name in layout.lessons())
    for path in samples:
        student, lesson = path.stem, path.parent.name
        release = read_notebook(releases / lesson / f"{lesson}.ipynb")
        notebook = compose(release, read_answers(path), shown(path))
        write_notebook(notebook, submitted / student / lesson / f"{lesson}.ipynb")
    return len(samples)
