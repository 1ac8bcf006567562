"""How fast judged submissions are entered: gradebook, graded notebook, entry. One process does it, whatever judges.

    python -m benchmarks.entering [--students 300]

SQLite in a temporary course; PostgreSQL, too, if AUTOGRADER_DB names an empty database (postgresql://user@host/name).
"""

import dataclasses
import json
import os
import tempfile
import time
import warnings
from pathlib import Path

import click

from autograder.building.build_course import prepare
from autograder.building.compose_samples import compose_samples
from autograder.grading.entering import Entries
from autograder.grading.grade_course import How, grade
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.judging.submission import Judged
from autograder.lesson_text.layout import Layout
from autograder.sandbox.probe import probe

from .measure import header, row

LESSON = "02_scaled_dot_product_attention"
STUDENT = "excellent"
URL = "AUTOGRADER_DB"
CLASS = 100_000


def rate(layout: Layout, students: int) -> float:
    """Submissions entered a second: one is judged, and entered again under many names."""
    prepare(layout, (LESSON,))
    submitted = layout.course / "submitted"
    compose_samples(layout, layout.course / "release", submitted)
    grade(layout, submitted, (LESSON,), How(layers=probe()))
    course = NbgraderCourse(layout.course)
    with warnings.catch_warnings(), course.gradebook() as gradebook:
        warnings.simplefilter("ignore")  # nbgrader's own
        entries = Entries(course, gradebook)
        known = json.loads(entries.path(LESSON, STUDENT).read_text(encoding="utf-8"))
        notebook = course.path(course.directory.autograded_directory, STUDENT, LESSON) / f"{LESSON}.ipynb"
        del known["digest"]
        judged = Judged(**{**known, "notebook": notebook.read_text(encoding="utf-8")})
        began = time.perf_counter()
        for i in range(students):
            entries.enter(dataclasses.replace(judged, student=f"student{i}"), str(i), None)
        return students / (time.perf_counter() - began)


def main(students: int = 300) -> None:
    """Print the table, with a line for each kind of gradebook."""
    databases = {"SQLite": None, "PostgreSQL": os.environ.pop(URL, None)}
    header("submissions entered by the one writer", "a second", "hours for 100,000")
    for name, url in databases.items():
        if name != "SQLite" and url is None:
            print(f"{name}: not measured, {URL} is not set")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update({URL: url} if url else {})
            found = rate(dataclasses.replace(Layout(), course=Path(folder, "course")), students)
        row(name, found, CLASS / found / 3600)


@click.command()
@click.option("--students", default=300, show_default=True)
def command(students: int) -> None:
    """How fast judged submissions are entered."""
    main(students)


if __name__ == "__main__":
    command()
