"""Archives made by students. Everything is bounded before it is read: the members' number, sizes and compression.

Only stored and deflated members of zip files are read: other methods turn a kilobyte into gigabytes before anybody can
them. No two members may share their bytes, so that a file of some size is never more work than its size allows.
"""

import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import IO, Any, TypeVar

T = TypeVar("T")
MOST_MEMBERS = 20_000
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
TOO_MANY = f"it holds more than {MOST_MEMBERS} files"
MOST_LISTING = 1024 * MOST_MEMBERS
"""The most bytes that may describe them."""
ENTRY = b"PK\x01\x02"
"""The first bytes of each member's description."""
ENTRY_BYTES, LENGTHS = 46, 28
"""Bytes of a description before its name, and where it has the lengths of its three last parts."""
HEADER_BYTES = 30
"""The fewest bytes before each member's own."""
PIECE = 1 << 20
BAD = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # a feature that zipfile does not know
    MemoryError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
)


class Unfit(Exception):
    """Raised where an archive or a member is not read, with the reason as a clause."""


@dataclass(frozen=True)
class Member:
    """A file in an archive: its name, its size by its own account, and the reason if it is not to be read."""

    name: str
    size: int
    why_not: str
    content: Callable[[], bytes]

    def read(self) -> bytes:
        """Return all of its `size` bytes; Unfit if it is not to be read, or not as its archive describes it."""
        if self.why_not:
            raise Unfit(self.why_not)
        return _tried(self.content)


@dataclass
class Room:
    """The room left for files from archives."""

    bytes: int
    files: int

    def takes(self, size: int) -> bool:
        """Take up room for a file of this size; return whether there was enough."""
        if size > self.bytes or self.files < 1:
            return False
        self.bytes -= size
        self.files -= 1
        return True

    def share(self, among: int) -> "Room":
        """Return the room for one of this many."""
        part = Room(self.bytes // among, self.files // among)
        self.bytes -= part.bytes
        self.files -= part.files
        return part

    def give_back(self, part: "Room") -> None:
        """Add the remainder of a share."""
        self.bytes += part.bytes
        self.files += part.files


class _Listed:
    """An archive's file, from which zipfile gets no list of members that is too long: it reads all of it at once.

    Only this list is counted, not what looks like one elsewhere: a student's own archive may be among the members.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.is_read = file, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def read(self, size: int = -1) -> bytes:
        if not self.is_read and size > MOST_LISTING:
            raise Unfit(TOO_MANY)
        data = self.file.read(size)
        if not self.is_read and _entries(data) > MOST_MEMBERS:
            raise Unfit(TOO_MANY)
        return data


def zip_members(file: IO[bytes]) -> list[Member]:
    """The files in a zip file; Unfit if it cannot be read, has too many entries, or some share their bytes."""
    listed = _Listed(file)
    archive = _tried(partial(zipfile.ZipFile, listed))
    listed.is_read = True
    entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
    for one, following in pairwise(entries):
        if one.header_offset + HEADER_BYTES + one.compress_size > following.header_offset:
            raise Unfit("some of its files share their bytes")
    return [
        Member(entry.filename, entry.file_size, _why_not(entry), partial(_read, archive, entry))
        for entry in archive.infolist()
        if not entry.is_dir()
    ]


def tar_members(file: IO[bytes]) -> list[Member]:
    """The files in a tar file that is not compressed; Unfit if it cannot be read, or has too many entries."""
    archive = _tried(partial(tarfile.open, fileobj=file, mode="r:"))
    entries: list[tarfile.TarInfo] = []
    while (entry := _tried(archive.next)) is not None:
        entries.append(entry)
        if len(entries) > MOST_MEMBERS:
            raise Unfit(TOO_MANY)
    no_file = "it is a link, or no regular file"
    return [
        Member(entry.name, entry.size, "" if entry.isreg() else no_file, partial(_extract, archive, entry))
        for entry in entries
        if not entry.isdir()
    ]


def _entries(data: bytes) -> int:
    """How many members these bytes describe, one after the other."""
    place = count = 0
    while data.startswith(ENTRY, place) and place + ENTRY_BYTES <= len(data):
        place += ENTRY_BYTES + sum(struct.unpack_from("<3H", data, place + LENGTHS))
        count += 1
    return count


def _why_not(entry: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "it is a link, or no regular file"
    if entry.compress_type not in METHODS:
        return "it is compressed by another method than deflate"
    return "it is encrypted" if entry.flag_bits & 1 else ""


def _read(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        return file.read(entry.file_size)  # no byte more than declared, and verified by the checksum


def _extract(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return b"" if file is None else file.read(entry.size)


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except BAD as error:
        raise Unfit(str(error) or type(error).__name__) from None
