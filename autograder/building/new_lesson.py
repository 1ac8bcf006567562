"""`python -m autograder new-lesson`: the smallest lesson, in a repository of one's own."""

import importlib.util
import keyword
import re
import shlex
import sys
from pathlib import Path

import click

from autograder.lesson_text.layout import ROOT
from autograder.showing.errors import CourseError
from autograder.showing.terminal import say

NAME = re.compile(r"[2-9][0-9]_[a-z][a-z0-9_]*")
USED = ("torch", "check", "by_loop")
"""The names that the templates use beside the exercise's own."""
FOLDERS = ("solutions", "tests", "notebooks")
TEMPLATES = Path(__file__).parent / "new_lesson"


@click.command(name="new-lesson")
@click.argument("lesson", metavar="20_MY_TOPIC")
@click.option(
    "--into", type=click.Path(path_type=Path, file_okay=False), default=".", help="The repository; this folder."
)
def new_lesson(lesson: str, into: Path) -> None:
    """Write the smallest lesson, with one exercise, into a repository of your own. It passes its tests at once.

    The number is from 20 to 99; lower ones are kept for the course's own lessons.
    """
    for path in write_lesson(lesson, into.resolve()):
        say(f"  {path.relative_to(into.resolve())}")
    say(f"Next: {Path(sys.executable).name} -m autograder --course-path {shlex.quote(str(into))} checks {lesson[3:]}")


def write_lesson(lesson: str, root: Path) -> list[Path]:
    """Write the lesson's files, and those of the repository that are not there yet; a CourseError before any is."""
    if not NAME.fullmatch(lesson):
        raise CourseError(f"A lesson is called like 20_my_topic, with a number from 20 to 99, got {lesson!r}.")
    if root.is_relative_to(ROOT):
        raise CourseError(f"{root} is in the course's own repository: give a folder of your own by --into.")
    from attnlib.checks.course import called  # loads torch

    if keyword.iskeyword(lesson[3:]) or lesson[3:] in USED or called(lesson[3:]) is not None:
        raise CourseError(f"{lesson[3:]!r} cannot be the exercise's name, which is used already: give another topic.")
    package = _package(root)
    number, topic = lesson[:2], lesson[3:]
    if (root / package / f"lesson_{number}").exists() or any((root / "solutions").glob(f"{number}_*.py")):
        raise CourseError(f"{root} has a lesson {number} already: give the new one another number.")
    names = {"PACKAGE": package, "LESSON": lesson, "NUMBER": number, "TOPIC": topic, "TITLE": topic.replace("_", " ")}
    written = []
    for template in sorted(path for path in TEMPLATES.rglob("*.txt")):
        path = root / _filled(str(template.relative_to(TEMPLATES).with_suffix("")), names)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_filled(template.read_text(encoding="utf-8"), names), encoding="utf-8")
            written.append(path)
    return written


def _package(root: Path) -> str:
    """The package that has lessons already, or one called like the repository."""
    there = sorted({path.parents[1].name for path in root.glob("*/lesson_[0-9][0-9]/exercises.py")})
    if len(there) > 1:
        raise CourseError(f"{root} has lessons in several packages: {', '.join(there)}. One is required.")
    if there:
        return there[0]
    name = re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_")  # also a distribution's name, which is in ASCII
    taken = keyword.iskeyword(name) or name in FOLDERS or (name and importlib.util.find_spec(name) is not None)
    return name if name.isidentifier() and not taken else f"course_{name}".rstrip("_")


def _filled(text: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"@{name}@", value)
    return text
