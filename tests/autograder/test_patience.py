"""When a child counts as waiting, whatever the machine's load: the guard sees states and processor time, no clock."""

from itertools import cycle, islice, repeat
from types import SimpleNamespace

import pytest

from autograder.sandbox import process
from autograder.sandbox.inside.wire import POLL_SECONDS
from autograder.sandbox.process import Died, _Guard


@pytest.fixture(autouse=True)
def limits(monkeypatch):
    """Those of every day: other tests are less patient."""
    monkeypatch.setattr(process, "ASLEEP_SECONDS", 10.0)
    monkeypatch.setattr(process, "ASLEEP_AGAIN_SECONDS", 2.0)
    monkeypatch.setattr(process, "ASLEEP_IN_ALL_SECONDS", 60.0)


ASLEEP, RUNNABLE = {"asleep": True, "cpu": 0.0}, {"asleep": False, "cpu": 0.0}


def polls_until(states, wake_after=None, looks=4000):
    """The numbers of the polls at which the child was woken, and that at which it was given up, if it was."""
    states, number, woken = iter(states), 0, []

    def ask(request):
        if request["do"] == "wake":
            woken.append(number)
            return {}
        return {"threads": 1, "scratch": 0, **next(states)}

    child = SimpleNamespace(sandbox=SimpleNamespace(_ask=ask), pid=1, asleep=0.0, waited=0.0)
    guard = _Guard(child, 25.0, wake_after)
    for number in range(1, looks):
        try:
            guard()
        except Died:
            return woken, number
    return woken, None


def test_one_that_sleeps_is_given_up_in_the_seconds_that_it_may_sleep():
    assert polls_until(repeat(ASLEEP)) == ([], process.ASLEEP_SECONDS / POLL_SECONDS)


def test_one_that_waits_for_the_processor_is_not_asleep():
    assert polls_until(repeat(RUNNABLE)) == ([], None)


@pytest.mark.parametrize("every", [2, 4, 20])
def test_a_timer_that_wakes_it_on_a_loaded_machine_does_not_start_the_waiting_anew(every):
    states = list(islice(cycle([*[ASLEEP] * (every - 1), RUNNABLE]), 120))
    asleep = [number for number, state in enumerate(states, 1) if state is ASLEEP]
    woken, _ = polls_until(states, process.ASLEEP_SECONDS, looks=len(states))
    assert woken[0] == asleep[round(process.ASLEEP_SECONDS / POLL_SECONDS) - 1]


def test_computing_starts_the_waiting_anew():
    naps = ({"asleep": True, "cpu": 0.1 * (number // 20)} for number in range(10_000))
    assert polls_until(naps) == ([], process.ASLEEP_IN_ALL_SECONDS / POLL_SECONDS)


def test_after_one_cell_has_been_woken_the_next_are_woken_sooner():
    woken, given_up = polls_until(repeat(ASLEEP), process.ASLEEP_SECONDS)
    first, again = process.ASLEEP_SECONDS / POLL_SECONDS, process.ASLEEP_AGAIN_SECONDS / POLL_SECONDS
    assert woken[:3] == [first, first + again, first + 2 * again]
    assert given_up == process.ASLEEP_IN_ALL_SECONDS / POLL_SECONDS
