"""A course with one tiny lesson, in a folder of its own."""

import re
from pathlib import Path
from types import SimpleNamespace

from nbgrader.api import Base

from attnlib.checks import exercises
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook

DATA = Path(__file__).parent / "data"
TINY = "00_tiny"
HANGS = 1800
"""Seconds after which a test takes something for hanging: no machine is so slow, and nothing else depends on it."""

RIGHT = {
    "predict_largest_dot": 'largest_dot = "B"',
    "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ y.transpose(-2, -1)",
}
POINTS = {name: exercises()[name].points for name in RIGHT}
EXERCISES = {name: SimpleNamespace(name=name, lesson=TINY, points=points) for name, points in POINTS.items()}


def tiny_text() -> str:
    """The tiny lesson."""
    return (DATA / "tiny_lesson.txt").read_text(encoding="utf-8")


def make_layout(folder: Path) -> Layout:
    """An empty course around the tiny lesson."""
    layout = Layout(
        solutions=folder / "solutions",
        notebooks=folder / "notebooks",
        course=folder / "course",
        samples=folder / "samples",
        readme=folder / "README.md",
    )
    layout.solutions.mkdir(parents=True)
    (layout.solutions / f"{TINY}.py").write_text(tiny_text(), encoding="utf-8")
    return layout


class Class:
    """A course to which students submit."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.course = NbgraderCourse(layout.course)
        self.submitted = layout.course / "submitted"

    def release(self):
        """A fresh copy of the released notebook."""
        return read_notebook(self.layout.course / "release" / TINY / f"{TINY}.ipynb")

    def submit(self, student: str, answers: dict[str, str] | None = None, change=None) -> Path:
        """Submit the release with answers filled in, after `change(notebook)` if there is one."""
        notebook = self.release()
        for name, answer in (answers or {}).items():
            cell(notebook, name).source = answer
        if change is not None:
            notebook = change(notebook) or notebook
        path = self.submitted / student / TINY / f"{TINY}.ipynb"
        write_notebook(notebook, path)
        return path

    def scores(self, student: str) -> dict[str, float]:
        """What the gradebook holds, by the test's grade id."""
        with self.course.gradebook() as gradebook:
            submission = gradebook.find_submission_notebook(TINY, TINY, student)
            return {grade.name: grade.auto_score for grade in submission.grades}


def cell(notebook, name: str):
    """The cell with that grade id."""
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


RANDOM = re.compile("[0-9a-f]{32}")


def tables(klass):
    """All rows of the gradebook: where one names another by its random id, that other row stands."""
    found, by_id = {}, {}
    with klass.course.gradebook() as book:
        for table in Base.metadata.sorted_tables:
            found[table.name] = []
            for row in book.db.execute(table.select()).mappings():
                own = [name for name, value in row.items() if name != "id" or not RANDOM.fullmatch(str(value))]
                content = [(name, by_id.get(row[name], row[name])) for name in own]
                by_id[row.get("id")] = (table.name, *content)
                found[table.name].append(repr(content))
    return {name: sorted(rows) for name, rows in found.items()}
