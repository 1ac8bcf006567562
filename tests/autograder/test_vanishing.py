"""A folder that vanishes between two steps of a watch: what was handed in is answered once it is back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from test_watch import StandIn, exchange, judged, settle, watch  # noqa: F401
from tiny_course import POINTS, RIGHT, TINY, Class

from autograder.grading import grade_course
from autograder.grading.grade_course import How
from autograder.judging.submission import Judged
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError
from autograder.watching.arrivals import Exchange
from autograder.watching.watch import Watch


def then_vanish(folder: Path, step: Callable) -> Callable:
    """The step, after which the folder is gone."""

    def call(*about):
        found = step(*about)
        folder.rename(folder.with_name("gone"))
        return found

    return call


def test_an_attempt_that_vanishes_from_the_exchange_is_not_refused(exchange, monkeypatch):  # noqa: F811
    monkeypatch.setattr(grade_course, "Crew", StandIn)
    klass = Class(exchange.layout)
    exchange.hand_in("ann")
    watch = Watch(exchange.layout, klass.course, Exchange(klass.course, [TINY]), How(layers=probe("none")))  # noqa: F811
    watch.arrivals.look(set())
    with monkeypatch.context() as vanishing:
        vanishing.setattr(watch.arrivals, "look", then_vanish(exchange.inbound, watch.arrivals.look))
        watch.round()
    assert watch.journal.answered == []
    with pytest.raises(CourseError, match="inbound cannot be read: No such file"):
        watch.round()
    exchange.inbound.with_name("gone").rename(exchange.inbound)
    assert settle(watch) == 1
    assert judged(watch) == ["ann"]


@pytest.mark.parametrize("step", ["look", "read"])
def test_an_attempt_that_vanishes_from_a_folder_is_not_taken_for_an_empty_one(klass, watch, monkeypatch, step):  # noqa: F811
    class Reading(StandIn):
        def judge(self, tasks, layers):
            for task in tasks:
                if task.files:
                    yield from super().judge([task], layers)
                else:
                    yield [Judged(task.student, TINY, problem="there is no notebook")]

    klass.submit("a", RIGHT)
    watch.judges = Reading(1)
    watch.arrivals.look(set())
    with monkeypatch.context() as vanishing:
        if step == "look":
            vanishing.setattr(watch.arrivals, "look", then_vanish(klass.submitted, watch.arrivals.look))
        else:
            vanishing.setattr(watch, "_workers", then_vanish(klass.submitted, watch._workers))
        watch.round()
    assert watch.journal.answered == []
    klass.submitted.with_name("gone").rename(klass.submitted)
    assert settle(watch) == 1
    assert klass.scores("a") == {f"test_{name}": float(points) for name, points in POINTS.items()}
