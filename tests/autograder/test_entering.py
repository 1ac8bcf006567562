"""Entering many submissions at once: the same rows as one by one, killed anywhere, and one that cannot be entered."""

import dataclasses
import multiprocessing
import os
import shutil
import warnings

import pytest
from tiny_course import POINTS, RIGHT, TINY, Class, tables

from autograder.grading import entering
from autograder.grading.entering import Entered, Entries
from autograder.grading.grade_course import How, grade
from autograder.grading.workers import Crew
from autograder.judging.submission import Judged
from autograder.sandbox.probe import probe
from benchmarks.simulated_cluster import simulate

TESTS = {f"test_{name}": float(points) for name, points in POINTS.items()}
REPORTS = {test: {"passed": True} for test in TESTS}


@pytest.fixture
def batch(klass):
    """Six submissions: right ones, one without an answer, one that could not be judged."""
    text = klass.submit("0", RIGHT).read_text(encoding="utf-8")
    for number in range(1, 6):
        shutil.copytree(klass.submitted / "0", klass.submitted / f"{number}")
    right = [Judged(f"{n}", TINY, notebook=text, points=TESTS, reports=REPORTS) for n in range(4)]
    nothing = dict.fromkeys(TESTS, 0.0)
    empty = Judged("4", TINY, notebook=text, points=nothing, reports=REPORTS, unanswered=("pairwise_dot",))
    return [Entered(one, f"digest {one.student}", None) for one in (*right, empty, Judged("5", TINY, problem="odd"))]


def enter(klass: Class, batch: list[Entered], size: int) -> None:
    with warnings.catch_warnings(), klass.course.gradebook() as book:
        warnings.simplefilter("ignore")
        entries = Entries(klass.course, book)
        for place in range(0, len(batch), size):
            entries.enter(batch[place : place + size])


def done(klass: Class, batch: list[Entered]) -> list[str]:
    """The students whose entries say that they are entered, and that still stand."""
    with klass.course.gradebook() as book:
        entries = Entries(klass.course, book)
        return [one.judged.student for one in batch if entries.find(TINY, one.judged.student, one.digest, None)]


def another(klass: Class, folder) -> Class:
    shutil.copytree(klass.layout.course, folder / "course")
    return Class(dataclasses.replace(klass.layout, course=folder / "course"))


def test_many_at_once_leave_the_same_rows_as_one_by_one(klass, batch, tmp_path):
    other = another(klass, tmp_path / "other")
    enter(klass, batch, len(batch))
    enter(other, batch, 1)
    assert tables(klass) == tables(other)
    assert done(klass, batch) == done(other, batch) == list("012345")
    before = tables(klass)
    enter(klass, batch, len(batch))
    assert tables(klass) == before


def die_at(step: str, monkeypatch) -> None:
    """Let this process end at the third file of this step, or as it commits, as if it were killed."""
    left = [1 if step == "commit" else 3]

    def dying(function):
        def call(*args, **more):
            left[0] -= 1
            return os._exit(9) if left[0] <= 0 else function(*args, **more)

        return call

    if step == "commit":
        monkeypatch.setattr("sqlalchemy.orm.Session.commit", dying(None))
    elif step == "notebook":
        monkeypatch.setattr(Entries, "_write_notebook", dying(Entries._write_notebook))
    else:
        monkeypatch.setattr(entering, "write_whole", dying(entering.write_whole))


@pytest.mark.parametrize("step", ["commit", "notebook", "entry"])
def test_killed_in_the_middle_of_a_batch(klass, batch, tmp_path, monkeypatch, step):
    """What says "done" is done, nothing else is, and entering all once more leaves what one run would have left."""
    whole = another(klass, tmp_path / "whole")
    enter(whole, batch, len(batch))

    def killed() -> None:
        die_at(step, monkeypatch)
        monkeypatch.setattr(entering, "WRITERS", 1)
        enter(klass, batch, len(batch))

    process = multiprocessing.get_context("fork").Process(target=killed)
    process.start()
    process.join()
    assert process.exitcode == 9
    marked = done(klass, batch)
    assert len(list((klass.layout.course / "entries").glob("*/*.json"))) == len(marked)
    assert len(marked) == (2 if step == "entry" else 0)
    rows = tables(klass)
    assert len(rows["submitted_assignment"]) == (0 if step == "commit" else 6)
    enter(klass, batch, len(batch))
    assert tables(klass) == tables(whole)
    assert done(klass, batch) == list("012345")
    assert not list((klass.layout.course / "autograded").glob("*/.*"))


def test_one_that_cannot_be_entered_keeps_no_other_of_its_batch_out(klass, batch, monkeypatch):
    judged = [one.judged for one in batch]
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: list(tasks) and [judged])
    write = Entries._write_notebook

    def faulty(entries, one):
        if one.student == "2":
            raise RecursionError("too deep")
        write(entries, one)

    monkeypatch.setattr(Entries, "_write_notebook", faulty)
    found = {one.student: one for one in grade(klass.layout, klass.submitted, (TINY,), How(layers=probe("none")))}
    assert [name for name, one in found.items() if one.fault] == ["2"]
    assert "RecursionError: too deep" in found["2"].problem
    assert klass.scores("1") == klass.scores("3") == TESTS
    assert set(klass.scores("2").values()) == {None}


def test_a_fault_that_was_overcome_one_by_one_is_kept(klass, batch, monkeypatch):
    judged, left = [one.judged for one in batch], [1]
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: list(tasks) and [judged])
    save = entering.save

    def faulty(*about):
        left[0] -= 1
        if left[0] == 0:
            raise RecursionError("too deep")
        save(*about)

    monkeypatch.setattr(entering, "save", faulty)
    found = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe("none")))
    assert not any(one.fault for one in found)
    assert "RecursionError: too deep" in (klass.layout.course / "faults.txt").read_text(encoding="utf-8")


def test_the_simulated_cluster_keeps_the_pace_of_whichever_is_slower():
    """Tasks of a second: two workers take half as many seconds, and a writer of one a second takes as many."""
    fast = simulate(100, workers=2, seconds=[(1.0, 1.0)], batch=lambda size: 0.0, most=10)
    slow = simulate(300, workers=50, seconds=[(1.0, 1.0)], batch=float, most=10)
    assert (fast.seconds, fast.idle) == (50.0, 0.0)
    assert (slow.seconds, slow.batch) == (301.0, 10.0)
    assert slow.idle > 0.0
