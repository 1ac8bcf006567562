"""Ending what runs or waits for too long: an attempt in a notebook, and a student's cell in the grader's child."""

import builtins
import contextlib
import ctypes
import getpass
import math
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

TICK = 0.1  # seconds between two looks at the clock
WINDOW = 1.0  # seconds over which computing is told from waiting
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
IMPORTLIB = "<frozen importlib"
IMPORTS = 60.0  # seconds of processor time that imports may take, many times what those of torch need
COMPUTES = 0.02  # the share of a window that counts as computing: a process that has to share its processor gets more


class TimeLimitExceeded(BaseException):
    """Raised inside the attempt; a BaseException, so that `except Exception` in it does not catch this."""


class InputAsked(EOFError):
    """Raised where the attempt asks for input."""


class Patience:
    """How long something may wait, and how much real time it may take, in all its calls together.

    Waiting is a second in which the process hardly computed. No clock of this thread alone could tell: the attempt may
    compute in threads of its own, and a loaded machine may let it do so only now and then.
    """

    def __init__(self, waiting: float, wall: float = math.inf) -> None:
        self.waiting, self.wall = waiting, wall
        self.waiting_left, self.wall_left = waiting, wall
        self.window_wall = self.window_cpu = 0.0

    def spend(self, wall: float, cpu: float) -> None:
        """Note that so much time has passed, and that the process computed for so much of it."""
        self.wall_left -= wall
        self.window_wall += wall
        self.window_cpu += cpu
        if self.window_wall >= WINDOW:
            if self.window_cpu < COMPUTES * self.window_wall:
                # at most so much: the process may have been stopped meanwhile, as by Ctrl-Z
                self.waiting_left -= min(self.window_wall, 2 * WINDOW)
            self.window_wall = self.window_cpu = 0.0


class Clock:
    """A budget of processor time, used up while it runs, and the patience of which that takes its share."""

    def __init__(self, cpu_seconds: float, patience: Patience) -> None:
        self.cpu_seconds, self.cpu_left, self.patience = cpu_seconds, cpu_seconds, patience
        self.imports_left = IMPORTS
        self.waited_at: traceback.StackSummary | None = None
        """Where it was waiting when its patience was over."""

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
        """Whether the time is over, at the next tick; where the body waits is noted at the first such look.

        The import of a library takes no time of an attempt's, and is not cut short: what is left of the library in
        `sys.modules` would fail in every later check.
        """
        if self.imports_left > 0 and _imports_a_library(frames):
            self.imports_left -= time.process_time() - self.cpu
            self.wall, self.cpu = time.monotonic(), time.process_time()
            return False
        self.tick()
        if self.has_waited and self.waited_at is None:
            self.waited_at = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in reversed(frames))
        return self.is_over()

    def said(self) -> str:
        """Why it is over, as a clause."""
        if self.has_waited:
            return f"waited {self.patience.waiting:.0f} seconds without computing"
        if self.cpu_left < 0:
            return f"did not end within {self.cpu_seconds:.0f} seconds of computing"
        return f"did not end within {self.patience.wall:.0f} seconds"


def _frames_of_body(frame: FrameType | None, boundary: FrameType | None) -> list[FrameType] | None:
    """The frames that the body of a `with` statement in `boundary` has called, the last first; None once it is left."""
    frames = []
    while frame is not None and frame is not boundary:
        frames.append(frame)
        frame = frame.f_back
    return frames if frame is not None else None


def _is_ending(frames: list[FrameType]) -> bool:
    """Whether a limit is being taken back: an exception there would leave the alarm on, for whatever comes next."""
    return any(frame.f_code.co_filename == __file__ for frame in frames)


def _imports_a_library(frames: list[FrameType]) -> bool:
    return any(f.f_code.co_name == "<module>" and f.f_code.co_filename.startswith(LIBRARIES) for f in frames)


def _raise_at_line(_frame: FrameType, event: str, _argument: Any) -> Any:
    if event == "line":  # raised at an "exception" event, it would be caught where the first one was
        raise TimeLimitExceeded
    return _raise_at_line


def _trace_no_other_frame(_frame: FrameType, _event: str, _argument: Any) -> None:
    return None


def _entering_frame() -> FrameType | None:
    """The frame whose `with` statement is being entered, behind all context managers that are written as generators."""
    ours = (__file__, contextlib.__file__)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_back is not None:
        if frame.f_code.co_filename not in ours and frame.f_back.f_code.co_filename != contextlib.__file__:
            return frame
        frame = frame.f_back
    return frame


@contextlib.contextmanager
def _raised_where_python_ignores_it() -> Iterator[None]:
    """Print nothing where the limit is raised in `__del__`, or in a weak reference's or the collector's callback.

    Python ignores what is raised there, says so on stderr, and goes on. The next tick raises again.
    """
    others = sys.unraisablehook

    def ignore(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, TimeLimitExceeded):
            others(unraisable)

    sys.unraisablehook = ignore
    try:
        yield
    finally:
        sys.unraisablehook = others


def _has_signals() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(clock: Clock) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in the body once the clock is over.

    >>> with contextlib.suppress(TimeLimitExceeded):
    ...     with time_limit(Clock(0.2, Patience(waiting=10))):
    ...         while True:
    ...             pass
    """
    alarm = _alarm_by_signal if _has_signals() else _alarm_by_thread
    with clock.running(), _raised_where_python_ignores_it(), alarm(clock):
        yield


@contextlib.contextmanager
def _alarm_by_signal(clock: Clock) -> Iterator[None]:
    """Look at the clock in a signal's handler. The signal interrupts a sleep, and waiting for a lock or a socket."""
    boundary = _entering_frame()

    def on_alarm(_signum: int, frame: FrameType | None) -> None:
        frames = _frames_of_body(frame, boundary)
        if frames is None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif not _is_ending(frames) and clock.look(frames):
            # A bare `except:` in the attempt swallows one exception. A trace function on the attempt's frames raises at
            # each further line, those of the handler among them, which the handler does not protect.
            for each in frames:
                if not each.f_code.co_filename.startswith(IMPORTLIB):  # whose handlers unlock and forget
                    each.f_trace = _raise_at_line
            sys.settrace(_trace_no_other_frame)
            raise TimeLimitExceeded

    tracer = sys.gettrace()
    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        sys.settrace(tracer)


@contextlib.contextmanager
def _alarm_by_thread(clock: Clock) -> Iterator[None]:
    """Look at the clock in a thread: on Windows, and where a check is not called by the main thread.

    Nothing can interrupt a call that waits there. The exception comes when that call returns, and ends the whole check:
    `time.sleep(40)` in an answer takes 40 seconds once, and a lock that nobody releases is waited for until the
    kernel is interrupted.
    """
    boundary, ident, done = _entering_frame(), threading.get_ident(), threading.Event()

    def watch() -> None:
        while not done.wait(TICK):
            frames = _frames_of_body(sys._current_frames().get(ident), boundary)
            if frames is None:
                break
            if not _is_ending(frames) and clock.look(frames):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(TimeLimitExceeded))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@contextlib.contextmanager
def nobody_to_ask() -> Iterator[None]:
    """Refuse to ask for input in the body, and to stop for a debugger: a check would wait for somebody to type.

    A notebook's kernel has functions of its own in these places, which are put back.
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
