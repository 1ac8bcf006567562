"""Grade in a package: find the lesson, the seed and the sandbox; the adapters only write the results."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from autograder.elsewhere.package import SEED, SETTINGS
from autograder.in_nbgrader.course_files import course_seed, write_whole
from autograder.judging.grade_one import grade
from autograder.lesson_text.layout import ROOT, Layout
from autograder.sandbox.layers import Layers
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError

SEED_VARIABLE = "ATTENTION_SEED"
WEAKER = {
    "landlock": "no bubblewrap here, so student code is behind Landlock, and shares process ids with the grader",
    "user": "neither bubblewrap nor Landlock here, so student code runs as another user: it reads whatever all "
    "users of this container may read, but neither the package nor the results",
}


def settings() -> dict[str, Any]:
    """Return the settings the package was made with."""
    try:
        found = json.loads((ROOT / SETTINGS).read_text(encoding="utf-8"))
        return {**found, "lesson": str(found["lesson"])}
    except (OSError, ValueError, KeyError, TypeError):
        raise CourseError(f"This is no package: it has no {SETTINGS} with a lesson. Pack it again.") from None


def seed_in(folder: Path) -> int:
    """The course's seed in a folder of the package; a CourseError if it has none."""
    if not (folder / "seed").is_file():
        raise CourseError(f"This package has no seed, which should be in {folder / 'seed'}. Pack it again.")
    return course_seed(folder)


def seed_of_package() -> int:
    """The course's seed where the course has it."""
    return seed_in((ROOT / SEED).parent)


def seed_of_environment() -> int | None:
    """Take the seed that a platform keeps as a secret, if it does, out of the environment."""
    text = os.environ.pop(SEED_VARIABLE, "").strip()
    if text and not text.isdecimal():
        raise CourseError(f"{SEED_VARIABLE} should be the number in {SEED}; what it holds is none.")
    return int(text) if text else None


def layers_here() -> Layers:
    """Return the strongest layers this container allows, at least another user; print them, and a warning if weak."""
    layers = probe("any")
    print(layers)
    if layers.outer in WEAKER:
        print(f"Note: {WEAKER[layers.outer]}.")
    return layers


def verdict_on(submission: Path, seed: int | None) -> dict[str, Any]:
    """`autograder.grade`'s verdict on what a student handed in.

    Raises CourseError where there is none for a reason that is not the student's: then nothing should be published.
    """
    if not submission.exists():
        raise CourseError(f"There is no submission: {submission} does not exist.")
    lesson = settings()["lesson"]
    found = grade(Layout().solutions / f"{lesson}.py", submission, layers=layers_here(), seed=seed)
    if found["again"]:
        print(found["fault"], file=sys.stderr)
        raise CourseError(f"Not graded, and nothing is published: {found['problem']}. Run it again.")
    return found


def publish(path: Path, results: dict[str, Any]) -> None:
    """Write the results, whole or not at all, where only their owner can read or replace them."""
    try:
        write_whole(path, json.dumps(results, indent=1), mode=0o600)
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}.") from None
