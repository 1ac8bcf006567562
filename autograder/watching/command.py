"""`python -m autograder watch`."""

import dataclasses
import os
from pathlib import Path

import click

from autograder.lesson_text.layout import Layout, shown
from autograder.sandbox.option import sandbox_option
from autograder.showing.terminal import say


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
@click.option("--attempts", type=click.IntRange(1), help="The most attempts of one student to judge in an hour.")
@sandbox_option
@click.option("--workers", type=click.IntRange(1), help="Submissions judged side by side; the number of processors.")
@click.option("--db", metavar="URL", help="The gradebook's database, such as postgresql://user@host/course.")
def watch(
    folder: Path | None, course: Path | None, attempts: int | None, sandbox: str, workers: int | None, db: str | None
) -> None:
    """Answer submissions as they arrive, until Ctrl-C: judge them, enter them, release their feedback.

    Without FOLDER, they arrive in nbgrader's exchange, and feedback is released there, for `nbgrader fetch_feedback`.
    FOLDER is laid out as nbgrader does, STUDENT/LESSON/LESSON.ipynb, and holds each student's last one; feedback is
    written into the course's folder `feedback`.

    Each attempt is answered once, the earliest first, also by a watch that was killed and started again. A student who
    has used up the attempts of an hour waits; then the last attempt is judged, and those before it are passed over.
    """
    if db is not None:
        os.environ["AUTOGRADER_DB"] = db
    layout = Layout() if course is None else dataclasses.replace(Layout(), course=course.resolve())
    from autograder.building.build_course import NotReleased, prepare
    from autograder.grading.grade_course import How
    from autograder.in_nbgrader.course_files import alone
    from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
    from autograder.sandbox.probe import probe
    from autograder.watching.arrivals import Exchange, Folder
    from autograder.watching.watch import Watch

    with alone(layout.course):
        layers = probe(sandbox)
        say(layers, err=True)
        lessons, refused = layout.gradable(()), set[str]()
        try:
            prepare(layout, tuple(lessons))
        except NotReleased as error:
            say(error, err=True)
            refused = {*error.why}
        nbgrader = NbgraderCourse(layout.course, submitted=None if folder is None else folder.resolve())
        arrivals = Exchange(nbgrader, lessons) if folder is None else Folder(folder.resolve(), lessons)
        how = How(layers=layers, workers=workers or len(os.sched_getaffinity(0)))
        released = {*lessons} - refused
        watching = Watch(layout, nbgrader, arrivals, how, attempts, say=lambda text: say(text), released=released)
        say(f"Watching {shown(arrivals.inbound if isinstance(arrivals, Exchange) else arrivals.submitted)}")
        try:
            watching.forever()
        except KeyboardInterrupt:
            say("Stopped. The same command goes on from here.")
        finally:
            watching.close()
