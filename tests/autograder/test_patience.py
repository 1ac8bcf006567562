"""When a child counts as waiting, whatever the machine's load: the guard sees states and processor time, no clock."""

from itertools import cycle, islice, repeat
from types import SimpleNamespace

import pytest

from attnlib.checks.asking.time_limits import TimeLimits
from autograder.sandbox.inside.wire import POLL_SECONDS
from autograder.sandbox.process import Child, Limits, _Guard
from autograder.sandbox.template import Died

LIMITS = TimeLimits(child_waiting=15.0, child_waiting_in_all=60.0, child_blocked_wall=120.0, child_wall=1800.0)
ASLEEP, RUNNABLE = {"asleep": True, "cpu": 0.0}, {"asleep": False, "cpu": 0.0}


def given_up_at(states, looks=4000):
    """The number of the look at which the child was given up, if it was."""
    states = iter(states)

    def ask(request):
        return {"threads": 1, "beyond": None, "blocked": False, **next(states)}

    sandbox = SimpleNamespace(_ask=ask, limits=Limits(time=LIMITS), living=[])
    guard = _Guard(Child(sandbox, channel=None, pid=1), 25.0)
    for number in range(1, looks):
        try:
            guard()
        except Died:
            return number
    return None


def test_one_that_sleeps_is_given_up_in_the_seconds_that_it_may_sleep():
    assert given_up_at(repeat(ASLEEP)) == LIMITS.child_waiting / POLL_SECONDS


def test_one_that_nothing_wakes_is_given_up_too():
    blocked = {"asleep": False, "blocked": True, "cpu": 0.0}
    assert given_up_at(repeat(blocked)) == LIMITS.child_blocked_wall / POLL_SECONDS


def test_one_that_waits_for_the_processor_is_not_asleep():
    assert given_up_at(repeat(RUNNABLE)) is None


@pytest.mark.parametrize("every", [2, 4, 20])
def test_a_timer_that_wakes_it_on_a_loaded_machine_does_not_start_the_waiting_anew(every):
    states = list(islice(cycle([*[ASLEEP] * (every - 1), RUNNABLE]), 240))
    asleep = [number for number, state in enumerate(states, 1) if state is ASLEEP]
    assert given_up_at(states, looks=len(states)) == asleep[round(LIMITS.child_waiting / POLL_SECONDS) - 1]


def test_computing_starts_the_waiting_anew():
    naps = ({"asleep": True, "cpu": 0.1 * (number // 20)} for number in range(10_000))
    assert given_up_at(naps) == LIMITS.child_waiting_in_all / POLL_SECONDS


def test_the_child_may_say_itself_why_it_was_ended():
    """Its own limits end a cell or a call before the grader ends the process."""
    limits = TimeLimits()
    assert limits.waiting + 2 < limits.child_waiting
    assert max(limits.case_cpu, limits.cell_cpu) < limits.reply_cpu
    assert limits.given_cell_cpu < limits.cells_cpu < limits.child_cpu
    assert limits.waiting < limits.child_waiting_in_all
