"""A journal of answers, a line each, on disk before the next is begun."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

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
        self.last = {(one.student, one.lesson): one.key for one in self.answered}
        """The key of each student's last answer in a lesson."""

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
        self.last |= {(one.student, one.lesson): one.key for one in answers}

    def free_at(self, student: str, most: int, now: float) -> float:
        """Return the time a student may be judged again, now or later, if `most` attempts an hour are judged.

        A time more than an hour ahead of this clock comes from a clock that was wrong, and counts
        for nothing.
        """
        times = sorted(one.at for one in self.answered if one.student == student and one.how == "judged")
        recent = [at for at in times if abs(now - at) < HOUR]
        return now if len(recent) < most else recent[-most] + HOUR
