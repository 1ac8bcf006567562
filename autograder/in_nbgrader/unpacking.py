"""`nbgrader zip_collect`: archives that students made, unpacked within bounds, each by itself."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nbgrader.plugins import ExtractorPlugin
from traitlets import Integer

from autograder.judging.intake.folder import MOST_DEPTH
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

BAD = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # an unknown compression, a password
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)
PIECE = 1 << 20
OPENERS: dict[str, Callable[[Path], Any]] = {".bz2": bz2.open, ".xz": lzma.open, ".tar": lambda path: path.open("rb")}


class ExtractWithinBounds(ExtractorPlugin):
    """In place of nbgrader's: follows no link, unpacks no more than it may, and goes on to the next archive."""

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
                        self._left_out(path, "it is no regular file")
                elif path.suffix in self.zip_ext:
                    self._unpack(path, target)
                else:
                    shutil.copy(path, target / path.name)

    def _unpack(self, archive: Path, target: Path) -> None:
        """Unpack an archive and those within it, each into a folder of its own beside it, as nbgrader does."""
        room, waiting = Room(self.most_bytes, self.most_files), deque([(archive, target / _stem(archive), 0)])
        while waiting:
            path, into, depth = waiting.popleft()
            try:
                if depth > MOST_DEPTH:
                    raise CourseError(f"it lies in archives that are nested more than {MOST_DEPTH} deep")
                for file in room.unpack(path, into):
                    if file.suffix in self.zip_ext:
                        waiting.append((file, file.parent / _stem(file), depth + 1))
            except TooMuch as error:  # the whole of it: who knows what else is missing
                self._left_out(archive, str(error))
                shutil.rmtree(target / _stem(archive), ignore_errors=True)
                return
            except (*BAD, CourseError) as error:
                self._left_out(path, str(error) or type(error).__name__)
        for line in room.left_out:
            self._left_out(archive, line)

    def _unread(self, error: OSError) -> None:
        self._left_out(error.filename, error.strerror or "it cannot be read")

    def _left_out(self, path: object, why: str) -> None:
        self.log.error("Not unpacked: %s: %s", printable(path), printable(why))


class TooMuch(CourseError):
    """An archive holds more than it may."""


class Room:
    """What an archive and those within it may still take up; `left_out` names what was not taken from them."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self.most_bytes, self.most_files = most_bytes, most_files
        self.bytes = self.files = 0
        self.left_out: list[str] = []

    def unpack(self, archive: Path, into: Path) -> Iterator[Path]:
        """Write the archive's regular files into a folder of its own; yields their paths."""
        into.mkdir(parents=True, exist_ok=True)
        for name, file in self._members(archive):
            self._take(files=1)
            path = _within(into, name)
            if path is None:
                self.left_out.append(f"{name[:200]!r}, whose name leads out of it or cannot be written")
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with file, path.open("wb") as target:
                while piece := file.read(PIECE):
                    self._take(size=len(piece))
                    target.write(piece)
            yield path

    def _members(self, archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
        """The regular files in an archive: their names, and each of them opened."""
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened:
                for member in opened.infolist():
                    if stat.S_ISLNK(member.external_attr >> 16):
                        self._no_file(member.filename)
                    elif not member.is_dir():
                        yield member.filename, opened.open(member)
            return
        opener = OPENERS.get(archive.suffix, gzip.open)
        with opener(archive) as unpacked, tarfile.open(fileobj=Counted(unpacked, self.most_bytes), mode="r|") as stream:
            for entry in stream:
                if entry.isreg() and (file := stream.extractfile(entry)) is not None:
                    yield entry.name, file
                elif not entry.isdir():
                    self._no_file(entry.name)

    def _no_file(self, name: str) -> None:
        self._take(files=1)
        self.left_out.append(f"{name[:200]!r}, which is a link, or no regular file")

    def _take(self, *, files: int = 0, size: int = 0) -> None:
        self.files += files
        self.bytes += size
        if self.bytes > self.most_bytes:
            raise TooMuch(f"it holds more than {self.most_bytes >> 20} MB")
        if self.files > self.most_files:
            raise TooMuch(f"it holds more than {self.most_files} files")


class Counted(io.RawIOBase):
    """A stream that ends with TooMuch: a tar file's headers, too, may be as long as they like."""

    def __init__(self, inner: IO[bytes], most: int) -> None:
        self.inner, self.left, self.most = inner, most, most

    def read(self, size: int = -1) -> bytes:
        data = self.inner.read(PIECE if size < 0 else min(size, PIECE))
        self.left -= len(data)
        if self.left < 0:
            raise TooMuch(f"it holds more than {self.most >> 20} MB")
        return data


def _within(folder: Path, name: str) -> Path | None:
    """Where a member goes; None for a name that leads out of the folder, or that cannot be one."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    clean = parts and ".." not in parts and parts[0] != "/" and name.isprintable() and len(parts) <= MOST_DEPTH
    return folder.joinpath(*parts) if clean else None


def _stem(archive: Path) -> str:
    """The archive's name without .zip, .gz or .tar.gz."""
    stem = Path(archive.stem)
    return stem.stem if stem.suffix == ".tar" else str(stem)
