"""Whenever an attempt is interrupted, all that was entered around it is left, and a check never raises for its time."""

import builtins
import contextlib
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from attnlib.checks import run
from attnlib.checks.asking import window
from attnlib.checks.asking.attempt import Local, Terms
from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded
from attnlib.checks.asking.failure import Failed
from attnlib.checks.asking.ready_made import SOFTMAX

pytestmark = pytest.mark.slow

AROUND = (str(Path(window.__file__).parent), contextlib.__file__, threading.__file__)
"""The files whose instructions are interrupted: what is entered and left around an attempt."""
STRIDE = 23  # of so many instructions one is interrupted, another one in each test


def state() -> tuple[object, ...]:
    """What a check changes in the process, and must put back."""
    alarm = signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)
    hooks = sys.getprofile(), threading.getprofile(), sys.unraisablehook, builtins.input, sys.breakpointhook
    of_torch = (
        torch._C._autograd._profiler_enabled(),
        _len_torch_dispatch_stack(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
    )
    return (*alarm, *hooks, *of_torch, sys.stdout, sys.stderr, sys.meta_path[:])


def exponentials(x: Tensor) -> Tensor:
    return (x - x.amax(dim=-1, keepdim=True)).exp()


def product(x: Tensor) -> Tensor:
    return x @ x.mT


class InterruptedAt:
    """A trace function that sends the signal once, before one instruction of the files around an attempt."""

    def __init__(self, signum: int, place: int) -> None:
        self.signum, self.left, self.sent = signum, place, False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> Any:
        if self.sent or not frame.f_code.co_filename.startswith(AROUND):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and self.is_held():
            self.left -= 1
            if self.left < 0:
                self.sent = True
                signal.raise_signal(self.signum)
        return self

    def is_held(self) -> bool:
        """Whether the handler is in place: before and behind that Ctrl-C is the kernel's."""
        return signal.getsignal(self.signum) not in (signal.SIG_DFL, signal.default_int_handler)


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is over at each tick."""
    monkeypatch.setattr(Clock, "look", lambda _clock, _frames: True)


@pytest.mark.parametrize(
    ("attempt", "terms"),
    [
        (exponentials, Terms(outputs=("output",), forbidden=(SOFTMAX,), largest=100)),
        (product, Terms(outputs=("output",), device="meta")),
    ],
    ids=["watched", "on another device"],
)
@pytest.mark.parametrize("signum", [signal.SIGALRM, signal.SIGINT], ids=["tick", "Ctrl-C"])
@pytest.mark.usefixtures("over")
def test_what_is_entered_is_left_wherever_it_is_interrupted(
    attempt: Callable[[Tensor], Tensor], terms: Terms, signum: int
) -> None:
    def call() -> None:
        session = Local(attempt).open(terms)
        with contextlib.suppress(Failed, KeyboardInterrupt):
            session.call([torch.ones(3, 2)])

    call()
    before, place = state(), random.Random(terms.device).randrange(STRIDE)
    while True:
        interrupted = InterruptedAt(signum, place)
        sys.settrace(interrupted)
        try:
            call()
        finally:
            sys.settrace(None)
        if not interrupted.sent:
            break
        assert state() == before, f"interrupted at instruction {place}"
        place += STRIDE
    assert place > 40 * STRIDE  # there were so many instructions
    assert run("pairwise_dot", lambda x, y: x @ y.mT).passed


@contextlib.contextmanager
def hasty(seconds: float) -> Iterator[list[int]]:
    """Ticks that come all the time, by which the time of what stands here, and no reference's, is over now and then."""
    drawn, ticks = random.Random(0), []

    def look(_clock: Clock, frames: list[FrameType]) -> bool:
        ticks.append(1)
        return any(frame.f_code.co_filename == __file__ for frame in frames) and drawn.random() < 0.3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Clock, "look", look)
        patch.setattr(window, "TICK", seconds)
        yield ticks


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_a_check_never_raises_for_its_time_however_often_it_is_interrupted(in_a_thread: bool) -> None:
    """In a thread an exception is asked for at one time and raised at another."""

    before = state()
    with hasty(0.0003) as ticks:

        def many() -> None:
            for round in range(100):
                if round >= 8 and len(ticks) > 50:  # on a busy machine a watcher that is a thread comes rarely
                    return
                assert not run("softmax", lambda s: exponentials(s) / 3).passed

        if in_a_thread:
            with ThreadPoolExecutor() as pool:
                pool.submit(many).result()
        else:
            many()
    assert len(ticks) > 50
    assert state() == before


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("switching")
def test_nothing_is_raised_in_a_thread_behind_the_window() -> None:
    def added() -> int:
        return sum([n for n in range(3000)])  # noqa: C416 (a loop, long enough that a tick comes within it)

    def many() -> int:
        ended = 0
        for round in range(20_000):
            if round >= 500 and ended:
                break
            try:
                with window.time_limit(Clock(1.0, Patience(waiting=10))) as within:
                    within(added)
            except TimeLimitExceeded:
                ended += 1
            assert not within.thread.value
            assert added() == 4_498_500
        return ended

    with hasty(0.0), ThreadPoolExecutor() as pool:
        assert pool.submit(many).result() > 0
