"""One template for the process that judges and the one that explains: what they share, and what they don't."""

import psutil
import pytest

from autograder.judging.explainer import KNOWN, KnowingSandbox
from autograder.judging.submission import SANDBOXES, get_ready
from autograder.sandbox.probe import NOTHING, probe
from autograder.sandbox.process import Sandbox

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
