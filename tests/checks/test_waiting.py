"""What waits or computes for too long is ended and told; what is only slow, or on a busy machine, is not."""

import builtins
import math
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlib.checks import run
from attnlib.checks.asking import clock, time_limits
from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded
from attnlib.checks.asking.time_limits import TimeLimits, slowness
from attnlib.checks.asking.window import time_limit
from attnlib.checks.verdict import judge

pytestmark = pytest.mark.slow

QUICK = TimeLimits(case_cpu=0.3, waiting=1.0)
"""For what never ends; no right answer is tried within these limits."""


def said(attempt: object, limits: TimeLimits = QUICK) -> str:
    """The message on a wrong answer, in one line."""
    report = run("pairwise_dot", attempt, limits=limits)
    assert not report.passed
    return " ".join(report.message.split())


def sleeps(x: Tensor, y: Tensor) -> Tensor:
    time.sleep(40)
    return x @ y.mT


def waits_for_a_lock(x: Tensor, y: Tensor) -> Tensor:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return x @ y.mT


def waits_for_a_thread(x: Tensor, y: Tensor) -> Tensor:
    thread = threading.Thread(target=time.sleep, args=(5,), daemon=True)
    thread.start()
    thread.join()
    return x @ y.mT


def waits_for_a_queue(x: Tensor, y: Tensor) -> Tensor:
    return queue.Queue().get()


def waits_for_a_socket(x: Tensor, y: Tensor) -> Tensor:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.recv(1)
    return x @ y.mT


def waits_for_a_process(x: Tensor, y: Tensor) -> Tensor:
    subprocess.run(["sleep", "40"])
    return x @ y.mT


def naps_and_swallows(x: Tensor, y: Tensor) -> Tensor:
    while True:
        try:  # noqa: SIM105
            time.sleep(0.01)
        except:  # noqa: E722
            pass


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (sleeps, "time.sleep(40)"),
        (waits_for_a_lock, "lock.acquire()"),
        (waits_for_a_thread, "thread.join()"),
        (waits_for_a_queue, "return queue.Queue().get()"),
        (waits_for_a_socket, "ours.recv(1)"),
        (waits_for_a_process, 'subprocess.run(["sleep", "40"])'),
        (naps_and_swallows, "time.sleep(0.01)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the socket is left open
def test_an_answer_that_waits_is_ended_once_and_told_for_what_it_waited(
    attempt: Callable, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, honest = [], judge.try_case

    def try_case(*asked: Any, **more: Any) -> Any:
        tried.append(asked)
        return honest(*asked, **more)

    monkeypatch.setattr(judge, "try_case", try_case)
    first = attempt.__code__.co_firstlineno
    message = said(attempt)
    assert f"waited 1 seconds without computing: `{line}` in line" in message
    number = int(message.split(f"`{line}` in line ")[1].split()[0])
    assert first < number < first + 8
    assert len(tried) == 1
    assert sys.exc_info()[1] is None  # else it would stand above every later traceback


def test_naps_in_all_cases_are_added_up() -> None:
    calls = []

    def naps(x: Tensor, y: Tensor) -> Tensor:
        calls.append(1)
        time.sleep(0.7)
        return x @ y.mT

    assert "waited 2 seconds" in said(naps, TimeLimits(waiting=2.0))
    assert 3 <= len(calls) < 10  # a loaded machine makes a window of computing of one or two


def test_naps_are_added_up_to_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "ready", lambda: 0.0)
    patience = Patience(waiting=2.0)
    naps = 0
    while patience.waiting_left > 0:
        patience.spend(wall=0.7, cpu=0.001)
        naps += 1
    assert naps == 4  # two windows of two naps each


def test_the_whole_check_has_a_limit_of_real_time() -> None:
    def naps_and_computes(x: Tensor, y: Tensor) -> Tensor:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            time.sleep(0.001)
            sum(range(20_000))
        return x @ y.mT

    assert "did not end within 2 seconds" in said(naps_and_computes, TimeLimits(check_wall=2.0))


def test_in_another_thread_an_endless_loop_ends_and_waiting_is_noticed_once_it_is_over() -> None:
    def sleeps_shortly(x: Tensor, y: Tensor) -> Tensor:
        time.sleep(2)
        return x @ y.mT

    def spins(x: Tensor, y: Tensor) -> Tensor:
        while True:
            pass

    found: list[str] = []
    for attempt in (spins, sleeps_shortly):
        thread = threading.Thread(target=lambda attempt=attempt: found.append(said(attempt)))
        thread.start()
        thread.join(timeout=600)
    assert "did not end within 0 seconds of computing" in found[0]
    assert "waited 1 seconds without computing: `time.sleep(2)` in line" in found[1]


def test_asking_for_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(x: Tensor, y: Tensor) -> Tensor:
        return x @ y.mT * int(input("How often? "))

    def nobody(prompt: str = "") -> str:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(builtins, "input", nobody)
    message = said(asks)
    assert "asks for input" in message
    assert '`return x @ y.mT * int(input("How often? "))`' in message
    assert builtins.input is nobody


def test_an_answer_that_computes_in_a_thread_of_its_own_does_not_wait() -> None:
    def in_a_thread(x: Tensor, y: Tensor) -> Tensor:
        found = []

        def work() -> None:
            until = time.process_time() + 0.15
            while time.process_time() < until:
                found[:] = [x @ y.mT]

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]

    report = run("pairwise_dot", in_a_thread, limits=TimeLimits(waiting=1.5))
    assert report.passed, report.message


