"""Run the command: read the course, print the tables, write the files."""

import dataclasses
from collections.abc import Callable
from datetime import date
from pathlib import Path

from rich.progress import Progress

from attnlib.checks import exercises
from autograder.lesson_text.layout import Layout, shown
from autograder.report.analysis import LessonAnalysis, Shared, analyse, shared_misconceptions
from autograder.report.collect import Submission, collect, has_gradebook
from autograder.report.csv_files import write_csv
from autograder.report.practised import by_kind
from autograder.report.tables import tables
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal


def show(layout: Layout, lessons: tuple[str, ...], *, table: Path | None, page: Path | None, names: bool) -> None:
    """Print the analysis, and write the CSV files and the page if asked to."""
    console = Terminal()
    samples = dataclasses.replace(layout, course=layout.course / "samples")
    if not has_gradebook(layout) and has_gradebook(samples):
        console.print("Nothing has been submitted yet, so this is about the sample submissions.")
        layout = samples
    submissions = _collect(layout, lessons)
    if not submissions:
        raise CourseError(f"{shown(layout.course)} has no submission of {' or '.join(lessons) or 'any lesson'}.")
    submissions, kinds = by_kind(layout, submissions)
    known = exercises()
    analyses = analyse(submissions, known | kinds, names=names)
    for analysis in analyses:
        for made in tables(analysis):
            console.print(made)
    if table is not None:
        _written(console, table, lambda: write_csv(analyses, table))
    if page is not None:
        shared = shared_misconceptions(submissions, known, names=names)
        _written(console, page, lambda: (_write_page(page, analyses, shared, names),))


def _collect(layout: Layout, lessons: tuple[str, ...]) -> list[Submission]:
    errors = Terminal(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("reading submissions", total=None)
        return collect(layout, lessons, lambda done, total: progress.update(task, completed=done, total=total))


def _write_page(path: Path, analyses: list[LessonAnalysis], shared: list[Shared], names: bool) -> Path:
    from autograder.report.page import page

    path.write_text(page(analyses, shared, date.today(), names=names), encoding="utf-8")
    return path


def _written(console: Terminal, path: Path, write: Callable[[], tuple[Path, ...]]) -> None:
    """Write the file, making its folder if there is none, and say so."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        paths = write()
    except OSError as error:
        raise CourseError(f"{shown(path)} cannot be written: {error.strerror}.") from None
    for one in paths:
        console.print(f"Wrote {shown(one.resolve())}", soft_wrap=True)
