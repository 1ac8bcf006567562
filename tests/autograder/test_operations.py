"""Grading as an instructor runs it: killed at any moment and started again, workers lost, Ctrl-C, a slow machine."""

import dataclasses
import json
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
from tiny_course import HANGS, RIGHT, TINY, Class

from autograder.grading import workers
from autograder.grading.grade_course import How, grade
from autograder.grading.workers import judge_all
from autograder.judging.submission import Judged, Task
from autograder.lesson_text.layout import ROOT
from autograder.sandbox.probe import probe

pytestmark = pytest.mark.slow

WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.transpose(-2, -1)"}
GRADE = """
import sys
from pathlib import Path
from autograder import __main__
from autograder.lesson_text import layout
folder = Path(sys.argv.pop(1))
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


def start(klass: Class, *options: str) -> subprocess.Popen:
    """`python -m autograder grade` on this course, with two workers."""
    command = [sys.executable, "-c", GRADE, str(klass.layout.course.parent), "grade", "--workers", "2", *options]
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


def test_a_run_that_is_killed_again_and_again_loses_nothing_and_judges_nothing_twice(course):
    draw = random.Random(20261121)
    seen: dict[Path, int] = {}
    for goal in (0, 1, 6):
        process = start(course)
        wait_for(lambda goal=goal: len(entries(course)) >= goal, process)
        time.sleep(draw.uniform(0, 0.3) if goal else draw.uniform(1, 4))
        below = kill(process)
        process.communicate()
        assert all_gone(below)
        nothing_is_half_written(course)
        now = entries(course)
        assert {path: now[path] for path in seen} == seen
        seen = now
    assert 6 <= len(seen) <= 12
    process = start(course)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    now = entries(course)
    assert {path: now[path] for path in seen} == seen
    assert len(now) == 12
    nothing_is_half_written(course)
    assert {sum(course.scores(f"student{n:02}").values()) > 2 for n in range(12) if n % 3} == {True}
    assert not list((course.layout.course / "autograded").glob("*/.*"))


def test_ctrl_c_ends_everything_in_one_line_and_the_next_run_goes_on(course):
    process = start(course)
    wait_for(lambda: len(entries(course)) >= 2, process)
    below = kill(process, signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS)
    assert process.returncode in (1, 130)
    assert "Traceback" not in errors
    assert len([line for line in errors.splitlines() if line.strip() and not line.startswith("sandbox:")]) <= 1
    assert all_gone(below)
    before = entries(course)
    process = start(course)
    process.communicate(timeout=HANGS)
    after = entries(course)
    assert {path: after[path] for path in before} == before
    assert len(after) == 12


def test_a_killed_worker_costs_nothing(course):
    process = start(course)
    wait_for(lambda: len(entries(course)) >= 2, process)
    killed = next(child for child in psutil.Process(process.pid).children() if "bwrap" not in child.name())
    below = killed.children(recursive=True)
    killed.kill()
    said, errors = process.communicate(timeout=HANGS)
    assert process.returncode == 0, errors
    assert "not graded" not in said
    assert len(entries(course)) == 12
    assert all_gone(below)


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
    judged = {one.student: one.problem for one in judge_all(tasks, probe("none"), 2)}
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


def test_few_submissions_are_held_at_a_time(monkeypatch):
    monkeypatch.setattr(workers, "judge_task", deadly)
    taken, done, most = 0, 0, 0

    def tasks():
        nonlocal taken, most
        for number in range(300):
            taken += 1
            most = max(most, taken - done)
            yield Task(f"{number}", TINY, "", {"x": bytes(1000)})

    for _ in judge_all(tasks(), probe("none"), 2):
        done += 1
    assert done == 300
    assert most <= 2 * workers.HELD + 2


@pytest.fixture
def busy():
    """Four processes that compute beside the grader."""
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for process in load:
        process.kill()
        process.wait()


def test_verdicts_are_the_same_under_load(klass, busy):
    klass.submit("right", RIGHT)
    klass.submit("wrong", WRONG)
    how = How(layers=probe(), workers=2)
    graded = {one.student: one for one in grade(klass.layout, klass.submitted, (TINY,), how)}
    assert graded["right"].points == graded["right"].max_points
    assert graded["wrong"].points < graded["wrong"].max_points