@pytest.mark.parametrize(("share", "waits"), [(1.0, False), (0.05, False), (0.001, True), (0.0, True)])
def test_a_process_that_gets_a_twentieth_of_a_processor_does_not_wait(share: float, waits: bool) -> None:
    patience = Patience(waiting=10.0)
    for _ in range(200):
        patience.spend(wall=0.1, cpu=0.1 * share)
    assert (patience.waiting_left <= 0) is waits


@pytest.mark.parametrize(("share", "waits"), [(1.0, False), (0.9, False), (0.1, True), (0.0, True)])
def test_a_process_that_is_ready_and_gets_no_processor_does_not_wait(
    share: float, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = [5.0]
    monkeypatch.setattr(clock, "ready", lambda: ready[0])
    patience = Patience(waiting=10.0)
    for _ in range(200):
        ready[0] += 0.1 * share
        patience.spend(wall=0.1, cpu=0.0)
    assert (patience.waiting_left <= 0) is waits


def test_the_kernel_is_asked_only_where_a_whole_second_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    patience = Patience(waiting=10.0)
    monkeypatch.setattr(clock, "ready", lambda: asked.append(0.0) or 0.0)
    for _ in range(9):
        patience.spend(wall=0.1, cpu=0.0)
    assert not asked
    patience.spend(wall=0.2, cpu=0.0)
    assert len(asked) == 1


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="NOT TESTED: this kernel counts no ready time")
def test_the_kernel_tells_who_was_ready() -> None:
    code = """
import os, subprocess, sys, time
from attnlib.checks.asking.clock import ready
began = ready()
time.sleep(0.5)
slept = ready() - began
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
began, until = ready(), time.monotonic() + 1.5
while time.monotonic() < until:
    pass
print(slept, ready() - began)
busy.kill()
"""
    slept, starved = map(float, subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert slept < starved
    assert starved > 0.5


def test_a_process_that_was_stopped_for_an_hour_has_not_waited() -> None:
    patience = Patience(waiting=10.0)
    patience.spend(wall=3600.0, cpu=0.0)
    assert patience.waiting_left > 0


def test_a_call_that_ends_in_time_goes_on_with_what_is_left() -> None:
    clock = Clock(1.0, Patience(waiting=10.0))
    for _ in range(2):
        with time_limit(clock) as within:
            within(sum, range(10**6))
    assert 0 < clock.cpu_left < 1
    clock.cpu_left = 0.0
    with pytest.raises(TimeLimitExceeded), time_limit(clock) as within:
        within(sleeps, torch.ones(1), torch.ones(1))


def test_a_slower_machine_has_longer_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the known work takes nearly five times as long, and longer still whenever the machine is busy."""
    now, busy = [0.0], cycle([30.0, 4.9, 12.0])

    def work() -> None:
        now[0] += next(busy) * time_limits.WORK_SECONDS

    monkeypatch.setattr(time_limits, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(time_limits, "_work", work)
    slow = slowness()
    assert slow == 5
    limits = TimeLimits().slower(slow)
    assert limits.case_cpu == slow * TimeLimits().case_cpu
    assert limits.check_wall == slow * TimeLimits().check_wall
    assert limits.waiting == TimeLimits().waiting


def test_no_machine_has_shorter_limits_than_a_fast_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlib.checks.asking.time_limits.WORK_SECONDS", math.inf)
    assert slowness() == 1
