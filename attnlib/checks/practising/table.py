"""The bugs that can be served: a table that is built by trying each of them, `python -m autograder bugs`."""

import functools
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from attnlib.checks import course
from attnlib.checks.practising.bug import Bug, bug_of
from attnlib.checks.practising.review import slip_of

FILE = Path(__file__).parent / "bugs.tsv"
MOST_LINES = 40
"""Lines of code, imports included, that can be read in a few minutes."""
LONGEST_LINE = 110
TELLTALE = r"\+ 0\.0\b|\* 1\.0\b|\* 0\b(?!\.)|\bif (False|True)\b|in \(0, 1, 3\)|^\s*(\w+) = \2$"
"""Code that nobody writes, so that it would give a wrong line away."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A bug that was tried: its exercise and slip, how hard it is, and the case that shows it."""

    exercise: str
    slip: str
    dialect: int
    level: int
    silent: bool
    size: int
    code: int
    """The checksum of the code that was tried: other code under this name has not been."""
    case: str

    @property
    def bug(self) -> Bug:
        """The bug itself."""
        return bug_of(self.exercise, self.slip, self.dialect)

    @property
    def key(self) -> str:
        """The bug's key, without making the bug."""
        return f"{self.exercise}/{self.slip}" + (f"/{self.dialect}" if self.dialect else "")

    @property
    def card(self) -> str:
        """The card by which it is scheduled: its slip."""
        return slip_of(self.slip)


HEAD = [field.name for field in fields(Row)]


def checksum(code: str) -> int:
    """Return the CRC-32 of a program's text.

    >>> checksum("a = 1")
    715871365
    """
    return zlib.crc32(code.encode())


def as_text(rows: Sequence[Row]) -> str:
    """Return the table as text, a line for each bug."""
    lines = ("\t".join(str(int(cell) if isinstance(cell, bool) else cell) for cell in astuple(row)) for row in rows)
    return "".join(f"{line}\n" for line in ("\t".join(HEAD), *lines))


def from_text(text: str) -> tuple[Row, ...]:
    """Read the rows of a table; a ValueError names a line that isn't one."""
    head, *lines = text.splitlines()
    if head.split("\t") != HEAD:
        raise ValueError(f"the first line must be {' '.join(HEAD)}, got {head!r:.80}")
    return tuple(_row(line, number) for number, line in enumerate(lines, 2))


def _row(line: str, number: int) -> Row:
    try:
        exercise, slip, dialect, level, silent, size, code, case = line.split("\t")
        return Row(
            exercise=exercise,
            slip=slip,
            dialect=int(dialect),
            level=int(level),
            silent=bool(int(silent)),
            size=int(size),
            code=int(code),
            case=case,
        )
    except ValueError:
        raise ValueError(f"line {number} must have {len(HEAD)} cells, the numbers whole, got {line!r:.80}") from None


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return every bug that can be served, in course order."""
    return tuple(row for file in files() if file.is_file() for row in from_text(file.read_text(encoding="utf-8")))


def files() -> list[Path]:
    """Return the course's own table, and those of packages with other people's lessons."""
    return [FILE, *(package / FILE.name for package in course.OTHERS)]


def file_of(lesson: str) -> Path:
    """Return the table that holds a lesson's bugs."""
    packages = [package for package in course.OTHERS if (package / f"lesson_{lesson[:2]}").is_dir()]
    return packages[0] / FILE.name if packages else FILE
