"""A loop that surely has no end is not waited for; one that an error, or somebody else, may end has all its time."""

import contextlib
import time
from typing import Any

import pytest
from one_change_tried import of_a_cell

from attnlib.checks.asking import clock
from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded
from attnlib.checks.asking.window import time_limit

GOES_ON = {
    "no way out": "def work():\n    while True:\n        pass\n",
    "a number that nobody counts up": "def work():\n    i, total = 0, 1.0\n"
    "    while i < 3:\n        total = abs(total)\n",
    "in whoever calls": "def work():\n    i = 0\n    while i < 3:\n        step()\n\n"
    "def step():\n    sum(range(50_000))\n",
}
ENDS = {
    "an error that is caught around it": "def work():\n    it = iter(busy())\n    try:\n        while True:\n"
    "            next(it)\n    except StopIteration:\n        return 'done'\n",
    "an error that whoever calls catches": "def work():\n    try:\n        through(iter(busy()))\n"
    "    except StopIteration:\n        return 'done'\n\ndef through(it):\n    while True:\n        next(it)\n",
    "an error that is suppressed": "def work():\n    it = iter(busy())\n    with suppress(StopIteration):\n"
    "        while True:\n            next(it)\n    return 'done'\n",
    "a number that a closure counts up": "def work():\n    i, it = 0, iter(busy())\n\n"
    "    def step():\n        nonlocal i\n"
    "        i += next(it, 1)\n\n    while i < 1:\n        step()\n    return 'done'\n",
    "a tensor under another name": "def work():\n    x = torch.zeros(1)\n    y, it = x.view(-1), iter(busy())\n"
    "    while x < 1:\n        y += next(it, 1)\n    return 'done'\n",
    "a break that comes late": "def work():\n    i, it = 0, iter(busy())\n    while i < 3:\n"
    "        if next(it, 1):\n            break\n    return 'done'\n",
    "a loop that is only long": "def work():\n    i, it = 0, iter(busy())\n    while i < 1:\n        i = next(it, 1)\n"
    "    return 'done'\n",
}


def busy() -> Any:
    """Yield zeros for a while: through several looks at the loop."""
    end = time.process_time() + 1.0
    while time.process_time() < end:
        yield 0


def answer(source: str) -> Any:
    return of_a_cell(source, "work", busy=busy, suppress=contextlib.suppress)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOES_ON)
def test_a_loop_without_an_end_is_not_waited_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SURE", 0.2)
    running = Clock(60, Patience(waiting=10))
    with pytest.raises(TimeLimitExceeded), time_limit(running) as within:
        within(answer(GOES_ON[name]))
    assert running.said() in ("did not end within 0 seconds of computing", "did not end within 1 seconds of computing")


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_a_loop_that_may_end_has_its_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SURE", 0.2)
    with time_limit(Clock(60, Patience(waiting=10))) as within:
        assert within(answer(ENDS[name])) == "done"
