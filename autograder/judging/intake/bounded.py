"""Bound the grader's own work on a student's files: memory, and real time.

What is read is bounded before it is read. This is for attacks that work in spite of that.
"""

import resource
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlib.checks.asking.time_limits import here
from autograder.judging.budget import OutOfTime, Passing

MEMORY_BYTES = 4 << 30
"""The most a process may ask for beyond what it has; the largest notebook that is allowed takes a quarter."""
STATE = Path("/proc/self/statm")
READING = threading.RLock()
"""The bounds are the whole process's: of several threads, one reads at a time, and finds them as they were."""


class _Late(BaseException):
    """No `except` inside takes it for a fault of one file."""


class OutOfMemory(Passing):
    """Raised if it could not be read in the available memory; the next run tries again."""


def bound_memory() -> tuple[int, int]:
    """Let this process ask for at most MEMORY_BYTES more, so that no machine swaps; return the earlier bound."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if STATE.is_file():  # not on a Mac
        used = int(STATE.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        limits = [used + MEMORY_BYTES, *(limit for limit in before if limit != resource.RLIM_INFINITY)]
        resource.setrlimit(resource.RLIMIT_AS, (min(limits), before[1]))
    return before


@contextmanager
def bounded(seconds: float | None = None) -> Iterator[None]:
    """Bound memory and, in a process's main thread, time; Passing names the one that was exceeded.

    The time is that of `TimeLimits.intake_wall`, unless it is given; within another bound, that one holds as well.
    """
    seconds = here().intake_wall if seconds is None else seconds

    def out_of_time(*_: Any) -> None:
        raise _Late

    with READING:
        memory, in_main = bound_memory(), threading.current_thread() is threading.main_thread()
        began, left = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)[0]
        try:
            if in_main:
                previous = signal.signal(signal.SIGALRM, out_of_time)
                signal.setitimer(signal.ITIMER_REAL, min(seconds, left or seconds))
            yield
        except MemoryError:
            raise OutOfMemory(f"it could not be read in {MEMORY_BYTES >> 30} GB of memory") from None
        except _Late:
            raise OutOfTime(f"it could not be read within {seconds:.3g} seconds") from None
        finally:
            if in_main:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, previous)
                if left:
                    signal.setitimer(signal.ITIMER_REAL, max(left - time.monotonic() + began, 0.001))
            resource.setrlimit(resource.RLIMIT_AS, memory)
