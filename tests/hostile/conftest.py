"""A course with the tiny lesson and lesson 02, and the class that hands in what must not do any harm."""

import functools
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from entries import LESSONS, ROOT
from tiny_course import make_layout

from autograder.build_course import prepare
from autograder.errors import CourseError
from autograder.layout import Layout
from autograder.sandbox import layers as sandbox_layers
from autograder.sandbox import process


@pytest.fixture(scope="session")
def impatient():
    """Lower limits: what hangs, hangs as well for 5 seconds. Workers are forked, so they have them, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "ASLEEP_SECONDS", 5.0)
        patch.setattr(process, "ASLEEP_IN_ALL_SECONDS", 12.0)
        patch.setattr(process, "Limits", functools.partial(process.Limits, step_cpu_seconds=5.0))
        yield


@pytest.fixture(scope="session")
def layers(request):
    """The layers to attack: those that work here, or those that a test names; skipped, loudly, where there are none."""
    choice = getattr(request, "param", "auto")
    try:
        return sandbox_layers.probe(choice)
    except CourseError as error:
        pytest.skip(f"NOT TESTED: there is no sandbox ({choice}) on this machine. {error}")


@pytest.fixture(scope="session")
def hostile_course(tmp_path_factory) -> Layout:
    """The course, released; nobody has submitted."""
    layout = make_layout(tmp_path_factory.mktemp("hostile"))
    for lesson in LESSONS:
        shutil.copy(ROOT / "solutions" / f"{lesson}.py", layout.solutions)
    prepare(layout, ())
    return layout
