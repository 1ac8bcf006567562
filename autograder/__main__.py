"""The command line: `python -m autograder --help`."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import Progress

from autograder.building.new_lesson import new_lesson
from autograder.elsewhere.commands import COMMANDS as ELSEWHERE
from autograder.grading.options import FILE, grading_options
from autograder.handing_out.commands import practice
from autograder.lesson_text.layout import ROOT, Layout, shown
from autograder.proof.commands import bugs, checks
from autograder.sandbox.option import sandbox_option
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal, rated_progress, say
from autograder.watching.command import watch

if TYPE_CHECKING:
    from autograder.grading.grade_course import How, State

LAYOUT = Layout()
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
PLACE = (errno.EACCES, errno.EPERM, errno.ENOTDIR)
REFUSED = ("BadCatalogue", "BadCourse")
"""Errors of attnlib's whose text is for a person; importing the classes here would load torch."""
KEPT = "Nothing that was there before is lost, and the same command goes on from there."


class Commands(click.Group):
    """Shows a CourseError, a full disk or a closed folder as one sentence, and exits with 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (CourseError, ValueError) as error:
            if not isinstance(error, CourseError) and type(error).__name__ not in REFUSED:
                raise
            say(error, err=True)
            sys.exit(1)
        except OSError as error:
            if error.errno in PLACE and error.filename:
                say(f"{error.filename} cannot be used: {error.strerror}.", err=True)
            elif error.errno in DISK:
                say(f"{error.filename or 'A file'} cannot be written: {error.strerror}. {KEPT}", err=True)
            else:
                raise
            sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--course-path",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A repository with lessons of your own; may be repeated. Or ATTNLIB_COURSE_PATH.",
)
def main(course_path: tuple[Path, ...]) -> None:
    """Build the notebooks from the lessons, release them, and grade what students hand in."""
    if course_path:
        os.environ["ATTNLIB_COURSE_PATH"] = os.pathsep.join(str(path.resolve()) for path in course_path)


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
    from autograder.building import build_course
    from autograder.building.colab import repository_url

    if check:
        if differences := build_course.drift(LAYOUT, lessons, exercises()):
            raise CourseError("\n".join([*(f"{line}." for line in differences), "Run: make build"]))
        say("All notebooks are what the text builds.")
        return
    for path in build_course.build(LAYOUT, lessons, exercises(), repository_url(ROOT), say=say):
        say(f"  {shown(path)}")


@main.command()
@click.argument("lessons", nargs=-1, metavar="[LESSON]...")
def prepare(lessons: tuple[str, ...]) -> None:
    """Put the lessons into the nbgrader course, so that nbgrader and its formgrader can start.

    Writes the source notebooks, releases them and enters them into the gradebook, all in autograder/course. What is
    there already and did not change is left alone. Executes nothing: it takes seconds.
    """
    from autograder.building import build_course

    for lesson in build_course.prepare(LAYOUT, lessons):
        say(f"prepared {lesson}")
    say(f"The course is ready: {shown(LAYOUT.course)}")


@main.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--assignment", "-a", "assignments", multiple=True, metavar="LESSON", help="Only this lesson; may be repeated."
)
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
@grading_options
@click.option(
    "--received", type=FILE, metavar="TIMES.csv", help="When each was received: student_id, assignment, timestamp."
)
@click.option("--again", is_flag=True, help="Judge everything again, even what hasn't changed.")
def grade(
    folder: Path | None,
    assignments: tuple[str, ...],
    course: Path | None,
    received: Path | None,
    again: bool,
    how: Callable[[], How],
) -> None:
    """Grade the submissions in FOLDER, laid out as nbgrader does: STUDENT/LESSON/LESSON.ipynb.

    Without FOLDER: what is in autograder/course/submitted; while nothing has been submitted, the sample submissions,
    in a course of their own. The scores go to the course's gradebook, the graded notebooks to its autograded folder.

    Each submission is judged once: a run that was stopped is taken up by the same command.

    Whether one is late is seen from its timestamp.txt, which its student could write, unless nbgrader's exchange or
    --received knows when it came; a platform's times are kept for later runs, each with what was handed in then.

    A Dask cluster's machines send each other code. At a tls:// address they do so only for those who show a certificate
    of the authority --tls-ca, which should have signed for this cluster alone; the three files can also be named by
    AUTOGRADER_TLS_CA, AUTOGRADER_TLS_CERT and AUTOGRADER_TLS_KEY. At a tcp:// address nobody has to show who they are.
    """
    from autograder.grading.chosen import chosen_submissions

    layout = LAYOUT if course is None else dataclasses.replace(LAYOUT, course=course.resolve())
    submitted = layout.course / "submitted"
    samples = folder is None and not any(submitted.glob("*/*/"))
    if not samples:
        chosen_submissions(layout, folder or submitted, assignments)

    settings = dataclasses.replace(how(), again=again, received=received)
    if samples:
        return grade_samples(layout, assignments, settings)
    grade_and_show(layout, folder or submitted, assignments, settings)


def grade_samples(layout: Layout, assignments: tuple[str, ...], how: How) -> None:
    """Grade the samples where they cannot enter the real gradebook."""
    from autograder.building.build_course import prepare
    from autograder.building.compose_samples import compose_samples

    os.environ.pop("AUTOGRADER_DB", None)
    scratch = dataclasses.replace(layout, course=layout.course / "samples")
    say("Nothing has been submitted yet, so these are the sample submissions of autograder/building/samples.")
    shutil.rmtree(scratch.course, ignore_errors=True)
    prepare(scratch, ())
    if not compose_samples(scratch, scratch.course / "release", scratch.course / "submitted"):
        raise CourseError(f"There is no sample in {shown(scratch.samples)}.")
    grade_and_show(scratch, scratch.course / "submitted", assignments, how)


def grade_and_show(layout: Layout, folder: Path, assignments: tuple[str, ...], how: How) -> None:
    """Grade, print the table, and say where everything is."""
    from attnlib.checks import exercises
    from autograder.grading.grade_course import grade
    from autograder.grading.table import grading_tables
    from autograder.in_nbgrader.course_files import alone

    errors = Terminal(stderr=True)
    with alone(layout.course), rated_progress(errors) as progress:
        task = progress.add_task("preparing the course", total=None, rate="")

        def show(state: State) -> None:
            rate = f"{60 * state.rate:.0f} a minute" if state.rate else ""
            progress.update(task, total=state.total, completed=state.done, rate=rate, description=state.what)

        graded = grade(layout, folder, assignments, how, show)
    console = Terminal()
    for table in grading_tables(graded, exercises()):
        console.print(table)
    console.print(f"Graded notebooks: {shown(layout.course / 'autograded')}", soft_wrap=True)
    gradebook = os.environ.get("AUTOGRADER_DB", "").rpartition("@")[2] or shown(layout.course / "gradebook.db")
    console.print(f"Gradebook: {gradebook}", soft_wrap=True)
    if faults := sum(one.fault for one in graded):
        raise CourseError(
            f"Not graded because of a fault in the grader: {faults} of {len(graded)}. "
            f"The tracebacks are in {shown(layout.course / 'faults.txt')}; the next run tries these again."
        )
    complaints = sorted({one.refused for one in graded if one.refused})
    if all(one.problem is not None for one in graded):
        complaints.append("No submission could be graded.")
    if complaints:
        raise CourseError("\n".join(complaints))


@main.command()
@click.argument("lessons", nargs=-1, metavar="[LESSON]...")
@click.option(
    "--course", type=click.Path(path_type=Path), help="An nbgrader course elsewhere, instead of autograder/course."
)
@click.option("--csv", "table", type=FILE, metavar="NAME.csv", help="Write NAME.csv and NAME_exercises.csv.")
@click.option("--html", "page", type=FILE, metavar="NAME.html", help="Write one page with plots.")
@click.option("--anonymous", is_flag=True, help="Leave out names: only counts, in all that is shown or written.")
def report(
    lessons: tuple[str, ...], course: Path | None, table: Path | None, page: Path | None, anonymous: bool
) -> None:
    """Show the item analysis of what was graded: what was hard, and which misconception the class shares.

    For each exercise of the lessons, of all if none is named: the share that passed, with its 95 % interval, the mean
    share of the points, who earned which part, and who made the same mistake. A submission that could not be graded is
    listed with the reason and counts nowhere. While nothing has been submitted: the sample submissions, once graded.
    """
    from autograder.report.command import show

    layout = LAYOUT if course is None else dataclasses.replace(LAYOUT, course=course.resolve())
    show(layout, lessons, table=table, page=page, names=not anonymous)


for command in (checks, bugs, practice, new_lesson, watch, *ELSEWHERE):
    main.add_command(command)


@main.command()
@click.argument("id")
@click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")
def slip(id: str, exercises: tuple[str, ...]) -> None:
    """Print a mistake as a program: a right answer with the wrong line of the slip ID, marked.

    For each exercise that has it, or for the named ones.
    """
    from autograder.showing.wrong_programs import wrong_programs

    say("\n\n".join(wrong_programs(id, exercises)))


@main.command()
@sandbox_option
def doctor(sandbox: str) -> None:
    """Attack the sandbox from inside, promise by promise, and exit with 1 if one did not hold.

    Network connections, files outside, the gradebook, other processes, forks, memory, disk, endless loops, whatever is
    left for the next student, and more. No attack does harm if it gets out.
    """
    from autograder.sandbox.doctor.examine import examine, table
    from autograder.sandbox.probe import probe

    layers = probe(sandbox)
    findings = []
    with Progress(console=Terminal(stderr=True), transient=True) as progress:
        task = progress.add_task("attacking", total=None)
        for finding in examine(layers, LAYOUT):
            findings.append(finding)
            progress.update(task, advance=1, description=finding.attack.attack)
    Terminal().print(table(findings, layers))
    if broken := sum(not finding.held for finding in findings):
        raise CourseError(f"{broken} of {len(findings)} attacks got through.")
    say(f"All {len(findings)} attacks were held.")


if __name__ == "__main__":
    main(prog_name="python -m autograder")
