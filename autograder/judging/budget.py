"""The time that one submission may take, all its processes together."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from attnlib.checks.asking.failure import Failure
from attnlib.checks.asking.time_limits import TimeLimits
from autograder.sandbox.process import Child
from autograder.showing.errors import NotGraded


@dataclass
class Budget:
    """Counts two things. Only one of them can cost a student points.

    Time that its processes compute or wait is the submission's own doing, and the same on a loaded machine. So is time
    that this thread takes to read and compare what they send. One that has used it up gets no new process. Real
    may have gone by for other reasons, so it ends in "not graded": no points are lost, and the next run tries again.
    """

    limits: TimeLimits
    spent: float = 0.0
    began: float = field(default_factory=lambda: time.monotonic())
    computed: float = field(default_factory=lambda: time.thread_time())

    @contextmanager
    def counting(self, child: Child) -> Iterator[None]:
        """End the child with the body, and count what it has spent."""
        try:
            yield
        finally:
            child.close()
            self.spent += child.spent

    @property
    def is_spent(self) -> bool:
        """True if the submission has used up the time it may compute and wait."""
        return self.spent + time.thread_time() - self.computed >= self.limits.submission_cpu

    def failure(self) -> Failure:
        """Return the failure of an answer that was not tried; its words don't depend on what used up the time."""
        minutes = self.limits.submission_cpu / 60
        text = f"was not tried: this notebook's answers have used up the {minutes:.0f} minutes that they share"
        return Failure("time", text)

    def check_real_time(self) -> None:
        """Raises NotGraded if the submission has taken too long, no matter whose fault that is."""
        if time.monotonic() - self.began > self.limits.submission_wall:
            hours = self.limits.submission_wall / 3600
            raise OutOfTime(f"it was not judged within {hours:.3g} hours: the machine was too slow, or too busy")


class Passing(NotGraded):
    """Raised where a submission was not graded for a reason that may be gone in the next run."""


class OutOfTime(Passing):
    """Raised if it was not judged in time; the next run tries again."""
