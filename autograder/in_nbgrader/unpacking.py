"""`nbgrader zip_collect`: archives that students made, unpacked within bounds, each by itself."""

import gzip
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from nbgrader.plugins import ExtractorPlugin
from traitlets import Integer

from autograder.judging.intake.archives import BAD, PIECE, Member, Room, Unfit, tar_members, zip_members
from autograder.judging.intake.bounded import bounded
from autograder.judging.intake.folder import MOST_BYTES, MOST_DEPTH
from autograder.showing.errors import NotGraded
from autograder.showing.text import printable

UNPACKING_WALL = 1800.0
"""Seconds for the files of one archive, mostly spent by the disk."""
MOST_LINES = 20
"""The most lines that name files left out of one archive; one more line gives the number of the rest."""


class ExtractWithinBounds(ExtractorPlugin):
    """Replaces nbgrader's extractor: follows no link, unpacks no more than it may, and goes on to the next file.

    A platform's archive holds all students' files, and some of these are archives. To keep no student out, small files
    are unpacked first, then the archives among them, each with an equal share of the room that is left; a share's
    remainder goes to the next. Anything that doesn't fit is left out, with a line.
    """

    most_bytes = Integer(1 << 30, help="Bytes that one archive may hold, with those within it.").tag(config=True)
    most_files = Integer(20_000, help="Files that one archive may hold, with those within it.").tag(config=True)

    def extract(self, archive_path: str, extracted_path: str) -> None:
        for place, folders, names in os.walk(archive_path, onerror=self._unread):
            target = Path(extracted_path, os.path.relpath(place, archive_path))
            target.mkdir(parents=True, exist_ok=True)
            for name in sorted(name for name in (*names, *folders) if Path(place, name).is_symlink()):
                self._left_out(Path(place, name), "it is a link, and no file of its own")
            for path in (Path(place, name) for name in sorted(names)):
                if not stat.S_ISREG(path.lstat().st_mode):
                    if not path.is_symlink():
                        self._left_out(path, "it is not a regular file")
                elif path.suffix in self.zip_ext:
                    self._unpack(path, target / _stem(path), Room(self.most_bytes, self.most_files))
                else:
                    shutil.copy(path, target / path.name)

    def _unpack(self, archive: Path, into: Path, room: Room, depth: int = 0) -> None:
        """Unpack an archive and those within it, each into a folder of its own beside it, as nbgrader does."""
        if depth > MOST_DEPTH:
            self._left_out(archive, f"it lies in archives that are nested more than {MOST_DEPTH} deep")
            return
        within: list[Path] = []
        left_out: list[str] = []
        try:
            with bounded(UNPACKING_WALL), _opened(archive, self.most_bytes) as members:
                for member in sorted(members, key=lambda member: member.size):
                    path, why = self._place(into, member, room)
                    if not why:
                        why = _written(member, path)
                    if why:
                        left_out.append(f"{member.name[:200]!r}: {why}")
                    elif path.suffix in self.zip_ext:
                        within.append(path)
        except (Unfit, NotGraded, *BAD) as error:
            left_out.append(str(error) or type(error).__name__)
        more = len(left_out) - MOST_LINES
        for line in [*left_out[:MOST_LINES], *([f"{more} more of its files"] if more > 0 else [])]:
            self._left_out(archive, line)
        for number, path in enumerate(within):  # sorted by size
            share = room.share(len(within) - number)
            self._unpack(path, path.parent / _stem(path), share, depth + 1)
            room.give_back(share)

    def _place(self, into: Path, member: Member, room: Room) -> tuple[Path, str]:
        """Return the path for a member, and the reason if it goes nowhere."""
        path = _within(into, member.name)
        if path is None:
            return into, "its name leads out of it or cannot be written"
        if member.size > MOST_BYTES:
            return into, f"it has {member.size >> 20} MB; at most {MOST_BYTES >> 20} are graded"
        if not room.takes(member.size):
            return into, "there is no room for it: the archive holds too much"
        return path, ""

    def _unread(self, error: OSError) -> None:
        self._left_out(error.filename, error.strerror or "it cannot be read")

    def _left_out(self, path: object, why: str) -> None:
        self.log.error("Not unpacked: %s: %s", printable(path), printable(why))


@contextmanager
def _opened(archive: Path, most_bytes: int) -> Iterator[list[Member]]:
    """The files of a zip file, or of a tar file, also one compressed by gzip."""
    with archive.open("rb") as file, tempfile.TemporaryFile() as plain:
        if archive.suffix == ".zip":
            yield zip_members(file)
        elif archive.suffix == ".tar":
            yield tar_members(file)
        elif archive.suffix == ".gz":
            _inflate(file, plain, most_bytes)
            yield tar_members(plain)
        else:
            raise Unfit("it is neither a zip file nor a tar file, plain or compressed by gzip")


def _inflate(file: IO[bytes], target: IO[bytes], most_bytes: int) -> None:
    with gzip.open(file) as unpacked:
        while piece := unpacked.read(PIECE):
            target.write(piece)
            if target.tell() > most_bytes:
                raise Unfit(f"it holds more than {most_bytes >> 20} MB")
    target.seek(0)


def _written(member: Member, path: Path) -> str:
    """Write a member; return the reason if that fails."""
    try:
        data = member.read()
    except Unfit as error:
        return str(error)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        if path.is_file():  # partly written, when the disk was full
            path.unlink()
        return str(error)
    return ""


def _within(folder: Path, name: str) -> Path | None:
    """Return the path for a member; None for a name that leads out of the folder, or that can't be one."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    clean = parts and ".." not in parts and parts[0] != "/" and name.isprintable() and len(parts) <= MOST_DEPTH
    return folder.joinpath(*parts) if clean else None


def _stem(archive: Path) -> str:
    """The archive's name without .zip, .gz or .tar.gz."""
    stem = Path(archive.stem)
    return stem.stem if stem.suffix == ".tar" else str(stem)
