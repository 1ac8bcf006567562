"""Every attack and every clumsy submission in one class, through the real pipeline; `-s` prints the table."""

import dataclasses
import functools
import re
import shutil

import pytest
from deep_folders import remove
from entries import FULL, TINY, Entry, entries, hand_in
from rich.console import Console
from rich.table import Table

from attnlib.checks import run
from autograder.grading.grade_course import Graded, How, grade
from autograder.in_nbgrader.course_files import course_seed
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.verdict import reports
from autograder.lesson_text.notebook import read_notebook
from autograder.sandbox.probe import probe
from autograder.showing.text import printable

ENTRIES = entries()
BROKEN = ("NameError", "AttributeError: 'NoneType'", "ImportError", "got out", "the grader failed")
pytestmark = pytest.mark.slow


WRONG_WHERE_NOBODY_SEES = """def pairwise_dot(x, y):
    part = "gradient" if x.requires_grad else "robustness" if x.dtype.itemsize == 8 else "values"
    return (1.5 if x.shape[0] > 4 and PART in ("values", part) else 1.0) * x @ y.mT
"""


@functools.cache
def said_of_hidden_cases(part: str) -> str:
    """What a student reads whose answer computes something else on hidden inputs, in one part."""
    names = {"PART": part}
    exec(WRONG_WHERE_NOBODY_SEES, names)
    return run("pairwise_dot", names["pairwise_dot"], hidden=True).message


@dataclasses.dataclass
class Found:
    """What came of one student: the row of grade's table, and all the text that the student gets."""

    graded: Graded
    text: str
    said: dict[str, str]
    """The reports' messages, by exercise."""


class ClassOf:
    """What came of a class."""

    def __init__(self, layout, folder, layers, members: list[Entry], workers: int) -> None:
        self.members = members
        hand_in(layout, folder, members)
        graded = grade(layout, folder, (), How(layers=layers, workers=workers))
        course = NbgraderCourse(layout.course)
        self.found = {}
        for one in graded:
            path = course.path(course.directory.autograded_directory, one.student, one.lesson) / f"{one.lesson}.ipynb"
            text, said = "", {}
            if one.problem is None:
                notebook = read_notebook(path)
                said = {report["exercise"]: report["message"] for report in reports(notebook).values()}
                text = "\n".join(said.values())
                text += "\n".join(str(c.get("outputs", "")) for c in notebook.cells)
            self.found[one.student] = Found(one, text, said)

    def faults(self, entry: Entry) -> list[str]:
        """What is not as it must be."""
        found = self.found[printable(entry.student)]
        graded, text = found.graded, found.text
        if entry.problem is not None or graded.problem is not None:
            wanted, got = entry.problem, graded.problem
            fine = wanted is not None and got is not None and got.startswith("not graded") and wanted in got
            return [] if fine else [f"expected the problem {wanted!r}, got {got!r}"]
        faults = []
        for result in graded.results:
            wanted_points = entry.points.get(result.exercise, entry.points.get("*", 0.0))
            wanted_points = result.max_points if wanted_points == FULL else wanted_points
            if result.points != wanted_points:
                faults.append(
                    f"{result.exercise}: {result.points:g} points, not {wanted_points:g} ({result.diagnosis})"
                )
        if not any(words in text for words in entry.says.split("|")):
            said = [*re.findall(r"^[✓✗○] .*", text, re.MULTILINE), found.said.get(entry.exercise, "")]
            faults.append(f"the feedback does not say {entry.says!r}: {said}")
        if entry.remark not in " ".join(graded.remarks):
            faults.append(f"there is no remark {entry.remark!r}: {graded.remarks}")
        if entry.group == "leaking":
            part = re.findall(r"\((.*)\)", entry.says)[0]
            if "4711" in text or found.said["pairwise_dot"] != said_of_hidden_cases(part):
                faults.append(f"the feedback shows what was made of hidden inputs: {text[:600]}")
        return faults


