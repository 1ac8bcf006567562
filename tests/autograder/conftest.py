"""Fixtures around the tiny course."""

import dataclasses
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this folder is called autograder, too: the package must be found first

import unbounded  # noqa: E402
from tiny_course import TINY, Class, make_layout  # noqa: E402

from autograder.building.build_course import prepare  # noqa: E402
from autograder.grading import grade_course  # noqa: E402
from autograder.grading.workers import Crew  # noqa: E402
from autograder.judging.submission import Judged  # noqa: E402
from autograder.lesson_text.layout import Layout  # noqa: E402
from autograder.lesson_text.lesson import read_lesson  # noqa: E402
from autograder.lesson_text.notebook import read_notebook  # noqa: E402
from autograder.sandbox.probe import probe  # noqa: E402


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


@pytest.fixture(autouse=True)
def _what_reads_a_submission_is_bounded():
    """Whatever a test is about, no line of the grader reads a student's file with all of the machine's memory."""
    unbounded.watch()
    yield
    found = [*unbounded.READ]
    unbounded.READ.clear()
    assert not found


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


@pytest.fixture
def klass(prepared, tmp_path) -> Class:
    """An own copy of the prepared course."""
    shutil.copytree(prepared.course, tmp_path / "course")
    return Class(dataclasses.replace(prepared, course=tmp_path / "course"))


@pytest.fixture
def run(klass, monkeypatch) -> Callable[[], list[str]]:
    """Grade the class with a judge that finds nothing to judge; say which students it was asked about."""
    seen: list[str] = []

    def unfit(crew, tasks, layers):
        for task in tasks:
            seen.append(task.student)
            yield [Judged(task.student, task.lesson, problem="not judged")]

    monkeypatch.setattr(Crew, "judge", unfit)

    def run() -> list[str]:
        seen.clear()
        grade_course.grade(klass.layout, klass.submitted, (TINY,), grade_course.How(layers=probe("none")))
        return list(seen)

    return run


@pytest.fixture
def sandboxed() -> None:
    """What asks for this is skipped where there is no sandbox (see tests/conftest.py)."""
    probe()
