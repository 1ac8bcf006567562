"""`python -m autograder push`: a class's grades to Canvas or Moodle."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table
from rich.text import Text

from autograder.lesson_text.layout import Layout
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal, say
from autograder.showing.text import printable

if TYPE_CHECKING:
    from autograder.elsewhere.push import Platform, Row

PLATFORMS = ("canvas", "moodle")
FILE = click.Path(dir_okay=False, path_type=Path)
MARKS = {"send": "→", "nothing": "", "keep": "kept", "missing": "not there"}


@click.command()
@click.argument("platform", type=click.Choice(PLATFORMS))
@click.argument("lessons", nargs=-1, metavar="[LESSON]...")
@click.option("--address", help="The platform's address; else CANVAS_URL or MOODLE_URL.")
@click.option("--course-id", help="The course there; else CANVAS_COURSE or MOODLE_COURSE.")
@click.option("--assignment", help="The assignment's name or id there, for one LESSON; else the lesson's own name.")
@click.option("--token-file", type=FILE, help="A file that only you can read; else CANVAS_TOKEN or MOODLE_TOKEN.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and send nothing.")
@click.option("--yes", is_flag=True, help="Send without asking.")
@click.option("--overwrite", is_flag=True, help="Replace grades that were changed there.")
@click.option("--raw", is_flag=True, help="Leave out our lateness penalty, for a platform with its own.")
@click.option("--course", type=click.Path(path_type=Path), help="An nbgrader course, instead of autograder/course.")
def push(
    platform: str,
    lessons: tuple[str, ...],
    address: str | None,
    course_id: str | None,
    assignment: str | None,
    token_file: Path | None,
    dry_run: bool,
    yes: bool,
    overwrite: bool,
    raw: bool,
    course: Path | None,
) -> None:
    """Take the grades of the LESSONs, of all that were graded if none is named, to PLATFORM: canvas or moodle.

    First comes a table of what would change. What is there already is not sent again, so the same command goes on after
    an interruption; whoever cannot be sent is named.
    """
    from autograder.elsewhere.push import graded_lessons, look, send
    from autograder.in_nbgrader.course_files import alone

    layout = Layout() if course is None else dataclasses.replace(Layout(), course=course.resolve())
    there = connect(platform, address, course_id, token_file)
    chosen = lessons or tuple(graded_lessons(layout))
    if assignment is not None and len(chosen) != 1:
        raise CourseError(f"--assignment names one lesson's, and there are {len(chosen)}: name the LESSON.")
    if not chosen:
        raise CourseError("Nothing has been graded yet.")
    click.get_current_context().with_resource(alone(layout.course, "push", "pushed"))
    found = [
        (lesson, *look(there, layout, lesson, assignment or lesson, overwrite=overwrite, lateness=not raw))
        for lesson in chosen
    ]
    for lesson, _, rows in found:
        Terminal().print(table(lesson, rows))
    total = sum(row.do == "send" for *_, rows in found for row in rows)
    if dry_run or not total:
        return say(f"{total} to send. Nothing was sent.")
    if not yes:
        click.confirm(f"Send {total} to {platform}?", abort=True)
    failed: dict[str, str] = {}
    for lesson, remote, rows in found:
        refused = send(there, layout, lesson, remote, rows)
        failed |= {f"{student}, {lesson}": why for student, why in refused.items()}
    if failed:
        lines = [f"Not sent: {printable(who)}: {why}." for who, why in failed.items()]
        raise CourseError(
            "\n".join([*lines, f"The other {total - len(failed)} are there. The same command tries again."])
        )
    say(f"{total} sent.")


def connect(platform: str, address: str | None, course_id: str | None, token_file: Path | None) -> Platform:
    """The course on the platform, by the command's options or else the environment."""
    from autograder.elsewhere import canvas, moodle
    from autograder.elsewhere.web import read_token

    given = {}
    for name, value, option in (("URL", address, "--address"), ("COURSE", course_id, "--course-id")):
        variable = f"{platform.upper()}_{name}"
        given[name] = value or os.environ.get(variable, "")
        if not given[name]:
            raise CourseError(f"{option} is required, or the environment variable {variable}.")
    if platform == "canvas":
        return canvas.Canvas(given["URL"], read_token(canvas.VARIABLE, token_file), given["COURSE"])
    return moodle.Moodle(given["URL"], read_token(moodle.VARIABLE, token_file), given["COURSE"])


def table(lesson: str, rows: list[Row]) -> Table:
    """Tabulate what a push would change, students with a change first."""
    found = Table(title=lesson, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("Student", "There", "", "Here", ""):
        found.add_column(heading, overflow="fold")
    for row in sorted(rows, key=lambda row: (list(MARKS).index(row.do) if row.do != "nothing" else 9, row.student)):
        there, here = ("" if score is None else f"{score:g}" for score in (row.there, row.here))
        found.add_row(Text(printable(row.student)), there, MARKS[row.do], here, Text(printable(row.why)))
    return found
