"""Grading a class with stock `nbgrader autograde` and with `python -m autograder grade`, in one run.

    python -m benchmarks.grading [--students 200] [--lesson 02_scaled_dot_product_attention] [--sample 10] [--full]

The class is made by `benchmarks/made_class.py`. Stock nbgrader grades `--sample` students of the same mix, because it
takes seconds for each, or all of them with `--full`.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import click
from nbgrader.api import Gradebook

from autograder.building.build_course import prepare
from autograder.grading.chosen import chosen_submissions
from autograder.grading.grade_course import Graded, How, Run
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.sandbox.layers import Layers
from autograder.sandbox.probe import probe

from .made_class import made_class
from .measure import header, row, verdict
from .stock_nbgrader import Stock

HONEST = ("right", "untouched", "noisy")
Scores = dict[str, float]


def write_class(layout: Layout, lesson: str, size: int) -> dict[str, str]:
    """Hand in a class; returns the kind of each student's submission."""
    release = read_notebook(layout.course / "release" / lesson / f"{lesson}.ipynb")
    kinds = {}
    for handed in made_class(layout, lesson, release, size):
        kinds[handed.student] = handed.kind
        write_notebook(handed.notebook, layout.course / "submitted" / handed.student / lesson / f"{lesson}.ipynb")
    return kinds


def sample(kinds: dict[str, str], size: int) -> list[str]:
    """Students in about the same mix, taken at even steps from the list sorted by kind."""
    by_kind = sorted(kinds, key=lambda student: (kinds[student], student))
    return [by_kind[(2 * place + 1) * len(by_kind) // (2 * size)] for place in range(size)]


def stock(layout: Layout, lesson: str, students: list[str], folder: Path) -> tuple[float, Scores]:
    """Seconds per student with stock nbgrader, and the scores."""
    course, submitted = Stock(layout, lesson, folder), layout.course / "submitted"
    course.hand_in((s, read_notebook(submitted / s / lesson / f"{lesson}.ipynb")) for s in students)
    began = time.perf_counter()
    course.run("autograde")
    seconds = (time.perf_counter() - began) / len(students)
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "stock") as gradebook:
        return seconds, {s: gradebook.find_submission_notebook(lesson, lesson, s).score for s in students}


def ours(
    layout: Layout, lesson: str, layers: Layers, workers: int, students: set[str]
) -> tuple[float, list[Graded], int]:
    """Seconds a student, what was graded, and the most bytes that a student's process held."""
    submitted = layout.course / "submitted"
    submissions, _ = chosen_submissions(layout, submitted, (lesson,))
    pairs = [pair for pair in submissions if pair[0] in students]
    began, how = time.perf_counter(), How(layers=layers, workers=workers, again=True)
    with closing(how.judges()) as judges:
        run = Run(layout, NbgraderCourse(layout.course), submitted, how, judges)
        graded = sorted(run.grade(pairs), key=lambda one: one.student)
    return (time.perf_counter() - began) / len(pairs), graded, run.most_memory


def under_load(layout: Layout, lesson: str, layers: Layers, students: set[str]) -> list[Graded]:
    """Grade once more beside four endless processes for each processor."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * workers_here())]
    try:
        return ours(layout, lesson, layers, workers_here(), students)[1]
    finally:
        for process in busy:
            process.kill()
            process.wait()


def workers_here() -> int:
    """Two, or one on a machine with one core."""
    return min(2, len(os.sched_getaffinity(0)))


def compare(layout: Layout, lesson: str, students: int, chosen: int, folder: Path) -> None:
    """Grade a class both ways, and print how many submissions each way judges in a minute."""
    layers = probe()
    print(layers)
    prepare(layout, (lesson,))
    kinds = write_class(layout, lesson, students)
    few = sample(kinds, chosen)
    counted = ", ".join(f"{list(kinds.values()).count(kind)} {kind}" for kind in dict.fromkeys(sorted(kinds.values())))
    print(f"{students} submissions of {lesson}: {counted}; load before: {os.getloadavg()[0]:.1f}")

    fast, graded, memory = ours(layout, lesson, layers, workers_here(), set(kinds))
    slow, scores = stock(layout, lesson, few, folder)
    header("seconds a student", "", "students", "seconds", "a minute")
    row("nbgrader autograde", str(len(few)), slow, 60 / slow)
    row(f"autograder grade, {workers_here()} workers", str(len(graded)), fast, 60 / fast)
    verdict("throughput, ours / stock", slow / fast, 20, at_least=True)

    honest = {one.student: one.points for one in graded if kinds[one.student] in HONEST}
    differ = {s: (scores[s], honest[s]) for s in few if s in honest and abs(scores[s] - honest[s]) > 1e-9}
    assert not differ, f"honest work, but other scores than stock nbgrader's: {differ}"
    print(f"honest work among them, same scores: {sum(s in honest for s in few)}")
    lost = [one.student for one in graded if one.problem is not None]
    assert not lost, f"not graded: {lost}"
    right = {s: points for s, points in honest.items() if kinds[s] == "right"}
    assert len(set(right.values())) == 1, f"right answers that lost points: {right}"

    if workers_here() > 1:
        alone, one_worker, _ = ours(layout, lesson, layers, 1, set(kinds))
        verdict("throughput, 2 workers / 1 worker", alone / fast, 1.8, at_least=True)
        assert graded == one_worker, "a verdict depends on the number of workers"
    print(f"most memory of a student's process: {memory / 2**20:.0f} MiB")
    part = {s for s in sorted(kinds)[: max(20, students // 4)] if kinds[s] != "hanging"}
    loaded = under_load(layout, lesson, layers, part)
    assert loaded == [one for one in graded if one.student in part], "a verdict depends on the load"
    print(f"verdicts under load, identical: {len(loaded)}")


@click.command(help=__doc__)
@click.option("--students", default=200, show_default=True)
@click.option("--lesson", default="02_scaled_dot_product_attention", show_default=True)
@click.option("--sample", "chosen", default=10, show_default=True)
@click.option("--full", is_flag=True)
def command(students: int, lesson: str, chosen: int, full: bool) -> None:
    """Measure a class of a given size."""
    measure(students, lesson, students if full else min(chosen, students))


def measure(students: int, lesson: str, chosen: int) -> None:
    """Grade a class in a course of its own."""
    with tempfile.TemporaryDirectory() as folder:
        layout = dataclasses.replace(Layout(), course=Path(folder) / "course")
        compare(layout, lesson, students, chosen, Path(folder) / "stock")


def main() -> None:
    """Measure what the README claims."""
    measure(200, "02_scaled_dot_product_attention", 10)


if __name__ == "__main__":
    command()
