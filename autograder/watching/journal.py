"""A journal of answers, a line each, on disk before the next is begun."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
        self.answered: list[Answered] = []
        self.keys: set[str] = set()
        self.last: dict[tuple[str, str], str] = {}
        """The key of each student's last answer in a lesson."""
        self.judged: defaultdict[str, list[float]] = defaultdict(list)
        """The times at which a student's attempts were judged."""
        self._note(self._read())

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
        self._note(answers)

    def _note(self, answers: Iterable[Answered]) -> None:
        for one in answers:
            self.answered.append(one)
            self.keys.add(one.key)
            self.last[one.student, one.lesson] = one.key
            if one.how == "judged":
                self.judged[one.student].append(one.at)

    def free_at(self, student: str, most: int, now: float) -> float:
        """Return the time a student may be judged again, now or later, if `most` attempts an hour are judged.

        A time more than an hour ahead of this clock comes from a clock that was wrong, and counts
        for nothing.
        """
        recent = sorted(at for at in self.judged[student] if abs(now - at) < HOUR)
        return now if len(recent) < most else recent[-most] + HOUR
