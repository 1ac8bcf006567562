"""Stop what runs or waits for too long: an attempt in a notebook, or a student's cell in the grader's child."""

import builtins
import contextlib
import getpass
import math
import sys
import sysconfig
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from .endless import surely_endless

TICK = 0.1  # seconds between two looks at the clock
WINDOW = 1.0  # seconds over which computing and waiting are told apart
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
IMPORTS = 60.0  # seconds of processor time that imports may take, many times what those of torch need
SURE = 2.0  # seconds of processor time after which, and every so often, a loop is asked whether it can end at all
COMPUTES = 0.02  # the share of a window that counts as computing: a process that has to share its processor gets more


class TimeLimitExceeded(BaseException):
    """Raised inside the attempt; a BaseException, so that `except Exception` in it does not catch this."""


class InputAsked(EOFError):
    """Raised where the attempt asks for input."""


class Patience:
    """The waiting and the real time that something is allowed, in all its calls together.

    Waiting is a second in which the process hardly computed. No clock of this thread alone could tell: the attempt may
    compute in threads of its own, and a loaded machine may let it do so only now and then. Where the kernel says for
    how long a thread was ready and had no processor, that is not waiting.
    """

    def __init__(self, waiting: float, wall: float = math.inf) -> None:
        self.waiting, self.wall = waiting, wall
        self.waiting_left, self.wall_left = waiting, wall
        self.window_wall = self.window_cpu = 0.0
        self.ready = ready()

    def spend(self, wall: float, cpu: float) -> None:
        """Note that `wall` seconds have passed, `cpu` of them computing."""
        self.wall_left -= wall
        self.window_wall += wall
        self.window_cpu += cpu
        if self.window_wall < WINDOW:
            return
        before, self.ready = self.ready, ready()  # read once a window: it takes as long as a small answer
        self.window_wall -= min(max(self.ready - before, 0.0), self.window_wall)
        if self.window_wall < WINDOW:
            return
        if self.window_cpu < COMPUTES * self.window_wall:
            # capped: the process may have been stopped meanwhile, as by Ctrl-Z
            self.waiting_left -= min(self.window_wall, 2 * WINDOW)
        self.window_wall = self.window_cpu = 0.0


class Clock:
    """A budget of processor time, used up while the clock runs, and the patience that it draws on."""

    def __init__(self, cpu_seconds: float, patience: Patience) -> None:
        self.cpu_seconds, self.cpu_left, self.patience = cpu_seconds, cpu_seconds, patience
        self.imports_left = IMPORTS
        self.asked_at = cpu_seconds - SURE
        self.waited_at: traceback.StackSummary | None = None
        """The stack where it was waiting when its patience ran out."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.wall, self.cpu = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            self.tick()

    def tick(self) -> None:
        """Note the time that has passed since the last tick."""
        wall, cpu = time.monotonic(), time.process_time()
        self.patience.spend(wall - self.wall, cpu - self.cpu)
        self.cpu_left -= cpu - self.cpu
        self.wall, self.cpu = wall, cpu

    @property
    def has_waited(self) -> bool:
        return self.patience.waiting_left <= 0

    def is_over(self) -> bool:
        return self.cpu_left < 0 or self.has_waited or self.patience.wall_left < 0

    def look(self, frames: list[FrameType]) -> bool:
        """Tick, and return True if time is up, or a loop has no end; note where the body waits, once it has.

        Importing a library costs an attempt no time and is never cut short: a half-imported library, left in
        `sys.modules`, would fail in every later check.
        """
        if self.imports_left > 0 and _imports_a_library(frames):
            self.imports_left -= time.process_time() - self.cpu
            self.wall, self.cpu = time.monotonic(), time.process_time()
            return False
        self.tick()
        if self.cpu_left < self.asked_at:
            self.asked_at -= SURE
            if surely_endless(frames):
                self.cpu_seconds, self.cpu_left = self.cpu_seconds - self.cpu_left, -1.0
        if self.has_waited and self.waited_at is None:
            self.waited_at = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
        return self.is_over()

    def said(self) -> str:
        """Return the reason why time is up, as a clause."""
        if self.has_waited:
            return f"waited {self.patience.waiting:.0f} seconds without computing"
        if self.cpu_left < 0:
            return f"did not end within {self.cpu_seconds:.0f} seconds of computing"
        return f"did not end within {self.patience.wall:.0f} seconds"


def ready() -> float:
    """Seconds for which this process's first thread was ready to run without a processor; 0 where nobody counts them.

    Linux, Documentation/scheduler/sched-stats.rst: the second number is in nanoseconds.
    """
    try:
        return int(Path("/proc/self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _imports_a_library(frames: list[FrameType]) -> bool:
    return any(f.f_code.co_name == "<module>" and f.f_code.co_filename.startswith(LIBRARIES) for f in frames)


@contextlib.contextmanager
def nobody_to_ask() -> Iterator[None]:
    """Refuse requests for input in the body, and stops for a debugger: a check would wait for somebody to type.

    A notebook's kernel replaces these functions by its own; they are put back afterwards.
    """

    def refuse(*_arguments: object, **_options: object) -> str:
        raise InputAsked("there is nobody to answer: a check and the grader call your code by themselves")

    places: list[tuple[Any, str]] = [(builtins, "input"), (getpass, "getpass"), (sys, "breakpointhook")]
    before = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, refuse)
    try:
        yield
    finally:
        for (module, name), function in zip(places, before, strict=True):
            setattr(module, name, function)
