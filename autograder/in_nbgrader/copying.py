"""Copying a student's files: from the exchange, and to where others see them, beside graded notebooks and feedback."""

import os
import stat
from collections.abc import Callable
from itertools import islice
from pathlib import Path, PurePosixPath

from autograder.judging.intake.folder import MOST_BYTES, MOST_DEPTH, MOST_ENTRIES, TIMESTAMP, collect
from autograder.judging.intake.timestamp import told_time
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

# The formgrader serves these files from its own origin, with the instructor's session: none of them may be a page, a
# script or a drawing that runs scripts. And none may run code when it is opened, as a pickle does. What an answer needs
# while it is judged is taken from the submission itself, whatever its ending.
DATA = (".csv", ".dat", ".json", ".npy", ".npz", ".toml", ".tsv", ".yaml", ".yml")
TEXT = (".log", ".md", ".py", ".txt")
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")
COPIED = frozenset({*DATA, *TEXT, *PICTURES})


def copy_listed(source: Path, target: Path, lesson: str) -> None:
    """Copy the regular files with one of these endings, and the time that a timestamp.txt names if it is one.

    None in a folder that has the name of a file that is written beside them: the notebook, its page, or that time.
    """
    target.mkdir(parents=True, exist_ok=True)
    taken = (f"{lesson}.ipynb", f"{lesson}.html", TIMESTAMP)
    for name, data in collect(source, lesson).files.items():
        if PurePosixPath(name).suffix.lower() in COPIED and PurePosixPath(name).parts[0] not in taken:
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(data)
    told, _ = told_time(source)
    (target / TIMESTAMP).unlink(missing_ok=True)
    if told is not None:
        (target / TIMESTAMP).write_text(f"{told.isoformat(' ')} UTC", encoding="ascii")


ANOTHER = "it belongs to another user"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class Copy:
    """A copy of a folder's regular files. Its owner may change the folder meanwhile; no link is followed.

    `is_owner` says of a user's number whether the folder may be that user's; all in it has to be the same user's, for a
    link of the hard kind leads elsewhere, too. `left_out` has a line for everything else. What cannot be written raises
    its OSError: a copy without it would be another submission. `changed` is when the system last changed anything about
    the folder or a file in it: unlike the other times of a file, this one cannot be set.
    """

    def __init__(self, source: Path, target: Path, most: int, is_owner: Callable[[int], bool]) -> None:
        if source.is_symlink():
            raise CourseError("it is a link, and no folder of its own")
        self.target, self.most = target, most
        self.left_out: list[str] = []
        self.changed = 0.0
        self.size = self.number = 0
        opened = os.open(source, FOLDER)
        self.owner = os.fstat(opened).st_uid  # of the opened folder, not of one there before
        if not is_owner(self.owner):
            os.close(opened)
            raise CourseError(ANOTHER)
        self._folder(opened, Path())

    def _folder(self, opened: int, inner: Path) -> None:
        """Copy what is in an open folder, and close it."""
        try:
            state = os.fstat(opened)
            if state.st_uid != self.owner:
                self._leave_out(inner, ANOTHER)
                return
            self.changed = max(self.changed, state.st_ctime)
            (self.target / inner).mkdir(parents=True)
            for entry in self._listed(opened, inner):
                self._count(entries=1)
                self._entry(entry, opened, inner / entry.name)
        finally:
            os.close(opened)

    def _listed(self, opened: int, inner: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(opened) as entries:
                return list(islice(entries, MOST_ENTRIES + 1))
        except OSError as error:
            self._leave_out(inner, error.strerror)
            return []

    def _entry(self, entry: os.DirEntry[str], folder: int, name: Path) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and len(name.parts) > MOST_DEPTH:
                self._leave_out(name, f"it is nested more than {MOST_DEPTH} deep")
                return
            opened = os.open(entry.name, FOLDER if is_folder else FILE, dir_fd=folder)
        except OSError as error:
            self._leave_out(name, "it is a link" if entry.is_symlink() else error.strerror)
            return
        if is_folder:
            self._folder(opened, name)
        else:
            self._file(opened, name)

    def _file(self, opened: int, name: Path) -> None:
        with open(opened, "rb") as file:
            state = os.fstat(opened)
            if not stat.S_ISREG(state.st_mode):
                self._leave_out(name, "it is not a regular file")
                return
            if state.st_uid != self.owner:
                self._leave_out(name, ANOTHER)
                return
            try:
                data = file.read(MOST_BYTES + 1)
            except OSError as error:
                self._leave_out(name, error.strerror)
                return
        if len(data) > MOST_BYTES:
            self._leave_out(name, f"it has more than {MOST_BYTES >> 20} MB")
            return
        self.changed = max(self.changed, state.st_ctime)
        self._count(size=len(data))
        (self.target / name).write_bytes(data)

    def _count(self, *, entries: int = 0, size: int = 0) -> None:
        self.number += entries
        self.size += size
        if self.size > self.most or self.number > MOST_ENTRIES:
            raise CourseError("it is too large, or holds too many files")

    def _leave_out(self, name: Path, why: str | None) -> None:
        self.left_out.append(f"{printable(name)}: {why}")
