"""Read a folder that a student filled: only regular files, without following links or opening what could wait."""

import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath

from autograder.judging.intake.bounded import bounded
from autograder.showing.errors import NotGraded
from autograder.showing.text import printable

MOST_BYTES = 32 << 20  # of a notebook, or of a zip file
MOST_BYTES_BESIDE = 8 << 20  # of any other file
MOST_BYTES_IN_ALL = 128 << 20
MOST_ENTRIES = 2000
MOST_DEPTH = 10
MOST_REMARKS = 5
FAR_FUTURE = 2.0**35  # a file may have been changed in a year that no calendar has
NOTEBOOKS = (".ipynb", ".zip")
TIMESTAMP = "timestamp.txt"
SMALLER = "clear its outputs, save it, and hand it in again"


@dataclass(frozen=True)
class HandedIn:
    """A submission's files by their names in its folder, when a notebook was last changed, and what was left out."""

    files: dict[str, bytes]
    changed: datetime | None = None
    remarks: tuple[str, ...] = ()


@dataclass
class _Reading:
    """The files read so far, and the names of those left out."""

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    changed: float = 0.0
    size: int = 0

    def read(self, path: Path, name: str, most: int) -> None:
        """Read one file; NotGraded gives the reason if that can't be done."""
        data, changed = read_regular(path, name, min(most, MOST_BYTES_IN_ALL - self.size))
        self.files[name] = data
        self.size += len(data)
        if name.lower().endswith(NOTEBOOKS):
            self.changed = max(self.changed, min(changed, FAR_FUTURE))


@bounded()
def collect(folder: Path, lesson: str) -> HandedIn:
    """The files in a submission's folder, LESSON.ipynb first; NotGraded if that one cannot be read.

    Any other file that cannot be read, or that would be too much, is left out with a remark.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        raise NotGraded("the folder is a link, and no folder of its own")
    found, notebook = _Reading(), f"{lesson}.ipynb"
    if os.path.lexists(folder / notebook) and not _is_folder(folder / notebook):
        found.read(folder / notebook, notebook, MOST_BYTES)
    for number, (name, path) in enumerate(_walk(folder, found.left_out)):
        if number > MOST_ENTRIES:
            if notebook not in found.files:
                raise NotGraded(f"the folder holds more than {MOST_ENTRIES} files, and none is called {notebook}")
            found.files = {notebook: found.files[notebook]}
            found.left_out = [f"all but {notebook}: the folder holds more than {MOST_ENTRIES} files"]
            break
        if name in ("", notebook, TIMESTAMP):
            continue
        try:
            found.read(path, name, MOST_BYTES if name.lower().endswith(NOTEBOOKS) else MOST_BYTES_BESIDE)
        except NotGraded as reason:
            found.left_out.append(str(reason))
    more = len(found.left_out) - MOST_REMARKS
    remarks = [f"left out: {why}" for why in found.left_out[:MOST_REMARKS]]
    remarks += [f"left out: {more} more"] if more > 0 else []
    changed = datetime.fromtimestamp(found.changed, UTC) if found.changed else None
    return HandedIn(found.files, changed, tuple(remarks))


def digest_of_files(files: Mapping[str, bytes]) -> str:
    """Return a digest of the files handed in: names and bytes."""
    state = hashlib.sha256()
    for name, data in sorted(files.items()):
        state.update(f"\n{name} {hashlib.sha256(data).hexdigest()}".encode(errors="surrogateescape"))
    return state.hexdigest()


def _walk(folder: Path, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield every entry of a folder by name, "" for a sub-folder, the nearest first; nothing that is too deep."""
    waiting = deque([PurePosixPath()])
    while waiting:
        place = waiting.popleft()
        if len(place.parts) > MOST_DEPTH:
            left_out.append(f"folders nested more than {MOST_DEPTH} deep")
            return  # the nearest come first: all that are waiting are as deep
        try:
            entries = list(_listed(folder / place))
        except OSError as error:
            left_out.append(f"{printable(place)} cannot be read: {error.strerror}")
            continue
        for entry in entries:
            name = place / entry.name
            if is_hidden(name.parts):
                continue
            folders = entry.is_dir(follow_symlinks=False)
            if folders:
                waiting.append(name)
            yield "" if folders else str(name), folder / name


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """The first entries of a folder, by name."""
    with os.scandir(folder) as entries:
        found = list(islice(entries, MOST_ENTRIES + 2))
    return sorted(found, key=lambda entry: entry.name)


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def read_regular(path: Path, name: str, most: int) -> tuple[bytes, float]:
    """Return a file's bytes and when it was changed; NotGraded if it isn't a regular file or is larger than `most`.

    Nothing waits: of a pipe or a device, not a byte is read.
    """
    shown, flags = printable(name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            raise NotGraded(f"{shown} is a link, and no file of its own")
        if stat.S_ISREG(state.st_mode):
            with os.fdopen(os.open(path, flags), "rb") as file:
                state = os.fstat(file.fileno())  # of the opened file, not of one there before
                data = file.read(most + 1) if stat.S_ISREG(state.st_mode) else b""
        if not stat.S_ISREG(state.st_mode):
            raise NotGraded(f"{shown} is not a regular file")
    except OSError as error:
        raise NotGraded(f"{shown} cannot be read: {error.strerror}") from None
    if len(data) > most:
        kind = "a notebook" if name.lower().endswith(NOTEBOOKS) else "it"
        hint = f": {SMALLER}" if name.lower().endswith(".ipynb") else ""
        raise NotGraded(f"{shown} has {_size(state.st_size)}; {kind} may have {_size(most, unit='')}{hint}")
    return data, state.st_mtime


def _size(number: int, unit: str = " MB") -> str:
    return f"{number >> 20}{unit}" if number >= 1 << 20 else f"{number} bytes"


def is_hidden(parts: Sequence[str]) -> bool:
    """True for a system's own files: a checkpoint, a cache, or what a Mac adds to a zip file."""
    return any((part.startswith(".") and part != "..") or part in ("__MACOSX", "__pycache__") for part in parts)
