"""Answering what arrives: each attempt once, the earliest first, whatever happens to the process or to its clock."""

import dataclasses
import errno
import os
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import pytest
from tiny_course import POINTS, RIGHT, TINY, Class

from autograder.grading import grade_course
from autograder.grading.grade_course import How
from autograder.in_nbgrader.course_files import alone
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.submission import Judged
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError
from autograder.watching import watch as watching
from autograder.watching.arrivals import Exchange, Folder, HandIn
from autograder.watching.journal import HOUR, Answered, Journal
from autograder.watching.watch import Watch
from benchmarks import watching as benchmark

TESTS = {f"test_{name}": float(points) for name, points in POINTS.items()}
REPORTS = {test: {"passed": True} for test in TESTS}


class StandIn:
    """In place of a crew: every submission is right, and it is noted who was judged."""

    asked: ClassVar[list[str]] = []

    def __init__(self, size: int) -> None:
        self.size = size

    def get_ready(self, layers) -> None:
        self.asked.append("ready")

    def judge(self, tasks, layers):
        for task in tasks:
            self.asked.append(task.student)
            text = task.files[f"{TINY}.ipynb"].decode()
            yield [Judged(task.student, TINY, notebook=text, points=TESTS, reports=REPORTS)]

    def close(self) -> None:
        pass


@pytest.fixture
def watch(klass, monkeypatch) -> Watch:
    """A watch over the class's own folder, with a judge that is a stand-in, and a clock of ours."""
    klass.submitted.mkdir(exist_ok=True)
    StandIn.asked = []
    monkeypatch.setattr(grade_course, "Crew", StandIn)
    return make(klass)


def make(klass: Class, **settings) -> Watch:
    said: list[str] = []
    arrivals = Folder(klass.submitted, [TINY])
    made = Watch(klass.layout, klass.course, arrivals, How(layers=probe("none")), say=said.append, **settings)
    made.lines = said
    return made


def settle(watch: Watch) -> int:
    """Two looks, since what is new at the first may still be being copied."""
    watch.arrivals.look(set())
    return watch.round()


def judged(watch: Watch) -> list[str]:
    return [one.student for one in watch.journal.answered if one.how == "judged"]


def test_what_arrives_is_judged_entered_and_answered_once(klass, watch):
    for student in "ba":
        klass.submit(student, RIGHT)
        time.sleep(0.02)
    assert settle(watch) == 2
    assert judged(watch) == ["b", "a"]
    assert klass.scores("a") == TESTS
    assert (klass.layout.course / "feedback" / "a" / TINY / f"{TINY}.html").is_file()
    again = make(klass)
    assert settle(again) == 0
    assert StandIn.asked == ["ready", "b", "a"]  # the workers start before there is anything to judge


def test_what_is_still_being_copied_waits(klass, watch):
    path = klass.submit("a", RIGHT)
    watch.arrivals.look(set())
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert watch.arrivals.look(set()) == []
    assert [one.student for one in watch.arrivals.look(set())] == ["a"]


def test_a_limit_of_attempts_an_hour(klass, watch):
    now = [1_000_000.0]
    watch.most, watch.clock = 2, lambda: now[0]
    for number in range(4):
        klass.submit("a", {**RIGHT, "predict_largest_dot": f'largest_dot = "{number}"'})
        settle(watch)
        now[0] += 60
    assert judged(watch) == ["a", "a"]
    klass.submit("b", RIGHT)
    settle(watch)
    assert judged(watch) == ["a", "a", "b"]
    now[0] = 1_000_000.0 + HOUR
    settle(watch)
    assert judged(watch) == ["a", "a", "b", "a"]
    text = (klass.layout.course / "autograded" / "a" / TINY / f"{TINY}.ipynb").read_text(encoding="utf-8")
    assert 'largest_dot = \\"3\\"' in text


