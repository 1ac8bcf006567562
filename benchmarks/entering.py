"""The time one process takes to enter what was judged, and nbgrader's own way: gradebook, graded notebook, entry.

    python -m benchmarks.entering [--students 1000] [--stock 40] [--machines 64] [--cores 8]

SQLite in a temporary course; also PostgreSQL if AUTOGRADER_DB names an empty database (postgresql://user@host/name).
Then 1,000,000 submissions on many machines: simulated, with workers that take the seconds measured for each kind of
submission, and a writer that takes those measured for a batch.
"""

import copy
import dataclasses
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click
from nbgrader.api import Gradebook
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades

from autograder.building.build_course import prepare
from autograder.grading.entering import Entered, Entries
from autograder.grading.grade_course import BATCH, How, grade
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.submission import Judged
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.sandbox.probe import probe

from .made_class import SHARES, made_class
from .measure import header, row, verdict
from .simulated_cluster import simulate

LESSON = "02_scaled_dot_product_attention"
URL = "AUTOGRADER_DB"
MILLION = 1_000_000
CLASS = 40
"""Students: a worker's first submission waits for its imports, which hardly counts in a million."""


@dataclass
class Spent:
    """Seconds for one submission: on the clock, and of this process's processor time."""

    wall: float
    cpu: float


def spent(work: Callable[[], object], submissions: int) -> Spent:
    """Measure the time a piece of work takes per submission."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Spent((time.perf_counter() - wall) / submissions, (time.process_time() - cpu) / submissions)


class Bench:
    """A course in which a class was judged; the result of the first right submission is entered under many names."""

    def __init__(self, layout: Layout) -> None:
        prepare(layout, (LESSON,))
        self.layout, self.submitted, self.names = layout, layout.course / "submitted", self._new_names()
        release = read_notebook(layout.course / "release" / LESSON / f"{LESSON}.ipynb")
        kinds = {}
        for handed in made_class(layout, LESSON, release, CLASS):
            kinds.setdefault(handed.kind, []).append(handed.student)
            write_notebook(handed.notebook, self.submitted / handed.student / LESSON / f"{LESSON}.ipynb")
        grade(layout, self.submitted, (LESSON,), How(layers=probe()))
        self.course = NbgraderCourse(layout.course)
        with self.course.gradebook() as gradebook:
            entries = Entries(self.course, gradebook)
            known = {
                kind: [json.loads(entries.path(LESSON, s).read_text()) for s in them] for kind, them in kinds.items()
            }
        self.seconds = {kind: fmean(entry["seconds"] for entry in them) for kind, them in known.items()}
        self.student = kinds["right"][0]
        self.notebook = self._graded(self.student) / f"{LESSON}.ipynb"
        right = {**known["right"][0], "notebook": self.notebook.read_text(encoding="utf-8")}
        del right["digest"]
        self.judged = Judged(**right)

    def _new_names(self) -> Iterator[str]:
        return (f"new{number}" for number in range(10**9))

    def _graded(self, student: str) -> Path:
        return self.course.path(self.course.directory.autograded_directory, student, LESSON)

    def hand_in(self, students: int) -> list[str]:
        """Hand in this many more submissions, and return their students' names."""
        names = [next(self.names) for _ in range(students)]
        for name in names:
            shutil.copytree(self.submitted / self.student, self.submitted / name)
        return names

    def ours(self, students: int, batch: int) -> Spent:
        """Seconds for one that is entered among `batch` others."""
        todo = [
            Entered(dataclasses.replace(self.judged, student=s), str(n), None)
            for n, s in enumerate(self.hand_in(students))
        ]
        with self.course.gradebook() as gradebook:
            entries = Entries(self.course, gradebook)
            return spent(lambda: [entries.enter(todo[at : at + batch]) for at in range(0, students, batch)], students)

    def stock(self, students: int) -> Spent:
        """Seconds for one that nbgrader's steps enter: its rows, its scores, its penalty, and its notebook."""
        names, notebook, url = self.hand_in(students), read_notebook(self.notebook), self.course.directory.db_url

        def enter(student: str) -> None:
            place = {"notebook": LESSON, "assignment": LESSON, "student": student, "db_url": url}
            with Gradebook(url) as gradebook:
                gradebook.update_or_create_student(student)
                gradebook.update_or_create_submission(LESSON, student)
            found = copy.deepcopy(notebook)
            for step in (SaveAutoGrades(), AssignLatePenalties()):
                found, _ = step.preprocess(found, {"nbgrader": place})
            shutil.copytree(self.submitted / student / LESSON, self._graded(student))
            write_notebook(found, self._graded(student) / f"{LESSON}.ipynb")

        return spent(lambda: [enter(name) for name in names], students)


