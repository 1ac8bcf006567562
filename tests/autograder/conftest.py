"""A course with one tiny lesson, in a folder of its own."""

import dataclasses
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnlib.checks import exercises
from autograder.build_course import prepare
from autograder.layout import ROOT, Layout
from autograder.lesson import read_lesson
from autograder.nbgrader_course import NbgraderCourse
from autograder.notebook import read_notebook, write_notebook

DATA = Path(__file__).parent / "data"
TINY = "00_tiny"
RIGHT = {
    "predict_largest_dot": 'largest_dot = "B"',
    "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ y.transpose(-2, -1)",
}
POINTS = {name: exercises()[name].points for name in RIGHT}
EXERCISES = {name: SimpleNamespace(name=name, lesson=TINY, points=points) for name, points in POINTS.items()}


@pytest.fixture(scope="session", autouse=True)
def _kernels_find_this_checkout():
    """Kernels import attnlib from here, also where it is not installed."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), before]))
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


def tiny_text() -> str:
    """The tiny lesson, with the points that its exercises have today."""
    text = (DATA / "tiny_lesson.txt").read_text(encoding="utf-8")
    for name, points in POINTS.items():
        text = re.sub(rf'("test_{name}", "locked": true, "points": )1', rf"\g<1>{points}", text)
    return text


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


@pytest.fixture
def layout(tmp_path) -> Layout:
    """The tiny lesson's course, not yet prepared."""
    return make_layout(tmp_path)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Layout:
    """A course that nbgrader has released; copied for each test that grades."""
    layout = make_layout(tmp_path_factory.mktemp("prepared"))
    prepare(layout, ())
    return layout


@pytest.fixture
def released(prepared):
    """The tiny lesson's release."""
    return read_notebook(prepared.course / "release" / TINY / f"{TINY}.ipynb")


@pytest.fixture
def source(prepared):
    """The tiny lesson's source."""
    return read_lesson(prepared.solutions / f"{TINY}.py")


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


@pytest.fixture
def klass(prepared, tmp_path) -> Class:
    """An own copy of the prepared course."""
    shutil.copytree(prepared.course, tmp_path / "course")
    return Class(dataclasses.replace(prepared, course=tmp_path / "course"))


def cell(notebook, name: str):
    """The cell with that grade id."""
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)
