"""A journal of answers, a line each, on disk before the next is begun; and the lock that keeps a second watch out."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from autograder.lesson_text.layout import shown
from autograder.showing.errors import CourseError

HOUR = 3600.0


@dataclass(frozen=True)
class Answered:
    """A finished attempt: judged and released, passed over for a newer one, or refused."""

    key: str
    student: str
    lesson: str
    at: float
    """The time in seconds since 1970, by this machine's clock."""
    how: str


class Journal:
    """The file `watched.jsonl` of a course. A line torn by a power cut doesn't count, and is judged again."""

    def __init__(self, course: Path) -> None:
        self.path = course / "watched.jsonl"
        self.answered: list[Answered] = list(self._read())
        self.keys = {one.key for one in self.answered}

    def _read(self) -> Iterator[Answered]:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield Answered(**json.loads(line))
            except (ValueError, TypeError):
                continue

    def add(self, answers: list[Answered]) -> None:
        """Keep these answers; they are on disk when this returns."""
        if not answers:
            return
        text = "".join(json.dumps(asdict(one)) + "\n" for one in answers)
        with self.path.open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            try:
                if size and self.path.read_bytes()[-1:] != b"\n":
                    text = f"\n{text}"
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.truncate(self.path, size)
                raise
        self.answered += answers
        self.keys |= {one.key for one in answers}

    def free_at(self, student: str, most: int, now: float) -> float:
        """Return the time a student may be judged again, now or later, if `most` attempts an hour are judged.

        A time more than an hour ahead of this clock comes from a clock that was wrong, and counts
        for nothing.
        """
        times = sorted(one.at for one in self.answered if one.student == student and one.how == "judged")
        recent = [at for at in times if abs(now - at) < HOUR]
        return now if len(recent) < most else recent[-most] + HOUR


@contextmanager
def alone(course: Path) -> Iterator[None]:
    """Hold the course's lock, which the kernel releases if its holder dies; a CourseError if another watch has it."""
    course.mkdir(parents=True, exist_ok=True)
    path = course / "watch.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            said = file.read().strip() or "of unknown number"
            raise CourseError(
                f"{shown(course)} is watched already, by process {said}: two would judge twice."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