def compare(bench: Bench, students: int, stock: int, name: str) -> tuple[Spent, Spent]:
    """Print both ways; returns the seconds of ours, alone and among many."""
    alone, many, theirs = bench.ours(stock, 1), bench.ours(students, BATCH), bench.stock(stock)
    header(f"submissions entered, {name}", "a second", "a second of processor", "hours for 1,000,000")
    for label, one in (("nbgrader's steps", theirs), ("ours, one by one", alone), (f"ours, by {BATCH}", many)):
        row(label, 1 / one.wall, 1 / one.cpu, MILLION * one.wall / 3600)
    verdict("rate on the clock, ours / nbgrader", theirs.wall / many.wall, 20, at_least=True)
    verdict("rate of processor time, ours / nbgrader", theirs.cpu / many.cpu, 20, at_least=True)
    verdict("a second of processor time", 1 / many.cpu, 150, at_least=True)
    verdict("a second", 1 / many.wall, 100, at_least=True)
    return alone, many


def a_million(bench: Bench, alone: Spent, many: Spent, machines: int, cores: int) -> None:
    """Print what judging and entering take, worked out, and simulated for workers and a writer side by side."""
    each = sum(SHARES[kind] * seconds for kind, seconds in bench.seconds.items())
    told = ", ".join(f"{kind} {seconds:.1f} ({SHARES[kind]:.0%})" for kind, seconds in bench.seconds.items())
    workers = machines * cores
    header(f"1,000,000 submissions, {machines} machines of {cores} cores", "hours", "a second")
    row("judging alone, worked out", MILLION * each / workers / 3600, workers / each)
    row("entering alone, worked out", MILLION * many.wall / 3600, 1 / many.wall)
    fixed = max(0.0, (alone.wall - many.wall) * BATCH / (BATCH - 1))
    found = simulate(
        MILLION,
        workers=workers,
        seconds=[(SHARES[kind], seconds) for kind, seconds in bench.seconds.items()],
        batch=lambda size: fixed + size * (many.wall - fixed / BATCH),
        most=BATCH,
    )
    row("both at a time, simulated", found.seconds / 3600, MILLION / found.seconds)
    print(f"seconds judged, by kind: {told}; {each:.2f} on average")
    print(f"batches of {found.batch:.0f} on average; workers wait for the writer {found.idle:.0%} of their time")


def main(students: int = 1000, stock: int = 40, machines: int = 64, cores: int = 8) -> None:
    """Print the tables, with one for each kind of gradebook."""
    warnings.simplefilter("ignore")  # nbgrader's own
    databases = {"SQLite": None, "PostgreSQL": os.environ.pop(URL, None)}
    for name, url in databases.items():
        if name != "SQLite" and url is None:
            print(f"{name}: not measured, {URL} is not set")
            continue
        os.environ.update({URL: url} if url else {})
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DISK")) as folder:
            bench = Bench(dataclasses.replace(Layout(), course=Path(folder, "course")))
            alone, many = compare(bench, students, stock, name)
            a_million(bench, alone, many, machines, cores)


@click.command(help=__doc__)
@click.option("--students", default=1000, show_default=True)
@click.option("--stock", default=40, show_default=True)
@click.option("--machines", default=64, show_default=True)
@click.option("--cores", default=8, show_default=True)
def command(students: int, stock: int, machines: int, cores: int) -> None:
    """Measure both ways to enter."""
    main(students, stock, machines, cores)


if __name__ == "__main__":
    command()
