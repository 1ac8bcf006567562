"""The command line: `python -m autograder --help`."""

import dataclasses
import shutil
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from autograder.errors import CourseError
from autograder.layout import ROOT, Layout, shown

LAYOUT = Layout()


class Commands(click.Group):
    """Shows a CourseError as its sentence, and exits with 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except CourseError as error:
            click.echo(str(error), err=True)
            sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Build the notebooks from the lessons, release them, and grade what students hand in."""


@main.command()
@click.argument("lessons", nargs=-1, metavar="[LESSON]...")
@click.option("--check", is_flag=True, help="Write nothing; fail if the notebooks are not what the text builds.")
def build(lessons: tuple[str, ...], check: bool) -> None:
    """Build the notebooks of the lessons, of all if none is named.

    solutions/LESSON.py becomes nbgrader's source notebook in autograder/course/source, the student's notebook in
    notebooks/ (released by nbgrader, then judged by the release gate), and the instructor's executed notebook in
    solutions/. If the gate has a complaint about any of them, nothing is published.
    """
    from attnlib.checks import exercises
    from autograder import build_course
    from autograder.colab import repository_url

    if check:
        if differences := build_course.drift(LAYOUT, lessons, exercises()):
            raise CourseError("\n".join([*(f"{line}." for line in differences), "Run: make build"]))
        click.echo("All notebooks are what the text builds.")
        return
    for path in build_course.build(LAYOUT, lessons, exercises(), repository_url(ROOT), say=click.echo):
        click.echo(f"  {shown(path)}")


@main.command()
@click.argument("lessons", nargs=-1, metavar="[LESSON]...")
def prepare(lessons: tuple[str, ...]) -> None:
    """Put the lessons into the nbgrader course, so that nbgrader and its formgrader can start.

    Writes the source notebooks, releases them and enters them into the gradebook, all in autograder/course. What is
    there already and did not change is left alone. Executes nothing: it takes seconds.
    """
    from autograder import build_course

    for lesson in build_course.prepare(LAYOUT, lessons):
        click.echo(f"prepared {lesson}")
    click.echo(f"The course is ready: {shown(LAYOUT.course)}")


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--assignment", "-a", "assignments", multiple=True, metavar="LESSON", help="Only this lesson; may be repeated."
)
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
def grade(folder: Path | None, assignments: tuple[str, ...], course: Path | None) -> None:
    """Grade the submissions in FOLDER, laid out as nbgrader does: STUDENT/LESSON/LESSON.ipynb.

    Without FOLDER: what lies in autograder/course/submitted; while nothing has been submitted, the sample submissions,
    in a course of their own. The scores go to the course's gradebook, the graded notebooks to its autograded folder.
    """
    layout = LAYOUT if course is None else dataclasses.replace(LAYOUT, course=course.resolve())
    submitted = layout.course / "submitted"
    if folder is None and not any(submitted.glob("*/*/")):
        return grade_samples(layout, assignments)
    grade_and_show(layout, folder or submitted, assignments)


def grade_samples(layout: Layout, assignments: tuple[str, ...]) -> None:
    """Grade the samples where they cannot enter the real gradebook."""
    from autograder.build_course import prepare
    from autograder.compose_samples import compose_samples

    scratch = dataclasses.replace(layout, course=layout.course / "samples")
    click.echo("Nothing has been submitted yet, so these are the sample submissions of autograder/samples.")
    shutil.rmtree(scratch.course, ignore_errors=True)
    prepare(scratch, ())
    if not compose_samples(scratch, scratch.course / "release", scratch.course / "submitted"):
        raise CourseError(f"There is no sample in {shown(scratch.samples)}.")
    grade_and_show(scratch, scratch.course / "submitted", assignments)


def grade_and_show(layout: Layout, folder: Path, assignments: tuple[str, ...]) -> None:
    """Grade, print the table, and say where everything is."""
    from autograder.grade_course import grade
    from autograder.grading_table import grading_tables

    errors = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("preparing the course")
        graded = grade(layout, folder, assignments, lambda what: progress.update(task, description=f"grading {what}"))
    console = Console()
    for table in grading_tables(graded):
        console.print(table)
    console.print(f"Graded notebooks: {shown(layout.course / 'autograded')}", soft_wrap=True, highlight=False)
    console.print(f"Gradebook: {shown(layout.course / 'gradebook.db')}", soft_wrap=True, highlight=False)
    if all(one.problem is not None for one in graded):
        raise CourseError("No submission could be graded.")


if __name__ == "__main__":
    main(prog_name="python -m autograder")
