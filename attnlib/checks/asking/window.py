"""Allow interrupts only while a function of the attempt's own is called, and nowhere else.

A check sets things up around an attempt, such as torch's profiler, a mode or streams, and undoes them, even when time
is up or Ctrl-C is pressed. So neither raises by itself: outside of the calls a tick does nothing, and Ctrl-C waits
until the next call begins, or until everything is undone.
"""

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from .clock import TICK, Clock, TimeLimitExceeded

Given = ParamSpec("Given")
Result = TypeVar("Result")

IMPORTLIB = "<frozen importlib"
AGAIN = 1.0  # seconds after which a second Ctrl-C raises anywhere, as something hangs
RAISE_IN = ctypes.pythonapi.PyThreadState_SetAsyncExc


SET_HANDLED = ctypes.pythonapi.PyErr_SetHandledException
SET_HANDLED.argtypes, SET_HANDLED.restype = [ctypes.py_object], None


def go_on_handling(before: BaseException | None) -> None:
    """Make `before` the exception that is being handled.

    Python goes on handling one that a trace function raised while a `with` block was left: every later traceback of the
    notebook would begin with it.
    """
    if sys.exc_info()[1] is not before:
        SET_HANDLED(before)


class Interrupted(KeyboardInterrupt):
    """The user pressed Ctrl-C; IPython says so in one line, as the fault is in none of a traceback's."""

    def _render_traceback_(self) -> list[str]:
        return ["Interrupted before there was a result. Run this cell again."]


class Interrupts:
    """The user's Ctrl-C, unlike a KeyboardInterrupt that an attempt raises: noted, and raised where that is allowed."""

    def __init__(self) -> None:
        self.pressed_at: float | None = None
        self.may_raise = False

    @property
    def pressed(self) -> bool:
        return self.pressed_at is not None

    def on_interrupt(self, _signum: int, _frame: FrameType | None) -> None:
        """The signal's handler."""
        first, self.pressed_at = self.pressed_at, time.monotonic()
        if self.may_raise or (first is not None and self.pressed_at - first > AGAIN):
            raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts_held() -> Iterator[Interrupts]:
    """Let Ctrl-C raise only in the body's windows, and after the body; a nested use changes nothing."""
    others = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    holder = getattr(others, "__self__", None)
    if isinstance(holder, Interrupts):
        yield holder
        return
    interrupts = Interrupts()
    if not callable(others):  # it is ignored, or comes in another thread
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.on_interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, others)
        if interrupts.pressed:
            raise Interrupted from None


class Window:
    """Calls functions that may be interrupted when a clock runs out, or by Ctrl-C."""

    def __init__(self, clock: Clock, interrupts: Interrupts) -> None:
        self.clock, self.interrupts = clock, interrupts
        self.ident = threading.get_ident()
        self.thread = ctypes.c_ulong(0)
        """The thread to raise in, as C reads it: 0, which is no thread, while the window is closed."""
        self.is_asked = False
        """True once another thread has asked for an exception, which may not have been raised yet."""

    def __call__(self, function: Callable[Given, Result], *given: Given.args, **more: Given.kwargs) -> Result:
        """Call it, with the window open.

        Python raises what comes from outside where a function begins, where a loop goes back, and where a call has
        ended. So nothing comes between the end of this call and the assignment that closes the window; and what another
        thread had asked for by then is raised in the call behind it, at the latest.
        """
        if self.interrupts.pressed:
            raise KeyboardInterrupt
        before = self.interrupts.may_raise
        try:
            self.thread.value, self.interrupts.may_raise = self.ident, True
            result = function(*given, **more)
        finally:
            self.thread.value, self.interrupts.may_raise = 0, before
            if self.is_asked:
                try:  # noqa: SIM105 (a function written in Python would begin before it suppresses anything)
                    time.sleep(0)
                except TimeLimitExceeded:
                    pass
        return result

    def frames(self, frame: FrameType | None) -> list[FrameType]:
        """The frames of what the window has called, the innermost first."""
        found: list[FrameType] = []
        while frame is not None and frame.f_code is not Window.__call__.__code__:
            found.append(frame)
            frame = frame.f_back
        return found


@contextlib.contextmanager
def time_limit(clock: Clock) -> Iterator[Window]:
    """A window for the body: a call through it is ended by `TimeLimitExceeded` once the clock is over.

    >>> from attnlib.checks.asking.clock import Patience
    >>> def endless():
    ...     while True:
    ...         pass
    >>> with contextlib.suppress(TimeLimitExceeded):
    ...     with time_limit(Clock(0.2, Patience(waiting=10))) as within:
    ...         within(endless)
    """
    has_signals = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    alarm = _alarm_by_signal if has_signals else _alarm_by_thread
    with interrupts_held() as interrupts:
        window = Window(clock, interrupts)
        with clock.running(), _raised_where_python_ignores_it(), alarm(window):
            yield window


def _raise_at_line(_frame: FrameType, event: str, _argument: Any) -> Any:
    if event == "line":  # raised at an "exception" event, it would be caught where the first one was
        raise TimeLimitExceeded
    return _raise_at_line


def _trace_no_other_frame(_frame: FrameType, _event: str, _argument: Any) -> None:
    return None


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


@contextlib.contextmanager
def _alarm_by_signal(window: Window) -> Iterator[None]:
    """Look at the clock in a signal's handler. The signal interrupts a sleep, and waiting for a lock or a socket."""
    ended = False

    def on_alarm(_signum: int, frame: FrameType | None) -> None:
        try:
            frames = window.frames(frame)
            is_over = bool(window.thread.value) and window.clock.look(frames)
        finally:
            if not ended:  # only now: ticks never come faster than they are looked at
                signal.setitimer(signal.ITIMER_REAL, TICK)
        if is_over:
            # A bare `except:` in the attempt swallows one exception. A trace function on the attempt's frames raises at
            # each further line, those of the handler among them, which the handler does not protect.
            for each in frames:
                if not each.f_code.co_filename.startswith(IMPORTLIB):  # importlib's handlers unlock and forget
                    each.f_trace = _raise_at_line
            sys.settrace(_trace_no_other_frame)
            raise TimeLimitExceeded

    tracer, left = sys.gettrace(), signal.getitimer(signal.ITIMER_REAL)
    others = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, TICK)
    try:
        yield
    finally:
        ended = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, others)
        sys.settrace(tracer)
        signal.setitimer(signal.ITIMER_REAL, *left)  # of a check around this one, or any other user of the timer


@contextlib.contextmanager
def _alarm_by_thread(window: Window) -> Iterator[None]:
    """Look at the clock in a thread: on Windows, and where a check is not called by the main thread.

    Nothing can interrupt a call that waits there. The exception comes when that call returns, and ends the whole check:
    `time.sleep(40)` in an answer takes 40 seconds once, and a lock that nobody releases is waited for until the
    kernel is interrupted.
    """
    done = threading.Event()

    def watch() -> None:
        while not done.wait(TICK):
            frame = sys._current_frames().get(window.ident) if window.thread.value else None
            if frame is not None and window.clock.look(window.frames(frame)):
                window.is_asked = True
                RAISE_IN(window.thread, ctypes.py_object(TimeLimitExceeded))  # in no thread, if it is closed by now

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
