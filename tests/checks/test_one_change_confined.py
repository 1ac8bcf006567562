"""What is changed in a search runs where it can do nothing: nothing of the learner's is deleted, sent or altered."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import psutil
import pytest
import torch
from notebook_cells import run_cell
from one_change_dangers import DANGERS, ENDS_THE_CHILD, RECEIVED, World
from one_change_tried import PATIENT, the_change

from attnlib.checks import exercises
from attnlib.checks.asking import confine
from attnlib.checks.asking.observation import Asking
from attnlib.checks.course import right
from attnlib.checks.naming.one_change.confined import Unconfined, in_a_child
from attnlib.checks.naming.one_change.harmless import made_harmless
from attnlib.checks.naming.one_change.search import one_change
from attnlib.checks.naming.one_change.written import source_of
from attnlib.checks.verdict.judge import cases_of, try_case

needs_confinement = pytest.mark.skipif(
    sys.platform != "linux" or confine.landlock_abi() == 0 or not confine.seccomp_works(),
    reason="no child can be confined here: Landlock (Linux 5.13) and seccomp are needed",
)
pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    RECEIVED.clear()
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: RECEIVED.append(number))
    made = World(tmp_path)
    yield made
    signal.signal(signal.SIGUSR1, before)
    made.listener.close()
    made.journal.close()
    vars(torch).pop("marked", None)
    if made.folder.exists():
        made.folder.chmod(0o700)


def searched(answer: Any, **how: Any) -> Any:
    exercise = exercises()["pairwise_dot"]
    trials = [try_case(exercise, answer, case) for case in cases_of(exercise, hidden=False)]
    return one_change(exercise, answer, trials, Asking(limits=PATIENT), **how)


@pytest.mark.parametrize("danger", DANGERS)
@needs_confinement
def test_in_a_child_a_branch_that_never_ran_does_nothing(danger: str, world: World) -> None:
    found = searched(world.answer(danger))
    assert world.is_intact()
    assert (found is None) == (danger in ENDS_THE_CHILD)
    assert found is None or found.title == "One step too many"


@pytest.mark.parametrize("danger", DANGERS)
def test_where_nothing_can_be_confined_such_an_answer_is_not_searched(
    danger: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "landlock_abi", lambda: 0)
    assert searched(world.answer(danger)) is None
    assert world.is_intact()


@pytest.mark.parametrize("danger", DANGERS)
def test_these_dangers_are_real(danger: str, world: World) -> None:
    """In a process that says it is confined, and is not, each of them leaves something behind."""
    searched(world.answer(danger), confined=True)
    assert not world.is_intact()


@needs_confinement
def test_a_child_has_nothing_open_shows_nothing_and_asks_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    def said() -> list[str]:
        os.write(1, b"hello")
        os.write(2, b"hello")
        return [link for name in os.listdir("/proc/self/fd") if (link := read(f"/proc/self/fd/{name}"))]

    def read(path: str) -> str:
        with contextlib.suppress(FileNotFoundError):  # what has listed them
            return os.readlink(path)
        return ""

    with socket.create_server(("127.0.0.1", 0)):
        opened = in_a_child(said, PATIENT)
    assert [o.split(":")[0] for o in opened] == [os.devnull] * 3 + ["pipe"]
    assert capfd.readouterr() == ("", "")


def _loops() -> None:
    while True:
        pass


def _hoards() -> str:
    hoard = []
    while True:
        try:
            hoard.append(bytearray(1 << 24))
        except MemoryError:
            return "no more"


@needs_confinement
@pytest.mark.parametrize(
    ("work", "told"),
    [
        (_loops, None),
        (lambda: time.sleep(600), None),
        (_hoards, "no more"),
        (lambda: os._exit(3), None),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), None),
    ],
)
def test_a_child_ends_with_its_limits(work: Callable[[], Any], told: Any) -> None:
    ours = psutil.Process()
    before = ours.children()  # an earlier test's, such as the companion that explains
    began = time.monotonic()
    limits = replace(PATIENT, search_cpu=0.5, search_case_cpu=0.5, search_waiting=1.0)
    assert in_a_child(work, limits) == told
    assert time.monotonic() - began < 120
    assert set(ours.children()) <= set(before)


@needs_confinement
def test_a_fault_of_ours_in_a_child_is_raised() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        in_a_child(lambda: 1 // 0, PATIENT)


@needs_confinement
def test_a_child_ends_with_its_notebook() -> None:
    program = (
        "import os, sys, time, torch\n"
        "from attnlib.checks.asking.time_limits import TimeLimits\n"
        "from attnlib.checks.naming.one_change.confined import in_a_child\n"
        "def work():\n"
        "    while True:\n"
        "        time.sleep(0.01)\n"
        "print('begun', flush=True)\n"
        "in_a_child(work, TimeLimits(search_waiting=600.0))\n"
    )
    notebook = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert notebook.stdout is not None
    with notebook, notebook.stdout:
        assert notebook.stdout.readline() == "begun\n"
        while not (children := Path(f"/proc/{notebook.pid}/task/{notebook.pid}/children").read_text().split()):
            time.sleep(0.05)
        notebook.kill()
    end = time.monotonic() + 60
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()


ENGINE = """
import os, sys, torch
sys.path.insert(0, {here!r})
from one_change_tried import the_change, turned
from attnlib.checks.naming.one_change.confined import Unconfined, in_a_child
from attnlib.checks.asking.time_limits import here
class Deeper(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, left):
        ctx.left = left
        return x * 1
    @staticmethod
    def backward(ctx, g):
        if ctx.left:
            with torch.enable_grad():
                Deeper.apply(torch.ones(1, requires_grad=True), ctx.left - 1).sum().backward()
        return g, None
