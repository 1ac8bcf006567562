"""A watch beside others, and the order of its answers: what was handed in last is what stays."""

import dataclasses
import errno
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from test_watch import StandIn, exchange, judged, make, settle, watch  # noqa: F401
from tiny_course import POINTS, RIGHT, TINY, Class

from autograder.__main__ import main
from autograder.building import build_course
from autograder.grading import grade_course
from autograder.grading.grade_course import How
from autograder.in_nbgrader.course_files import alone
from autograder.judging import version
from autograder.sandbox.probe import probe
from autograder.watching import watch as watching
from autograder.watching.arrivals import Exchange, HandIn
from autograder.watching.watch import Watch


def test_an_attempt_that_is_tried_again_is_not_overtaken_by_a_later_one(watch, monkeypatch):  # noqa: F811
    """Else it would be entered after that one, and stay."""
    first, second = (HandIn(f"{n}", "a", TINY, float(n), Path("x")) for n in (1, 2))
    watch._failed(first, "odd")
    assert watch._turn([first, second]) == []
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    assert watch._turn([first, second]) == [first]


@pytest.mark.parametrize("step", ["before", "at the feedback"])
def test_a_gradebook_that_somebody_else_holds_is_said_once_and_tried_again(klass, watch, monkeypatch, step):  # noqa: F811
    """Not even the lock for reading can be had: a database that is gone looks the same."""
    other = sqlite3.connect(klass.layout.course / "gradebook.db", isolation_level=None)
    write, lines = watch._write_feedback, watch.lines

    def held(attempt, graded):
        other.execute("BEGIN EXCLUSIVE")
        watch._write_feedback = write
        write(attempt, graded)

    def nap(_: float) -> None:
        if lines and other.in_transaction:
            other.execute("ROLLBACK")
        elif judged(watch):
            raise KeyboardInterrupt

    klass.submit("a", RIGHT)
    watch.arrivals.look(set())
    if step == "before":
        other.execute("BEGIN EXCLUSIVE")
    else:
        watch._write_feedback = held
    monkeypatch.setattr(watching.time, "sleep", nap)
    with pytest.raises(KeyboardInterrupt):
        watch.forever()
    other.close()
    assert len(lines) == 2
    assert lines[0].startswith("The gradebook cannot be opened: ")
    assert "database is locked" in lines[0]
    assert "judged: 5 of 5 points" in lines[1]


@pytest.mark.parametrize("command", ["grade", "watch"])
def test_a_grade_or_a_second_watch_beside_a_watch_is_refused(klass, command):
    """It would enter what it had read before the watch took the student's next attempt, and that would stay."""
    klass.submit("a", RIGHT)
    with alone(klass.layout.course):
        done = CliRunner().invoke(main, [command, "--sandbox", "none", "--course", str(klass.layout.course)])
    assert done.exit_code == 1
    assert "watched already, by process" in done.output
    assert "a" not in [one.id for one in klass.course.gradebook().students]


def test_the_command_hands_its_options_on(klass, monkeypatch):
    found: list[Watch] = []
    monkeypatch.setattr(build_course, "prepare", lambda *_: [])  # of all lessons
    monkeypatch.setattr(Watch, "forever", lambda one: found.extend([one]))
    options = ["--attempts", "3", "--workers", "2", "--sandbox", "none", "--course", str(klass.layout.course)]
    klass.submitted.mkdir()
    done = CliRunner().invoke(main, ["watch", str(klass.submitted), *options])
    assert (done.exit_code, [(one.most, one.how.workers) for one in found]) == (0, [(3, 2)])
    assert found[0].released == {*found[0].arrivals.lessons}


def test_who_goes_back_to_an_earlier_answer_is_answered_again(klass, watch):  # noqa: F811
    """In a folder, only the last attempt is seen: the mark of the one between must not stay."""
    for letter in "BAB":
        klass.submit("a", {**RIGHT, "predict_largest_dot": f'largest_dot = "{letter}"'})
        assert settle(watch) == 1
        assert settle(watch) == 0
    text = (klass.layout.course / "autograded" / "a" / TINY / f"{TINY}.ipynb").read_text(encoding="utf-8")
    assert 'largest_dot = \\"B\\"' in text


