"""The time `python -m autograder watch` takes to answer: hand-ins through nbgrader's exchange, with kills in between.

    python -m benchmarks.watching [--students 300] [--within 60] [--kills 2] [--judge 0.5 | --real] [--small]

By default the judge is a stand-in that takes `--judge` seconds; everything else is real: collecting, entering, writing
and releasing feedback. With `--real`, right answers to the lesson are judged, and stock nbgrader's
`autograde` and `generate_feedback` answer `--sample` of them in the same run; collecting and releasing aren't counted
against it.
With `--small`, the lesson has one exercise, and its pages of feedback are small: a faster test of the order and the
kills, which says little about time.
"""

import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from nbgrader.utils import notebook_hash

from autograder.building.build_course import prepare
from autograder.building.compose_samples import compose
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.lesson_text.regions import solved_source

from .measure import header, row, verdict
from .stock_nbgrader import Stock

SETTINGS = """c = get_config()
c.CourseDirectory.course_id = "attention"
c.Exchange.root = {root!r}
c.ExchangeCollect.check_owner = False
"""
WATCH = """
import os, sys, time
from pathlib import Path
from autograder import __main__
from autograder.grading import workers
from autograder.judging import submission
from autograder.lesson_text.layout import Layout
from autograder.watching import command
solutions, course, log, seconds, many = sys.argv[1:]

def judge_task(task, layers):
    with open(log, "a") as file:
        file.write(task.student + "\\n")
    if seconds == "real":
        return submission.judge_task(task, layers)
    time.sleep(float(seconds))
    tests = [question.test for question in submission._assignment(task.lesson, task.source).questions]
    text = task.files[task.lesson + ".ipynb"].decode()
    return submission.Judged(task.student, task.lesson, notebook=text, points=dict.fromkeys(tests, 1.0),
                             reports={test: {"passed": True} for test in tests})

workers.judge_task = judge_task
command.Layout = lambda: Layout(solutions=Path(solutions), course=Path(course))
__main__.main(["watch", "--workers", many], prog_name="watch")
"""
STARTING = 20.0
SMALL = """# %% [markdown]
# # 00 · Small

# %%
from attnlib.checks import check


# %%
def pairwise_dot(x, y):
    ### BEGIN SOLUTION
    return x @ y.mT
    ### END SOLUTION


# %%
check("pairwise_dot", pairwise_dot)
"""


@dataclass(frozen=True)
class Load:
    """A run: what was answered, in which order, how soon, and how often the judge was asked."""

    answered: list[str]
    handed_in: dict[str, float]
    at: dict[str, float]
    asked: list[str]
    released: int

    @property
    def waits(self) -> list[float]:
        """Seconds from each hand-in to its answer."""
        return [self.at[student] - time for student, time in self.handed_in.items()]