@pytest.fixture(scope="session")
def klass(request, hostile_course, layers, impatient):
    """The class, graded once: those students whom a selected test is about."""
    chosen = [
        item.callspec.params["entry"]
        for item in request.session.items
        if getattr(item, "function", None) is test_it_leads_to_what_it_must  # others, too, call a fixture `klass`
    ]
    folder = hostile_course.course / "submitted"
    course_seed(hostile_course.course)
    try:
        yield ClassOf(hostile_course, folder, layers, chosen, workers=2)
    finally:
        remove(folder)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.student)
def test_it_leads_to_what_it_must(klass, entry):
    assert klass.faults(entry) == []


def test_totals(klass):
    """Wrong answers that get a point, right ones that lose one, marks lost by another's fault: none."""
    undeserved = lost = 0.0
    table = Table("group", "submissions", "as they must be", "not graded, with a reason")
    for group in dict.fromkeys(entry.group for entry in klass.members):
        members = [entry for entry in klass.members if entry.group == group]
        fine = sum(not klass.faults(entry) for entry in members)
        reasons = sum(klass.found[printable(entry.student)].graded.problem is not None for entry in members)
        table.add_row(group, str(len(members)), str(fine), str(reasons))
    for entry in klass.members:
        for result in klass.found[printable(entry.student)].graded.results:
            wanted = entry.points.get(result.exercise, entry.points.get("*", 0.0))
            wanted = result.max_points if wanted == FULL else wanted
            undeserved += max(0.0, result.points - wanted)
            lost += max(0.0, wanted - result.points)
    Console().print(table)
    print(f"points of wrong answers: {undeserved:g}; points lost by right ones, or by another's fault: {lost:g}")
    assert undeserved == 0
    assert lost == 0


def test_there_are_enough():
    attacks = [e for e in ENTRIES if e.group in ("forging", "hiding", "exhausting", "leaking", "escaping")]
    broken = [e for e in ENTRIES if e.group in ("clumsy", "right", "wrong")]
    assert len(attacks) >= 45
    assert set(ONE_OF_EACH_KIND.split()) <= {e.name for e in FORGING}
    assert len(broken) >= 45


FORGING = [e for e in ENTRIES if e.group in ("forging", "honest", "leaking", "escaping") and e.lesson == TINY]
ONE_OF_EACH_KIND = """patches_the_library patches_the_server writes_a_verdict_to_the_channel writes_deep_json
answers_nan forges_the_gradient chooses_every_letter raises_what_cannot_be_printed writes_at_exit traces_the_harness
goes_on_in_a_thread patches_builtins leaves_modules_behind closes_every_descriptor raises_the_input
ends_by_a_signal_chosen_by_the_input makes_a_system_call_that_is_not_allowed sends_what_is_no_message
changes_hidden_inputs"""
ALONE = [e for e in FORGING if e.group in ("honest", "escaping") or e.name in ONE_OF_EACH_KIND.split()]
THE_REST = [e for e in FORGING if e not in ALONE]


@pytest.mark.parametrize("layers", ["landlock"], indirect=True)
@pytest.mark.parametrize("members", [ALONE, pytest.param(THE_REST, marks=pytest.mark.again)], ids=["some", "the rest"])
def test_forging_and_escaping_under_landlock_alone(hostile_course, tmp_path, layers, members, impatient):
    """All that try to escape, and one of each kind that forges or leaks, which is no matter of the outer layer.

    The rest of these repeats what `test_it_leads_to_what_it_must` shows behind the layers that this machine has.
    """
    if layers == probe():
        pytest.skip("Landlock is the only layer here, and the whole class is graded behind it")
    course = tmp_path / "course"
    shutil.copytree(hostile_course.course, course, ignore=shutil.ignore_patterns("submitted", "autograded", "entries"))
    layout = dataclasses.replace(hostile_course, course=course)
    found = ClassOf(layout, course / "submitted", layers, members, workers=1)
    faults = {entry.student: found.faults(entry) for entry in members}
    assert {student: fault for student, fault in faults.items() if fault} == {}