torch.set_num_threads(2)
(torch.randn(300, 300, requires_grad=True) @ torch.randn(300, 300)).softmax(-1).sum().backward()
print(in_a_child(lambda: "after training", here()))
Deeper.apply(torch.ones(1, requires_grad=True), 80).sum().backward()
try:
    print(in_a_child(lambda: "computes", here()))
except Unconfined:
    print("cannot compute")
print(the_change("pairwise_dot", turned).title)
"""


@needs_confinement
def test_a_notebook_that_has_trained_is_searched_and_so_is_one_whose_gradients_do_not_survive_a_fork() -> None:
    """The second has a pool of threads for gradients, and torch refuses in a fork: the source is read instead."""
    program = ENGINE.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["after training", "cannot compute", "One step too many"]


def test_what_cuda_has_begun_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(Unconfined):
        in_a_child(lambda: "computed", PATIENT)


def test_an_answer_that_only_computes_is_searched_where_nothing_can_be_confined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confine, "landlock_abi", lambda: 0)
    above = "import math\nimport torch\nWIDTH = 3\ndef dots(x, y):\n    return torch.matmul(x, y.mT)\n"
    names = run_cell(above, {}, path="<the cell above of what only computes>")
    source = (
        "def pairwise_dot(x, y):\n"
        "    from einops import rearrange\n"
        "    count = {}\n"
        "    for i in range(x.shape[0]):\n"
        "        count[i] = float(i) + math.sqrt(WIDTH)\n"
        "    if not torch.is_tensor(x):\n"
        "        raise TypeError(f'x must be a tensor, got {x}')\n"
        "    return rearrange(dots(x, y), 'b q k -> b q k').roll(1, dims=0)\n"
    )
    attempt = run_cell(source, names, path="<the cell of what only computes>")["pairwise_dot"]
    assert the_change("pairwise_dot", attempt).title == "One step too many"
    known = source_of(attempt)
    assert known is not None
    harmless = made_harmless(known)
    assert harmless is not None
    assert "open" not in harmless.namespace["__builtins__"]
    assert set(harmless.namespace) == {"__builtins__", "__name__", "dots", "math", "rearrange", "torch", "WIDTH"}


def test_nearly_every_answer_can_be_searched_where_nothing_can_be_confined() -> None:
    """Those of many students: on macOS and Windows no child is confined."""
    found = []
    for path in (path for path in right.files() if path.stem.startswith("lesson_")):
        module = right.load(path)
        for value in vars(module).values():
            if isinstance(value, FunctionType | type) and value.__module__ == module.__name__:
                written = source_of(value)
                if written is not None and written.can_restart and not written.reaches_outside():
                    found.append(made_harmless(written) is not None)
    assert len(found) > 250
    assert sum(found) / len(found) > 0.9
