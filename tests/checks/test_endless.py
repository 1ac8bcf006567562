"""An endless answer ends wherever it is, and leaves no library half imported."""

import gc
import importlib
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded
from attnlib.checks.asking.window import time_limit

pytestmark = pytest.mark.slow


def _endless(*_arguments: object) -> None:
    while True:
        pass


def _in_the_collector() -> None:
    def once(phase: str, _info: dict[str, int]) -> None:
        if phase == "stop" and once in gc.callbacks:
            gc.callbacks.remove(once)
            _endless()

    gc.callbacks.append(once)
    gc.collect(0)  # a whole collection may take longer than the limit, and `once` would wait for the next


def _in_a_weak_reference() -> None:
    thing = threading.Event()
    _noticed = weakref.ref(thing, _endless)
    del thing


def _in_del() -> None:
    class Thing:
        __del__ = _endless

    Thing()


@pytest.mark.parametrize("enters", [_in_the_collector, _in_a_weak_reference, _in_del])
def test_the_limit_ends_what_python_ignores_errors_in(
    enters: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing is printed of it: pytest would make an error of a warning."""

    def enters_and_goes_on() -> None:
        enters()
        _endless()

    with pytest.raises(TimeLimitExceeded), time_limit(Clock(0.3, Patience(waiting=10))) as within:
        within(enters_and_goes_on)
    assert not capfd.readouterr().err


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_the_import_of_a_library_takes_no_time_and_is_not_cut_short(
    in_a_thread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimiser's first step imports a part of torch that takes seconds; half of it would fail ever after."""
    name = f"library_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "import time\nend = time.process_time() + 0.8\nwhile time.process_time() < end: 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    clock = Clock(0.5, Patience(waiting=10))

    def imports_and_computes() -> None:
        with time_limit(clock) as within:
            assert within(importlib.import_module, name).end
            assert clock.cpu_left > 0
            within(_endless)

    def ends() -> None:
        with pytest.raises(TimeLimitExceeded):
            imports_and_computes()

    with monkeypatch.context() as patch:
        patch.setattr("attnlib.checks.asking.clock.LIBRARIES", (str(tmp_path),))
        with ThreadPoolExecutor() as pool:
            pool.submit(ends).result() if in_a_thread else ends()
    assert sys.modules.pop(name).end
    with pytest.raises(TimeLimitExceeded), time_limit(Clock(0.3, Patience(waiting=10))) as within:
        within(importlib.import_module, name)  # as a student's own module
    assert name not in sys.modules
    assert importlib.import_module(name).end


def _sleeping_first(function: Callable[..., Any], when: Callable[..., bool]) -> Callable[..., Any]:
    """On a busy machine, other processes may have their turn just there."""

    def waits(*arguments: Any) -> Any:
        end = time.monotonic() + 0.5
        while when(*arguments) and time.monotonic() < end:
            pass
        return function(*arguments)

    return waits


def test_a_limit_is_taken_back_though_a_tick_comes_just_then(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = _sleeping_first(signal.setitimer, when=lambda _which, seconds, *_interval: seconds == 0)
    monkeypatch.setattr(signal, "setitimer", slow)
    with pytest.raises(TimeLimitExceeded), time_limit(Clock(0.3, Patience(waiting=10))) as within:
        within(_endless)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_in_a_thread_is_taken_back_though_a_tick_comes_just_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Event, "set", _sleeping_first(threading.Event.set, when=lambda _event: True))

    def ends() -> None:
        with pytest.raises(TimeLimitExceeded), time_limit(Clock(0.3, Patience(waiting=10))) as within:
            within(_endless)

    before = threading.active_count()
    with ThreadPoolExecutor() as pool:
        pool.submit(ends).result()
        assert threading.active_count() == before + 1
