"""The course's own files, which students never see: the seed of the numbers, and the grader's own faults."""

import os
import secrets
from functools import partial
from pathlib import Path

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError
from autograder.showing.text import printable


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
