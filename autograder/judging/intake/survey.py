"""Survey a folder of submissions: which submissions it holds, and a line for everything that isn't one."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.judging.intake.folder import NOTEBOOKS
from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError

MOST_IN_ONE = 500
SYSTEMS_OWN = (
    ".DS_Store",
    ".git",
    ".gitignore",
    ".ipynb_checkpoints",
    ".nbgrader.log",
    "Thumbs.db",
    "__MACOSX",
    "__pycache__",
)
MACS_OWN = "._"  # beside each file that a Mac writes to another system's disk
NEEDS = "it needs the layout STUDENT/LESSON/LESSON.ipynb"
SKIPS = "nbgrader skips such a folder"


@dataclass(frozen=True)
class Stray:
    """Something that isn't a submission, and the reason."""

    student: str
    why: str


def survey(folder: Path) -> tuple[list[tuple[str, str]], list[Stray]]:
    """Return the (student, assignment) pairs in a folder, and what else is in it, except for a system's own files."""
    if not folder.exists():
        raise CourseError(f"{shown(folder)} does not exist.")
    if not folder.is_dir():
        raise CourseError(f"{shown(folder)} is not a folder; grade takes a folder STUDENT/LESSON/LESSON.ipynb.")
    submissions: list[tuple[str, str]] = []
    strays: list[Stray] = []
    for name in sorted(path.name for path in folder.iterdir()):
        if name in SYSTEMS_OWN:
            continue
        lessons, why = _of_student(folder / name)
        submissions += [(name, lesson) for lesson in lessons]
        strays += [Stray(name, reason) for reason in why]
    return sorted(submissions), strays


def _of_student(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the submissions in a student's folder, and why anything else in it isn't one."""
    mode = folder.lstat().st_mode
    if stat.S_ISLNK(mode):
        return [], ["it is a link, and no folder of its own"]
    if not stat.S_ISDIR(mode):
        return [], [f"it is no student's folder: {NEEDS}"]
    if folder.name.startswith("."):
        return [], [f"a student's name must not begin with a dot: {SKIPS}"]
    try:
        entries = list(_entries(folder))
    except OSError as error:
        return [], [f"the folder cannot be read: {error.strerror}"]
    if len(entries) > MOST_IN_ONE:
        return [], [f"the folder holds more than {MOST_IN_ONE} files and folders: {NEEDS}"]
    # no link is followed: one that leads to itself would raise, and `collect` names each link as the reason
    folders = sorted(entry.name for entry in entries if entry.is_symlink() or entry.is_dir(follow_symlinks=False))
    lessons = [name for name in folders if not name.startswith(".")]
    files = sorted({entry.name for entry in entries} - set(folders))
    why = [f"{name}: a lesson's name must not begin with a dot: {SKIPS}" for name in folders if name.startswith(".")]
    why += [f"{name} is in no lesson's folder: {NEEDS}" for name in files if name.lower().endswith(NOTEBOOKS)]
    if others := [name for name in files if not name.lower().endswith(NOTEBOOKS)]:
        why.append(f"not in any lesson's folder: {', '.join(others)[:200]}")
    return lessons, why or ([] if lessons else ["the folder is empty"])


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number > 2 * MOST_IN_ONE:
                return
            if entry.name not in SYSTEMS_OWN and not entry.name.startswith(MACS_OWN):
                yield entry
