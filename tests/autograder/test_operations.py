"""Grading as an instructor runs it: killed at any moment and started again, workers lost, Ctrl-C, a slow machine."""

import contextlib
import dataclasses
import json
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest
from tiny_course import HANGS, POINTS, RIGHT, TINY, Class

from autograder.grading import workers
from autograder.grading.grade_course import How, grade
from autograder.judging.submission import Judged, Task
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import ROOT
from autograder.lesson_text.notebook import to_text
from autograder.sandbox.probe import probe

pytestmark = pytest.mark.slow

WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.transpose(-2, -1)"}
GRADE = """
import signal, sys, time
from pathlib import Path
from autograder import __main__
from autograder.grading import workers
from autograder.judging import submission
from autograder.lesson_text import layout
folder, first_busy = Path(sys.argv.pop(1)), int(sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs the tests in the background

def judge_task(task, layers):
    while int(task.student.removeprefix("student")) >= first_busy and not (folder / "go on").exists():
        time.sleep(0.02)
    return submission.judge_task(task, layers)

workers.judge_task = judge_task
__main__.LAYOUT = layout.Layout(solutions=folder / "solutions", course=folder / "course")
__main__.main(prog_name="python -m autograder")
"""


@pytest.fixture
def course(prepared, tmp_path) -> Class:
    """A prepared course of its own, with twelve submissions, every third of them wrong."""
    shutil.copytree(prepared.solutions, tmp_path / "solutions")
    shutil.copytree(prepared.course, tmp_path / "course")
    klass = Class(dataclasses.replace(prepared, solutions=tmp_path / "solutions", course=tmp_path / "course"))
    for number in range(12):
        klass.submit(f"student{number:02}", WRONG if number % 3 == 0 else RIGHT)
    return klass


