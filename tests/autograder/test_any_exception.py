"""Whatever exception one submission causes, in any phase, is that submission's reason; a fault stays visible."""

import asyncio

import pytest
from tiny_course import RIGHT, TINY

from autograder.grading import entering, grade_course
from autograder.grading.grade_course import How, grade
from autograder.grading.workers import Crew
from autograder.judging import submission
from autograder.judging.intake import folder
from autograder.judging.submission import Judged, Task, judge_task
from autograder.sandbox.probe import probe

ANY = [RecursionError, MemoryError, UnicodeError, ZeroDivisionError, OSError]
MORE = [*ANY, SystemExit, asyncio.CancelledError, GeneratorExit]


@pytest.fixture
def three(klass, run):
    """Three submissions, and a grader that judges none of them: what matters here is around that."""
    for student in ("a", "b", "c"):
        klass.submit(student, RIGHT)
    return klass


def graded(klass):
    found = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe("none")))
    return {one.student: one for one in found}


def test_taken_in_with_too_little_memory(three, monkeypatch):
    """It is no fault of the grader's, and the next run tries again."""
    read = folder.read_regular

    def hungry(path, *about):
        return bytes(1 << 60) if path.parents[1].name == "b" else read(path, *about)

    monkeypatch.setattr(folder, "read_regular", hungry)
    for _ in range(2):
        found = graded(three)
        assert found["a"].problem == found["c"].problem == "not graded: not judged"
        assert found["b"].problem == "not graded: it could not be read in 4 GB of memory"
        assert not found["b"].fault
    monkeypatch.undo()
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: [[Judged("b", t.lesson, "x")] for t in tasks])
    assert graded(three)["b"].problem == "not graded: x"


@pytest.mark.parametrize("error", [error for error in ANY if error is not MemoryError])
def test_taken_in(three, monkeypatch, error):
    collect = grade_course.collect

    def faulty(folder, lesson):
        if folder.parent.name == "b":
            raise error("odd\nwords \x1b[2J \udcff")
        return collect(folder, lesson)

    monkeypatch.setattr(grade_course, "collect", faulty)
    found = graded(three)
    assert found["a"].problem == found["c"].problem == "not graded: not judged"
    assert found["b"].problem.startswith(f"not graded: the grader failed: {error.__name__}: odd (test_any_exception.py")
    assert [one.fault for one in found.values()] == [False, True, False]
    said = (three.layout.course / "faults.txt").read_text(encoding="utf-8")
    assert "Traceback" in said
    assert f"{error.__name__}: odd\nwords \\x1b[2J \\udcff" in said
    monkeypatch.undo()
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: [[Judged("b", t.lesson, "x")] for t in tasks])
    assert graded(three)["b"].problem == "not graded: x"  # it was tried again, and alone
    assert not (three.layout.course / "faults.txt").exists()


def test_overcome(three, monkeypatch):
    """A fault that a second attempt did not have costs nothing, and its traceback is kept."""
    found = [Judged("b", TINY, problem="not judged", overcome="Traceback: the first attempt")]
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: list(tasks) and [found])
    assert not graded(three)["b"].fault
    assert (three.layout.course / "faults.txt").read_text(encoding="utf-8") == f"b {TINY}\n{found[0].overcome}\n"


@pytest.mark.parametrize("times", [1, 2])
def test_entered(three, monkeypatch, times):
    record, left = entering.record, [times]

    def faulty(path, reason):
        if path.parent.parent.name == "b" and left[0]:
            left[0] -= 1
            raise RecursionError("too deep")
        record(path, reason)

    monkeypatch.setattr(entering, "record", faulty)
    found = graded(three)
    assert found["a"].problem == found["c"].problem == "not graded: not judged"
    assert "the grader failed: RecursionError: too deep" in found["b"].problem
    assert found["b"].fault


@pytest.mark.parametrize("error", MORE)
def test_judged(monkeypatch, error):
    def faulty(task, layers):
        raise error("odd")

    monkeypatch.setattr(submission, "_judged", faulty)
    found = judge_task(Task("b", TINY, "", {}), None)
    assert found.problem.startswith(f"the grader failed: {error.__name__}: odd")
    assert "Traceback" in found.fault


def test_ctrl_c_is_the_person_s(three, monkeypatch):
    def interrupted(folder, lesson):
        raise KeyboardInterrupt

    monkeypatch.setattr(grade_course, "collect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        graded(three)
