"""`python -m autograder watch`."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autograder.grading.options import grading_options
from autograder.lesson_text.layout import Layout, shown
from autograder.showing.terminal import say

if TYPE_CHECKING:
    from autograder.grading.grade_course import How


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
@click.option("--attempts", type=click.IntRange(1), help="The most attempts of one student to judge in an hour.")
@grading_options
def watch(folder: Path | None, course: Path | None, attempts: int | None, how: Callable[[], "How"]) -> None:
    """Answer submissions as they arrive, until Ctrl-C: judge them, enter them, release their feedback.

    Without FOLDER, they arrive in nbgrader's exchange, and feedback is released there, for `nbgrader fetch_feedback`.
    FOLDER is laid out as nbgrader does, STUDENT/LESSON/LESSON.ipynb, and holds each student's last one; feedback is
    written into the course's folder `feedback`.

    Each attempt is answered once, the earliest first, also by a watch that was killed and started again. A student who
    has used up the attempts of an hour waits; then the last attempt is judged, and those before it are passed over.
    """
    layout = Layout() if course is None else dataclasses.replace(Layout(), course=course.resolve())
    from autograder.building.build_course import NotReleased, prepare
    from autograder.in_nbgrader.course_files import alone
    from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
    from autograder.watching.arrivals import Exchange, Folder
    from autograder.watching.watch import Watch

    with alone(layout.course):
        settings = how()
        lessons, refused = layout.gradable(()), set[str]()
        try:
            prepare(layout, tuple(lessons))
        except NotReleased as error:
            say(error, err=True)
            refused = {*error.why}
        nbgrader = NbgraderCourse(layout.course, submitted=None if folder is None else folder.resolve())
        arrivals = Exchange(nbgrader, lessons) if folder is None else Folder(folder.resolve(), lessons)
        released = {*lessons} - refused
        watching = Watch(layout, nbgrader, arrivals, settings, attempts, say=lambda text: say(text), released=released)
        say(f"Watching {shown(arrivals.inbound if isinstance(arrivals, Exchange) else arrivals.submitted)}")
        try:
            watching.forever()
        except KeyboardInterrupt:
            say("Stopped. The same command goes on from here.")
        finally:
            watching.close()