class Exchange:
    """A course with an exchange of its own, and a watch over it."""

    def __init__(self, layout: Layout, lesson: str, judge: str, workers: int) -> None:
        self.layout, self.lesson, self.root = layout, lesson, layout.course.parent / "exchange"
        self.log = layout.course.parent / "asked.txt"
        self.inbound = self.root / "attention" / "inbound"
        self.inbound.mkdir(parents=True)
        layout.course.mkdir(parents=True, exist_ok=True)
        (layout.course / "course_settings.py").write_text(SETTINGS.format(root=str(self.root)), encoding="utf-8")
        prepare(layout, (lesson,))
        release = read_notebook(layout.course / "release" / lesson / f"{lesson}.ipynb")
        cells = read_lesson(layout.text(lesson)).cells
        right = {c.id: solved_source(c.source) for c in cells if c.metadata.get("nbgrader", {}).get("solution")}
        self.notebook = compose(release, right, lesson)
        self.command = [sys.executable, "-c", WATCH, str(layout.solutions), str(layout.course), str(self.log), judge]
        self.command.append(str(workers))

    def start(self) -> subprocess.Popen[bytes]:
        """Begin to watch."""
        return subprocess.Popen(self.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def hand_in(self, student: str) -> float:
        """Hand in as `nbgrader submit` does, the folder first and then the time in it; return the time."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
        folder = self.inbound / f"{student}+{self.lesson}+{stamp}"
        write_notebook(self.notebook, folder / f"{self.lesson}.ipynb")
        (folder / "submission_secret.txt").write_text(student, encoding="ascii")
        (folder / "timestamp.txt").write_text(stamp, encoding="ascii")
        return time.time()

    def answers(self) -> list[dict[str, object]]:
        """The lines of the journal."""
        path = self.layout.course / "watched.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def is_released(self, student: str) -> bool:
        """True if the student's feedback is where `nbgrader fetch_feedback` looks for it."""
        name = notebook_hash(secret=student, notebook_id=self.lesson)
        return (self.root / "attention" / "feedback" / f"{name}.html").is_file()


def load(
    exchange: Exchange, students: int, within: float, kills: int, *, starting: float = 0.0, longest: float = 7200.0
) -> Load:
    """Hand in, kill the watch in between and start it again, and wait until all are answered.

    The watch gets `starting` seconds to start before the first is handed in.
    """
    watch, handed_in, killed = exchange.start(), {}, 0
    time.sleep(starting)
    began = time.monotonic()
    try:
        for number in range(students):
            time.sleep(max(0.0, began + number * within / students - time.monotonic()))
            student = f"student{number:03}"
            handed_in[student] = exchange.hand_in(student)
        while len(exchange.answers()) < students:
            if killed < kills and len(exchange.answers()) >= (killed + 1) * students // (kills + 1):
                watch.kill()
                watch.wait()
                watch, killed = exchange.start(), killed + 1
            if watch.poll() is not None or time.monotonic() - began > longest:
                raise RuntimeError(f"the watch ended, or hangs: {len(exchange.answers())} of {students} are answered")
            time.sleep(0.1)
    finally:
        watch.terminate()
        watch.wait()
    assert killed == kills
    answers = exchange.answers()
    at = {str(one["student"]): float(str(one["at"])) for one in answers}
    released = sum(exchange.is_released(student) for student in handed_in)
    asked = exchange.log.read_text(encoding="utf-8").splitlines()
    return Load([str(one["student"]) for one in answers], handed_in, at, asked, released)


def stock(exchange: Exchange, students: int, folder: Path) -> float:
    """Seconds until stock nbgrader has graded `students` hand-ins and written their feedback."""
    course = Stock(exchange.layout, exchange.lesson, folder)
    course.hand_in((f"student{number:03}", exchange.notebook) for number in range(students))
    began = time.perf_counter()
    course.run("autograde", "generate_feedback")
    seconds = time.perf_counter() - began
    pages = len(list(folder.glob("feedback/*/*/*.html")))
    if pages != students:
        raise RuntimeError(f"stock nbgrader wrote {pages} pages of feedback for {students} students")
    return seconds


def main(
    students: int = 300,
    within: float = 60.0,
    kills: int = 2,
    judge: str = "0.5",
    workers: int = 2,
    small: bool = False,
    sample: int = 5,
) -> None:
    """Print how soon the answers came."""
    with tempfile.TemporaryDirectory() as folder:
        lesson, whole = "02_scaled_dot_product_attention", Layout()
        if small:
            lesson, whole = "00_small", Layout(solutions=Path(folder, "solutions"))
            whole.solutions.mkdir()
            whole.text(lesson).write_text(SMALL, encoding="utf-8")
        exchange = Exchange(dataclasses.replace(whole, course=Path(folder, "course")), lesson, judge, workers)
        alone = Exchange(dataclasses.replace(whole, course=Path(folder, "alone", "course")), lesson, judge, 1)
        one = load(alone, 3, 60, 0, starting=STARTING)
        found = load(exchange, students, within, kills)
        theirs = [stock(alone, size, Path(folder, f"stock{size}")) for size in (1, sample)] if judge == "real" else []
    order = list(found.handed_in)
    header(f"answers through the exchange, judge: {judge} s", "students", "median s", "worst s", "a minute")
    row("one at a time, to a watch that is running", str(3), statistics.median(one.waits), max(one.waits), "")
    last = max(found.at.values()) - min(found.handed_in.values())
    worst = max(found.waits)
    row(
        f"within {within:g} s, {kills} kills, its start included",
        str(students),
        statistics.median(found.waits),
        worst,
        60 * students / last,
    )
    if theirs:
        row("stock nbgrader, once it is started by hand", str(1), theirs[0], theirs[0], "")
        row("", str(sample), "", theirs[1], 60 * sample / theirs[1])
        print(f"ours / stock: {theirs[0] / statistics.median(one.waits):.1f} times as soon when one hands in,", end=" ")
        print(f"{students / last * theirs[1] / sample:.1f} times as many a minute")
    verdict("seconds to an answer, one at a time, at worst", max(one.waits), 10)
    print(f"answered once each: {sorted(found.answered) == order}; feedback released: {found.released}")
    print(f"in the order of their arrival: {found.answered == order}; judged: {len(found.asked)}")


@click.command(help=__doc__)
@click.option("--students", default=300, show_default=True)
@click.option("--within", default=60.0, show_default=True)
@click.option("--kills", default=2, show_default=True)
@click.option("--judge", default="0.5", show_default=True)
@click.option("--real", is_flag=True)
@click.option("--small", is_flag=True)
@click.option("--workers", default=2, show_default=True)
@click.option("--sample", default=5, show_default=True, help="with --real: hand-ins that stock nbgrader answers")
def command(real: bool, judge: str, **options: Any) -> None:
    """Measure how soon answers come."""
    main(judge="real" if real else judge, **options)


if __name__ == "__main__":
    command()
