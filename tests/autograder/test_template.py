"""One template for the process that judges and the one that explains: what they share, and what they don't."""

import dataclasses

import psutil
import pytest

from attnlib.checks.asking.time_limits import here
from autograder.judging.explainer import KNOWN, KnowingSandbox
from autograder.judging.submission import SANDBOXES, get_ready
from autograder.sandbox.probe import NOTHING, probe
from autograder.sandbox.process import Limits, Sandbox

pytestmark = pytest.mark.slow


@pytest.fixture(params=["auto", "landlock"])
def sandboxes(request):
    """The one that judges and its companion, both started."""
    with Sandbox(probe(request.param)) as judging:
        judging.fork().close()
        judging.companion = KnowingSandbox(judging)
        judging.companion.fork().close()
        yield judging, judging.companion


def has(child, module: str) -> bool:
    """Whether the module is imported in a child, which ends."""
    child.ask({**NOTHING, "expression": f"str({module!r} in __import__('sys').modules)"})
    told = child.listen()["value"]
    child.close()
    return told == {"text": "True"}


def test_the_answers_are_imported_in_the_process_that_explains_alone(sandboxes):
    judging, knowing = sandboxes
    assert all(has(knowing.fork(), name) for name in KNOWN)
    assert not any(has(judging.fork(), name) for name in KNOWN)


def test_a_process_that_lacks_what_is_needed_late_is_forked_anew_from_the_same_template(sandboxes):
    judging, knowing = sandboxes
    template = judging.template.process
    for sandbox in sandboxes:
        assert not has(sandbox.fork(), "this")
        assert has(sandbox.fork(late=["this"]), "this")
        assert has(sandbox.fork(), "this")
    assert all(has(knowing.fork(), name) for name in KNOWN)
    assert judging.template.process is template


def test_what_does_not_exist_is_imported_late_once(sandboxes):
    judging, _ = sandboxes
    judging.fork(late=["no_such_module"]).close()
    control = judging.control
    judging.fork(late=["no_such_module"]).close()
    assert judging.control is control


@pytest.mark.parametrize("which", [0, 1])
def test_either_ends_all_of_them_and_starts_again(sandboxes, which):
    judging, _ = sandboxes
    assert judging.template.process is not None
    inside = psutil.Process(judging.template.process.pid).children(recursive=True)
    assert len(inside) >= 2
    sandboxes[which].close()
    assert judging.template.process is None
    assert psutil.wait_procs(inside, timeout=30)[1] == []
    for sandbox in sandboxes:
        sandbox.fork().close()


def test_a_sandbox_that_is_made_ready_has_its_warm_process_before_the_first_submission():
    layers = probe()
    get_ready(layers)
    (sandbox,) = (held for key, held in SANDBOXES.items() if key[2] == layers)
    try:
        assert sandbox.template.is_alive
        assert sandbox.control is not None
    finally:
        sandbox.close()


@pytest.mark.parametrize("endless", ["time.sleep(10**6)", "while True: pass"])
def test_a_cell_that_did_not_end_is_run_as_far_as_it_came_when_it_is_needed_again(endless):
    lines = ["import time", "def answer(): return 1", "print('before')", endless, "print('after')"]
    cells = [{"name": "one", "role": "answer", "source": "\n".join(lines)}]
    times = dataclasses.replace(here(), waiting=2.0, cell_cpu=1.0)
    told = []
    with Sandbox(probe(), Limits(time=times)) as sandbox:
        stuck = {}
        for _ in range(2):
            child = sandbox.fork()
            child.ask({**NOTHING, "cells": cells, "expression": "str(answer())", "stuck": stuck})
            told.append(child.listen())
            child.close()
            (cell,) = told[-1]["cells"]
            stuck = {"one": (cell["stopped"], cell["text"])}
    first, again = told
    assert first == again
    assert first["value"] == {"text": "1"}
    (cell,) = first["cells"]
    assert (cell["error"], cell["stopped"], cell["printed"]) == ("TimeLimit", 4, "before\n")
