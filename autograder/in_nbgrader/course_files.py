"""The course's own files, which students never see: the seed of the numbers, the grader's own faults, and its lock."""

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError
from autograder.showing.text import printable

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a disk that takes no more: they concern everybody, and pass."""


def course_seed(course: Path) -> int:
    """The course's own seed for the numbers in comparisons; drawn once, and known to no student."""
    path = course / "seed"
    if not path.is_file():
        write_whole(path, f"{secrets.randbits(128)}\n", mode=0o600)
    text = path.read_text(encoding="ascii", errors="replace").strip()
    if not text.isdecimal():
        raise CourseError(f"{shown(path)} holds no number: put it back, or remove it, and every verdict is made anew.")
    return int(text)


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file so that it is there whole or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with open(new, "w", encoding="utf-8", opener=partial(os.open, mode=mode)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def faults_file(course: Path) -> Path:
    """The file with the tracebacks of the grader's own faults."""
    return course / "faults.txt"


def record_fault(course: Path, student: str, lesson: str, trace: str) -> None:
    """Keep a traceback for the person who fixes it."""
    with faults_file(course).open("a", encoding="utf-8") as file:
        file.write(f"{printable(student)} {lesson}\n{trace}\n")


@contextmanager
def alone(course: Path, work: str = "watch", done: str = "graded or watched") -> Iterator[None]:
    """Hold a lock of the course, which the kernel releases if its holder dies; a CourseError if another run has it."""
    course.mkdir(parents=True, exist_ok=True)
    path = course / f"{work}.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            said = file.read().strip() or "of unknown number"
            raise CourseError(f"{shown(course)} is {done} already, by process {said}: two would do it twice.") from None
        except OSError:  # a disk without locks
            pass
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
