"""The commands for a class that is elsewhere: `python -m autograder pack`, `push` and `requests`."""

from pathlib import Path

import click

from autograder.elsewhere.package import VISIBILITIES
from autograder.elsewhere.push_command import push
from autograder.elsewhere.requests_command import requests
from autograder.lesson_text.layout import Layout, shown
from autograder.showing.terminal import say

TARGET = click.Path(path_type=Path)


@click.group()
def pack() -> None:
    """Pack the grader for another platform: a lesson, the locked requirements, the hidden cases and the seed.

    A package with the seed is for the platform's graders alone: whoever has it knows the hidden inputs.
    """


@pack.command("gradescope")
@click.argument("lesson")
@click.option("--to", "target", type=TARGET, metavar="NAME.zip", help="Instead of gradescope_LESSON.zip.")
@click.option(
    "--visibility",
    type=click.Choice(VISIBILITIES),
    default=VISIBILITIES[0],
    show_default=True,
    help="When students see the verdicts.",
)
def pack_gradescope(lesson: str, target: Path | None, visibility: str) -> None:
    """Write the zip for a Gradescope programming assignment."""
    from autograder.elsewhere import gradescope

    written = gradescope.pack(Layout(), lesson, target or Path(f"gradescope_{lesson}.zip"), visibility)
    say(f"Upload it as the autograder of a programming assignment, and give it to nobody else: {shown(written)}")


@pack.command("github")
@click.argument("lesson")
@click.argument("folder", type=TARGET)
def pack_github(lesson: str, folder: Path) -> None:
    """Write FOLDER/student and FOLDER/instructor: two repositories with their workflows.

    The first has the notebook and its visible checks. The second grades; it needs the secrets ATTENTION_SEED and
    STUDENTS_TOKEN. No seed is in either.
    """
    from autograder.elsewhere import github

    say(f"Two repositories' files: {shown(github.pack(Layout(), lesson, folder))}")


@pack.command("classroom50")
@click.argument("lesson")
@click.argument("folder", type=TARGET)
def pack_classroom50(lesson: str, folder: Path) -> None:
    """Write FOLDER, which goes to CLASSROOM/autograders/ASSIGNMENT: students can read it, and it has no seed."""
    from autograder.elsewhere import github

    say(f"Put it into your classroom50 repository: {shown(github.pack_classroom50(Layout(), lesson, folder))}")


@pack.command("prairielearn")
@click.argument("lesson")
@click.argument("folder", type=TARGET)
def pack_prairielearn(lesson: str, folder: Path) -> None:
    """Write FOLDER/image, from which a Docker image is built, and FOLDER/course with the question and the seed.

    FOLDER/course goes into the course's own repository, which students cannot read.
    """
    from autograder.elsewhere import prairielearn

    say(f"An image and a question: {shown(prairielearn.pack(Layout(), lesson, folder))}")


COMMANDS = (pack, push, requests)