def test_of_those_that_wait_for_the_hour_the_last_is_judged(watch):
    watch.most, watch.clock = 1, lambda: 5000.0
    watch.journal.add([Answered("0", "a", TINY, 4000.0, "judged")])
    attempts = [HandIn(f"{n}", "a", TINY, float(n), Path("x")) for n in (1, 2, 3)]
    assert watch._turn(attempts) == []
    assert [(one.key, one.how) for one in watch.journal.answered[1:]] == [("1", "passed over"), ("2", "passed over")]
    watch.clock = lambda: 4000.0 + HOUR
    assert watch._turn(attempts[2:]) == attempts[2:]


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_that_jumps_keeps_nobody_out(watch, jump):
    watch.most, watch.clock = 1, lambda: 1e9 + jump
    watch.journal.add([Answered("0", "a", TINY, 1e9, "judged")])
    attempt = HandIn("1", "a", TINY, 0.0, Path("x"))
    assert watch._turn([attempt]) == [attempt]


def test_a_torn_line_of_the_journal_is_no_answer(tmp_path):
    journal = Journal(tmp_path)
    journal.add([Answered("one", "a", TINY, 1.0, "judged")])
    journal.path.write_bytes(journal.path.read_bytes() + b'{"key": "two", "stud')
    torn = Journal(tmp_path)
    assert torn.keys == {"one"}
    torn.add([Answered("three", "a", TINY, 1.0, "judged")])
    assert Journal(tmp_path).keys == {"one", "three"}


def test_a_full_disk_and_a_folder_that_vanishes_are_said_once_and_tried_again(klass, watch, monkeypatch):
    fsync, gone = os.fsync, klass.submitted.with_name("gone")
    naps: list[float] = []

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def nap(seconds: float) -> None:
        """What happens while the watch sleeps, nap after nap."""
        naps.append(seconds)
        if len(naps) == 1:
            os.fsync = full
        elif len(naps) == 4:
            os.fsync = fsync
            klass.submitted.rename(gone)
        elif len(naps) == 6:
            gone.rename(klass.submitted)
        elif len(naps) == 9:
            raise KeyboardInterrupt

    klass.submit("a", RIGHT)
    monkeypatch.setattr(os, "fsync", fsync)  # restored in the end, whatever happens
    monkeypatch.setattr(watching.time, "sleep", nap)
    with pytest.raises(KeyboardInterrupt):
        watch.forever()
    troubles = [line for line in watch.lines if "Nothing is lost" in line]
    assert len(troubles) == 2
    assert "No space left on device" in troubles[0]
    assert "is not there" in troubles[1]
    assert judged(watch) == ["a"]
    assert klass.scores("a") == TESTS


def test_a_second_watch_of_a_course_is_refused(tmp_path):
    with alone(tmp_path), pytest.raises(CourseError, match=r"watched already, by process \d+"), alone(tmp_path):
        pass
    with alone(tmp_path):
        pass


def test_points_given_by_hand_and_a_deadline_hold(klass, watch):
    klass.submit("a", RIGHT)
    settle(watch)
    with klass.course.gradebook() as book:
        book.find_grade("test_pairwise_dot", TINY, TINY, "a").manual_score = 1.5
        book.update_or_create_assignment(TINY, duedate=datetime(2026, 1, 1))
    path = klass.submit("a", {**RIGHT, "predict_largest_dot": "largest_dot = None"})
    (path.parent / "timestamp.txt").write_text("2026-01-02 00:00:00 UTC", encoding="ascii")
    watch.course.config.LateSubmissionPlugin.penalty_method = "zero"
    assert settle(watch) == 1
    with klass.course.gradebook() as book:
        assert book.find_grade("test_pairwise_dot", TINY, TINY, "a").score == 1.5
        notebook = book.find_submission_notebook(TINY, TINY, "a")
        assert notebook.late_submission_penalty == notebook.score > 0


def test_who_cannot_be_graded_is_told_why(klass, watch):
    path = klass.submit("a", RIGHT)
    path.write_text("<script>{", encoding="utf-8")

    class NoJson(StandIn):
        def judge(self, tasks, layers):
            yield [Judged(task.student, TINY, problem="it is no <b>JSON</b>") for task in tasks]

    watch.judges = NoJson(1)
    assert settle(watch) == 1
    page = (klass.layout.course / "feedback" / "a" / TINY / f"{TINY}.html").read_text(encoding="utf-8")
    assert "it is no &lt;b&gt;JSON&lt;/b&gt;" in page


