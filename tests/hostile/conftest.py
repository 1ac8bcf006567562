"""A course with the tiny lesson and lesson 02, and the class that hands in what must not do any harm."""

import dataclasses
import functools
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from entries import LESSONS, ROOT
from tiny_course import make_layout

from attnlib.checks.asking.time_limits import here
from autograder.building.build_course import prepare
from autograder.lesson_text.layout import Layout
from autograder.sandbox import process
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError


@pytest.fixture(scope="session")
def impatient():
    """A fifth of this machine's limits on computing: what hangs, hangs then, too, and a right answer has to do with it.

    So the points of the whole class are those that a machine would give that is five times slower than it takes itself
    for. Workers are forked, and have these limits, too.
    """
    usual = here()
    waits = {"waiting": 3.0, "waiting_again": 1.0, "child_waiting": 5.0, "child_waiting_in_all": 15.0}
    walls = {"start_wall": usual.start_wall, "answer_wall": usual.answer_wall, "child_wall": usual.child_wall}
    limits = dataclasses.replace(usual.slower(1 / 5), **waits, **walls)
    limits = dataclasses.replace(limits, reply_cpu=1.5 * limits.case_cpu)  # to end who switches off its own alarm
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "Limits", functools.partial(process.Limits, time=limits))
        yield


@pytest.fixture(scope="session")
def layers(request):
    """The layers to attack: those that work here, or those that a test names; skipped, loudly, where there are none."""
    choice = getattr(request, "param", "auto")
    try:
        return probe(choice)
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