@pytest.mark.parametrize(
    ("place", "by"),
    [
        ("nbconvert.writers.files.open", lambda full: full),
        ("nbgrader.exchange.default.release_feedback.shutil", lambda full: SimpleNamespace(copy=full)),
    ],
    ids=["written", "released"],
)
def test_a_disk_that_is_full_at_the_feedback_is_no_failure_of_the_attempt(exchange, monkeypatch, place, by):  # noqa: F811
    monkeypatch.setattr(grade_course, "Crew", StandIn)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    klass = Class(exchange.layout)
    exchange.hand_in("ann")
    arrivals = Exchange(klass.course, [TINY])
    watch = Watch(exchange.layout, klass.course, arrivals, How(layers=probe("none")), say=lambda _: None)  # noqa: F811

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(place, by(full), raising=False)
        watch.arrivals.look(set())
        for _ in range(watching.TRIES):
            with pytest.raises(OSError, match="No space left"):
                watch.round()
    assert watch.journal.answered == []
    watch.round()
    assert judged(watch) == ["ann"]
    assert exchange.is_released("ann")


def test_what_is_odd_about_an_attempt_is_said_with_its_points(klass, watch):  # noqa: F811
    """As in `grade`'s table: else the line of one that earns nothing for being late says that it earned everything."""
    notebook = klass.submit("a", RIGHT)
    (notebook.parent / "more").symlink_to("nowhere")
    assert settle(watch) == 1
    points = sum(POINTS.values())
    left_out = "left out: more is a link, and no file of its own"
    assert watch.lines == [f"a {TINY}: judged: {points} of {points} points; {left_out}"]


def test_who_hands_in_what_cannot_be_read_is_told_why(klass, watch):  # noqa: F811
    klass.submit("a", RIGHT)
    assert settle(watch) == 1
    path = klass.submit("a", RIGHT)
    path.rename(path.with_name("other.ipynb"))
    path.symlink_to("other.ipynb")
    assert settle(watch) == 1
    assert judged(watch) == ["a", "a"]
    page = (klass.layout.course / "feedback" / "a" / TINY / f"{TINY}.html").read_text(encoding="utf-8")
    assert f"This submission was not graded: {TINY}.ipynb is a link" in page


def test_hand_ins_of_a_lesson_that_nbgrader_refuses_wait_until_it_is_released(klass, watch, tmp_path, monkeypatch):  # noqa: F811
    klass.submit("a", RIGHT)
    settle(watch)
    klass.layout = dataclasses.replace(klass.layout, solutions=tmp_path / "newer")
    shutil.copytree(watch.layout.solutions, klass.layout.solutions)
    text = klass.layout.text(TINY)
    before = text.read_text(encoding="utf-8")
    text.write_text(before.partition("# %% [markdown]\n# ### Exercise")[0], encoding="utf-8")
    later = make(klass)
    klass.submit("b", RIGHT)
    for _ in range(2):
        assert settle(later) == 0
    (refused,) = later.lines
    assert "The grades stay" in refused
    assert refused.endswith("What is handed in waits until then.")
    text.write_text(before, encoding="utf-8")
    assert settle(later) == 0  # it asks once in a while
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    assert settle(later) == 1
    assert judged(later) == ["a", "b"]


def test_a_watch_says_once_that_the_grader_has_changed(klass, watch, monkeypatch):  # noqa: F811
    with monkeypatch.context() as updated:
        updated.setattr(version, "digest_of_program", lambda _: "updated")
        for student in "ab":
            klass.submit(student, RIGHT)
            assert settle(watch) == 1
    assert judged(watch) == ["a", "b"]
    assert watch.lines[0] == watching.OUTDATED
    assert watch.lines.count(watching.OUTDATED) == 1
