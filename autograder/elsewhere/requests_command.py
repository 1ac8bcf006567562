"""`python -m autograder requests`: regrade requests, read and decided by one assistant or several."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from autograder.lesson_text.layout import Layout
from autograder.showing.errors import CourseError
from autograder.showing.terminal import say
from autograder.showing.text import printable

if TYPE_CHECKING:
    from autograder.elsewhere.requests import Requests, Shown

BECAUSE = click.option("--because", required=True, metavar="SENTENCE", help="Why; the feedback shows it.")
BY = click.option("--by", default=getpass.getuser, show_default="you", help="Who decides.")


@click.group(invoke_without_command=True)
@click.option("--share", default="1/1", metavar="K/N", help="Only the K-th of N assistants' students.")
@click.option("--all", "decided", is_flag=True, help="Include those already decided.")
@click.option("--course", type=click.Path(path_type=Path), help="An nbgrader course, instead of autograder/course.")
@click.pass_context
def requests(context: click.Context, share: str, decided: bool, course: Path | None) -> None:
    """List regrade requests: who asks, what they wrote, the verdict, and the code.

    Then accept or refuse each, with a sentence. Several assistants can do so at a time.
    """
    from autograder.elsewhere.requests import Requests
    from autograder.in_nbgrader.shares import read_share

    layout = Layout() if course is None else dataclasses.replace(Layout(), course=course.resolve())
    part = read_share(share, "--share")
    context.obj = partial(Requests, layout)  # which makes the folder: no help should
    if context.invoked_subcommand is None:
        book = Requests(layout)
        found = book.all(part=part, decided=decided)
        for request in found:
            say(as_text(book.show(request)))
        say(f"{len(found)} request{'s' * (len(found) != 1)}.")


@requests.command("take")
@click.argument("table", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def take(book: Callable[[], Requests], table: Path) -> None:
    """Take over TABLE, a form's CSV file with the columns student_id, assignment, exercise and text.

    The same table may be taken again, with the lines that came meanwhile.
    """
    new, wrong = book().take(table)
    say(f"{new} new request{'s' * (new != 1)}.")
    if wrong:
        raise CourseError("\n".join(f"Not taken: {line}." for line in wrong))


@requests.command("accept")
@click.argument("id")
@click.option("--points", type=float, required=True, help="The exercise's points from now on.")
@BECAUSE
@BY
@click.pass_obj
def accept(book: Callable[[], Requests], id: str, points: float, because: str, by: str) -> None:
    """Accept the request ID: its exercise gets these points, which stay when it is judged again."""
    request = book().decide(id, because, by, points)
    say(f"{printable(request.student)} has {points:g} points for {request.test.removeprefix('test_')} now.")


@requests.command("refuse")
@click.argument("id")
@BECAUSE
@BY
@click.pass_obj
def refuse(book: Callable[[], Requests], id: str, because: str, by: str) -> None:
    """Refuse the request ID: the points stay."""
    request = book().decide(id, because, by)
    say(f"Refused: {printable(request.student)} keeps the points for {request.test.removeprefix('test_')}.")


def as_text(found: Shown) -> str:
    """A request as an assistant reads it; nothing that a student wrote moves the cursor."""
    request = found.request
    exercise = request.test.removeprefix("test_")
    lines = [
        f"{request.id}  {request.student}, {request.lesson}, {exercise}: {found.points:g} of {found.most:g} points"
    ]
    parts = [("wrote", request.text), ("verdict", found.verdict), ("code", found.code)]
    if request.state != "open":
        parts.insert(0, (request.state, f"by {request.by}: {request.because}"))
    lines += [f"  {name}:\n{indent(text, '    ')}" for name, text in parts if text]
    return printable("\n".join([*lines, ""]), keep="\n")