def test_a_fault_of_the_grader_is_tried_again_and_then_left_to_grade(klass, watch, monkeypatch):
    klass.submit("a", RIGHT)

    class Faulty(StandIn):
        def judge(self, tasks, layers):
            yield [Judged(task.student, TINY, problem="odd", fault="Traceback: odd") for task in tasks]

    watch.judges = Faulty(1)
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.0)
    assert settle(watch) == 0
    assert watch.round() == 0
    assert watch.round() == 1
    assert [one.how for one in watch.journal.answered] == ["failed"]
    assert (klass.layout.course / "faults.txt").read_text(encoding="utf-8").count("Traceback: odd") == 3


@pytest.fixture
def exchange(prepared, tmp_path) -> benchmark.Exchange:
    """A course whose submissions come through nbgrader's exchange."""
    layout = dataclasses.replace(prepared, course=tmp_path / "course")
    shutil.copytree(prepared.course, layout.course)
    return benchmark.Exchange(layout, TINY, "0.1", 2)


def test_two_attempts_of_a_student_in_the_exchange_are_answered_one_after_the_other(exchange, monkeypatch):
    monkeypatch.setattr(grade_course, "Crew", StandIn)
    StandIn.asked = []
    klass = Class(exchange.layout)
    for _ in range(2):
        exchange.hand_in("ann")
        time.sleep(0.02)
    (exchange.inbound / f"eve+{TINY}+no time").mkdir()
    (exchange.inbound / f"eve+{TINY}+no time" / "timestamp.txt").touch()
    arrivals = Exchange(klass.course, [TINY])
    watch = Watch(exchange.layout, klass.course, arrivals, How(layers=probe("none")), say=lambda _: None)
    settle(watch)
    while watch.round():
        pass
    assert [one.how for one in watch.journal.answered if one.student == "ann"] == ["judged", "judged"]
    assert [one.how for one in watch.journal.answered if one.student == "eve"] == ["refused"]
    keys = [one.key for one in watch.journal.answered if one.student == "ann"]
    assert keys == sorted(keys)
    assert exchange.is_released("ann")


@pytest.mark.slow
def test_many_hand_ins_and_two_kills(exchange):
    """All are answered once, in their order, and nothing that was entered is judged a second time."""
    found = benchmark.load(exchange, 24, 4.0, 2)
    assert found.answered == list(found.handed_in)
    assert found.released == 24
    assert len(found.asked) <= 24 + 2 * watching.ROUND * 2
    klass = Class(exchange.layout)
    assert all(set(klass.scores(student).values()) == {1.0} for student in found.handed_in)


@pytest.mark.slow
def test_the_judge_itself_answers(klass, sandboxed):
    """A right answer and a wrong one, judged with hidden cases behind the sandbox."""
    klass.submit("ann", RIGHT)
    klass.submit("bob", {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.mT"})
    watch = make(klass)
    watch.how = How(layers=probe(), workers=2)
    try:
        settle(watch)
        while len(watch.journal.answered) < 2:
            watch.round()
    finally:
        watch.close()
    assert sum(klass.scores("ann").values()) == sum(POINTS.values()) > sum(klass.scores("bob").values())


def test_another_exchange_than_nbgrader_s_folder_is_one_sentence(klass):
    lines = ["from nbgrader.exchange.abc import ExchangeCollect", "c = get_config()"]
    text = "\n".join([*lines, "c.ExchangeFactory.collect = ExchangeCollect"])
    (klass.layout.course / "course_settings.py").write_text(text, encoding="utf-8")
    with pytest.raises(CourseError, match=r"^nbgrader's own exchange, .* got nbgrader\.exchange\.abc\.collect: .*\.$"):
        Exchange(NbgraderCourse(klass.layout.course), [TINY])