def start(klass: Class, first_busy: int) -> subprocess.Popen:
    """`python -m autograder grade` on this course, with two workers; from `first_busy` on, no judging comes to an end.

    So the run is not over, however slow this process is, before the file `go on` lies beside the course.
    """
    folder = str(klass.layout.course.parent)
    command = [sys.executable, "-c", GRADE, folder, str(first_busy), "grade", "--workers", "2"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def entries(klass: Class) -> dict[Path, int]:
    """The entries of the run so far, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in (klass.layout.course / "entries").glob("*/*.json")}


def wait_for(happened, process: subprocess.Popen) -> None:
    last = time.monotonic() + HANGS
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < last
        time.sleep(0.02)


def all_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=HANGS)[1]


def kill(process: subprocess.Popen, how: signal.Signals = signal.SIGKILL) -> list[psutil.Process]:
    """Kill the grader alone; returns what it had started."""
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(how)
    return below


def nothing_is_half_written(klass: Class) -> None:
    found = sqlite3.connect(klass.layout.course / "gradebook.db").execute("PRAGMA integrity_check").fetchall()
    assert found == [("ok",)]
    for path in entries(klass):
        entry = json.loads(path.read_text(encoding="utf-8"))
        scores = klass.scores(entry["student"])
        assert scores == entry["points"]
        graded = klass.layout.course / "autograded" / entry["student"] / TINY / f"{TINY}.ipynb"
        json.loads(graded.read_text(encoding="utf-8"))


def goes_on_from(seen: dict[Path, int], klass: Class) -> dict[Path, int]:
    """The entries now: whole, and what was there is as it was."""
    nothing_is_half_written(klass)
    now = entries(klass)
    assert {path: now[path] for path in seen} == seen
    return now


def rest_of_a_run_that_loses_a_worker(klass: Class, process: subprocess.Popen) -> str:
    """What it says, after one of its workers was killed."""
    killed = next(child for child in psutil.Process(process.pid).children() if "bwrap" not in child.name())
    below = killed.children(recursive=True)
    killed.kill()
    (klass.layout.course.parent / "go on").touch()
    said, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    assert all_gone(below)
    return said


def test_runs_that_are_killed_and_interrupted_lose_nothing_and_judge_nothing_twice(course):
    """Killed as it starts, killed as it enters, ended by Ctrl-C; and the last run loses a worker."""
    draw = random.Random(20261121)
    seen: dict[Path, int] = {}
    for first_busy, goal in ((1, 0), (6, 2)):
        process = start(course, first_busy)
        wait_for(lambda goal=goal: len(entries(course)) >= goal, process)
        time.sleep(draw.uniform(0, 0.3) if goal else draw.uniform(1, 4))
        below = kill(process)
        process.communicate()
        assert all_gone(below)
        seen = goes_on_from(seen, course)
    assert 2 <= len(seen) <= 6

    process = start(course, first_busy=9)
    wait_for(lambda: len(entries(course)) >= 7, process)
    below = kill(process, signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode in (1, 130)
    assert "Traceback" not in errors
    assert len([line for line in errors.splitlines() if line.strip() and not line.startswith("sandbox:")]) <= 1
    assert all_gone(below)
    seen = goes_on_from(seen, course)
    assert 7 <= len(seen) <= 9

    process = start(course, first_busy=11)
    wait_for(lambda: len(entries(course)) >= 10, process)
    assert "not graded" not in rest_of_a_run_that_loses_a_worker(course, process)
    assert len(goes_on_from(seen, course)) == 12
    assert {sum(course.scores(f"student{n:02}").values()) > 2 for n in range(12) if n % 3} == {True}
    assert not list((course.layout.course / "autograded").glob("*/.*"))


def deadly(task, layers):
    """In place of judging: one submission kills its worker each time."""
    if task.student == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return Judged(task.student, task.lesson)


def test_a_submission_that_kills_its_worker_each_time_takes_no_other_with_it(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", deadly)
    names = ["a", "b", "deadly", "c", "d", "e", "f"]
    tasks = (Task(name, TINY, "", {}) for name in names)
    with contextlib.closing(workers.Crew(2)) as crew:
        judged = {one.student: one.problem for batch in crew.judge(tasks, probe("none")) for one in batch}
    assert sorted(judged) == sorted(names)
    assert judged.pop("deadly") == "the grader's process died 3 times"
    assert set(judged.values()) == {None}


def test_a_worker_that_dies_between_two_tasks_says_so_when_it_is_looked_at(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", deadly)
    worker, layers = workers.Worker(), probe("none")
    worker.give(Task("deadly", TINY, "", {}), layers, 1)
    assert isinstance(worker.held[0][0].exception(timeout=HANGS), BrokenProcessPool)
    worker.give(Task("later", TINY, "", {}), layers, 1)
    assert worker.is_dead
    assert [(task.student, attempt) for task, attempt in worker.revive()] == [("deadly", 2), ("later", 1)]
    worker.end()


def at_once(task, layers):
    """In place of judging."""
    return Judged(task.student, task.lesson)


def test_few_submissions_are_held_at_a_time(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", at_once)
    taken, done, most = 0, 0, 0

    def tasks():
        nonlocal taken, most
        for number in range(300):
            taken += 1
            most = max(most, taken - done)
            yield Task(f"{number}", TINY, "", {"x": bytes(1000)})

    with contextlib.closing(workers.Crew(2)) as crew:
        for batch in crew.judge(tasks(), probe("none")):
            done += len(batch)
    assert done == 300
    assert most <= 2 * workers.HELD + 2


def only_the_first_ends(task, layers):
    """In place of judging: all others keep their worker for ever."""
    time.sleep(0 if task.student == "a" else 10**6)
    return Judged(task.student, task.lesson, problem="none")


def test_ctrl_c_while_one_is_entered_ends_those_that_judge(klass, monkeypatch):
    monkeypatch.setattr(workers, "judge_task", only_the_first_ends)
    for student in "abc":
        klass.submit(student, RIGHT)
    before = set(multiprocessing.active_children())

    def interrupted(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        grade(klass.layout, klass.submitted, (TINY,), How(layers=probe("none"), workers=2), interrupted)
    assert set(multiprocessing.active_children()) == before, caught


def test_no_more_workers_are_started_than_there_are_submissions(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", at_once)
    before = set(multiprocessing.active_children())
    with contextlib.closing(workers.Crew(5)) as crew:
        judged = [o for batch in crew.judge([Task(n, TINY, "", {}) for n in "ab"], probe("none")) for o in batch]
        assert len(set(multiprocessing.active_children()) - before) == len(judged) == 2


@contextlib.contextmanager
def four_busy_processes():
    """They compute as soon as this begins."""
    loop = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    load = [subprocess.Popen(loop, stdout=subprocess.PIPE) for _ in range(4)]
    try:
        for process in load:
            process.stdout.readline()
        yield
    finally:
        for process in load:
            process.kill()
            process.communicate()


def test_verdicts_are_the_same_under_load(klass, layout):
    """Each worker has its sandbox already, so that the load is on the judging alone."""
    source = to_text(Assignment.read(layout.source(TINY)).source)
    answers = {"right": RIGHT, "wrong": WRONG}
    files = {student: {f"{TINY}.ipynb": klass.submit(student, answers[student]).read_bytes()} for student in answers}
    tasks = [Task(student, TINY, source, files[student]) for student in answers]
    with contextlib.closing(workers.Crew(2)) as crew:

        def points():
            return {one.student: sum(one.points.values()) for batch in crew.judge(tasks, probe()) for one in batch}

        alone = points()
        with four_busy_processes():
            assert points() == alone
    assert alone["right"] == sum(POINTS.values()) > alone["wrong"]
