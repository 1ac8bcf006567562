"""What the attempt may not do to the process that judges it: run for ever, print for ever, change global state."""

import contextlib
import ctypes
import io
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

CPU_SECONDS = 10.0  # the main limit: a loaded machine must not turn a right answer into a wrong one
WALL_SECONDS = 120.0  # the backstop, for code that waits instead of computing


class TimeLimitExceeded(BaseException):
    """Raised inside the attempt; a BaseException, so that `except Exception` in it does not catch this."""


class Clock:
    """A budget of processor time, and a larger one of real time, used up while it runs."""

    def __init__(self, cpu_seconds: float | None = None, wall_seconds: float | None = None) -> None:
        self.cpu_left = cpu_seconds or CPU_SECONDS
        self.wall_left = wall_seconds or WALL_SECONDS

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self.cpu_end, self.wall_end = time.process_time() + self.cpu_left, time.monotonic() + self.wall_left
        try:
            yield
        finally:
            self.cpu_left, self.wall_left = self.cpu_end - time.process_time(), self.wall_end - time.monotonic()

    def is_over(self) -> bool:
        return time.process_time() > self.cpu_end or time.monotonic() > self.wall_end


def _raise_at_line(frame: FrameType, event: str, argument: Any) -> Any:
    if event == "line":  # raised at an "exception" event, it would be caught where the first one was
        raise TimeLimitExceeded
    return _raise_at_line


def _trace_no_other_frame(frame: FrameType, event: str, argument: Any) -> None:
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


def _is_finalising(frame: FrameType | None) -> bool:
    """Whether an object's `__del__` is running: Python ignores what is raised there, and says so on stderr."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _has_signals() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def time_limit(clock: Clock | None = None) -> Iterator[None]:
    """Raise `TimeLimitExceeded` in the body once the clock's processor time (or, at last, real time) is over.

    >>> with contextlib.suppress(TimeLimitExceeded):
    ...     with time_limit(Clock(cpu_seconds=0.2)):
    ...         while True:
    ...             pass
    """
    clock = clock or Clock()
    with clock.running(), _alarm_by_signal(clock) if _has_signals() else _alarm_by_thread(clock):
        yield


@contextlib.contextmanager
def _alarm_by_signal(clock: Clock) -> Iterator[None]:
    boundary = _entering_frame()

    def on_alarm(signum: int, frame: FrameType | None) -> None:
        if clock.is_over() and not _is_finalising(frame):
            # A bare `except:` in the attempt swallows one exception. A trace function on the attempt's frames raises at
            # each further line, those of the handler among them, which the handler does not protect.
            while frame is not None and frame is not boundary:
                frame.f_trace = _raise_at_line
                frame = frame.f_back
            sys.settrace(_trace_no_other_frame)
            raise TimeLimitExceeded

    tracer = sys.gettrace()
    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        sys.settrace(tracer)


@contextlib.contextmanager
def _alarm_by_thread(clock: Clock) -> Iterator[None]:
    target = ctypes.c_ulong(threading.get_ident())
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            if clock.is_over():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(TimeLimitExceeded))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


class BoundedText(io.TextIOBase):
    """A stream that keeps the first `limit` characters and counts nothing else."""

    def __init__(self, limit: int = 2000) -> None:
        self.limit = limit
        self.kept: list[str] = []
        self.room = limit

    def write(self, text: str) -> int:
        if self.room > 0:
            self.kept.append(text[: self.room])
            self.room -= len(text)
        return len(text)

    def text(self) -> str:
        return "".join(self.kept)


@contextlib.contextmanager
def quiet() -> Iterator[BoundedText]:
    """Catch what the body prints, on stdout and stderr, and silence its warnings."""
    text = BoundedText()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield text


@contextlib.contextmanager
def global_state_kept(seed: int = 0) -> Iterator[None]:
    """A seed, one thread and gradients in the body; behind it torch's random state, dtype, gradient mode and threads.

    On tensors of a few numbers each further thread only waits; and a verdict must depend neither on how many there are
    nor on a gradient mode that some cell of the notebook has left behind.
    """
    dtype, gradient, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also keep a traceback for each kind of device that is not in use, which takes longer
        # than most attempts do
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        torch.set_num_threads(1)
        torch.set_grad_enabled(True)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(gradient)
            torch.set_num_threads(threads)


@contextlib.contextmanager
def interrupts_told_apart() -> Iterator[threading.Event]:
    """An event that is set when the *user* presses Ctrl-C, as against an attempt that raises KeyboardInterrupt."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    previous = signal.getsignal(signal.SIGINT)

    def on_interrupt(signum: int, frame: FrameType | None) -> None:
        pressed.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous)
