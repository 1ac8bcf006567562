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
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from notebook_cells import run_cell
from one_change_tried import PATIENT, the_change

from attnlib.checks import exercises
from attnlib.checks.asking import confine
from attnlib.checks.naming.one_change import one_change
from attnlib.checks.naming.one_change.confined import Unconfined, in_a_child
from attnlib.checks.naming.one_change.harmless import made_harmless
from attnlib.checks.naming.one_change.written import source_of
from attnlib.checks.verdict.judge import cases_of, try_case

needs_confinement = pytest.mark.skipif(
    sys.platform != "linux" or confine.landlock_abi() == 0 or not confine.seccomp_works(),
    reason="no child can be confined here: Landlock (Linux 5.13) and seccomp are needed",
)
pytestmark = pytest.mark.slow

DANGERS = {
    "a function of the notebook": ("import shutil\ndef start_afresh():\n    shutil.rmtree(folder)", "start_afresh()"),
    "a name of its own for os.remove": ("from os import remove as forget", "forget(folder / 'notes.txt')"),
    "a function that is passed on": ("from os import remove", "list(map(remove, [folder / 'notes.txt']))"),
    "a partial": ("import functools, os\nclean = functools.partial(os.remove, folder / 'notes.txt')", "clean()"),
    "a program": ("from subprocess import run", "run(['rm', '-r', str(folder)], check=True)"),
    "a method of a path": ("notes = folder / 'notes.txt'", "notes.unlink()"),
    "a file that is emptied": ("begin = open", "begin(folder / 'notes.txt', 'w').close()"),
    "a file that is open": ("diary = journal", "diary.write('x'), diary.flush()"),
    "a file that is mapped": ("def fill(where): where[:] = 1", "fill(table)"),
    "a file of torch's": ("import torch\nkeep = torch.save", "keep(x, folder / 'notes.txt')"),
    "a file of torch's, by its storage": ("", "torch.from_file(str(folder / 'new'), shared=True, size=4)"),
    "a file of numpy's": ("", "x.numpy().tofile(folder / 'new')"),
    "a mode": ("import os\nlock = os.chmod", "lock(folder, 0)"),
    "a connection": ("import socket\nconnect = socket.create_connection", "connect(address, timeout=1).close()"),
    "a signal": ("from signal import raise_signal as tell", "tell(10)"),
    "a signal to the notebook": ("from os import kill", "kill(notebook, 10)"),
    "an object that deletes in a helper": (
        "def empty(place):\n    (place / 'notes.txt').unlink()\n"
        "class Desk:\n    def tidy(self):\n        empty(folder)\ndesk = Desk()",
        "desk.tidy()",
    ),
    "an object that is made on the spot": (
        "import shutil\nclass Desk:\n    def __init__(self):\n        shutil.rmtree(folder)",
        "Desk()",
    ),
    "a decorator": (
        "import functools, shutil\ndef clearing(f):\n    @functools.wraps(f)\n    def wrapped(x):\n"
        "        shutil.rmtree(folder)\n        return f(x)\n    return wrapped\n"
        "@clearing\ndef identity(x):\n    return x",
        "x = identity(x)",
    ),
    "a decorator that says nothing": (
        "import shutil\ndef clearing(f):\n    def wrapped(x):\n        shutil.rmtree(folder)\n        return f(x)\n"
        "    return wrapped\n@clearing\ndef identity(x):\n    return x",
        "x = identity(x)",
    ),
    "a property": (
        "import shutil\nclass Desk:\n    @property\n    def empty(self):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "desk.empty",
    ),
    "an object that is called": (
        "import shutil\nclass Desk:\n    def __call__(self, x):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "desk(x)",
    ),
    "an object in a text": (
        "import shutil\nclass Desk:\n    def __format__(self, how):\n        shutil.rmtree(folder)\ndesk = Desk()",
        "f'{desk}'",
    ),
    "a context": (
        "import shutil\nclass Clearing:\n    def __enter__(self):\n        shutil.rmtree(folder)\n"
        "    def __exit__(self, *of_an_error):\n        pass",
        "with Clearing(): pass",
    ),
    "getattr": ("import os as system", "getattr(system, 're' + 'move')(folder / 'notes.txt')"),
    "a module by another name": ("import os as system", "system.remove(folder / 'notes.txt')"),
    "an import in the answer": ("", "from os import remove; remove(folder / 'notes.txt')"),
    "what Python hides": ("", "torch.__builtins__['open'](folder / 'notes.txt', 'w').close()"),
    "what a function knows": ("import os\ndef f(x): return x", "f.__globals__['os'].unlink(folder / 'notes.txt')"),
    "a list of the notebook": ("def note(where): where.append(1)", "note(kept)"),
    "a default of the notebook": ("def note(x, seen=kept): seen.append(1)", "note(x)"),
    "a tensor of the notebook": ("def count(where): where.add_(1)", "count(numbers)"),
    "a shared tensor": ("def count(where): where.add_(1)", "count(shared)"),
    "an attribute of the notebook's object": ("def rename(it): it.name = 'other'", "rename(thing)"),
    "a class of the notebook": (
        "class Kept:\n    here = kept\n    def note(self): self.here.append(1)",
        "Kept().note()",
    ),
    "a library": ("def mark(where): where.marked = 1", "mark(torch)"),
}
"""What the notebook has, and the line that never runs: on one of the first edits it does."""
ENDS_THE_CHILD = ("a file that is mapped", "a shared tensor")


class World:
    """A notebook's surroundings, and whether all is as it was."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "mine"
        self.folder.mkdir()
        (self.folder / "notes.txt").write_text("weeks of work")
        self.mapped = np.memmap(folder / "table", dtype=np.float32, mode="w+", shape=4)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(0)
        self.journal = (self.folder / "notes.txt").open("a")
        self.numbers, self.shared = torch.zeros(3), torch.zeros(3).share_memory_()
        self.kept: list[int] = []
        self.thing = SimpleNamespace(name="mine")
        self.names = {
            **{"folder": self.folder, "address": self.listener.getsockname(), "kept": self.kept, "thing": self.thing},
            **{"numbers": self.numbers, "shared": self.shared, "torch": torch, "table": self.mapped},
            **{"notebook": os.getpid(), "journal": self.journal},
        }

    def is_intact(self) -> bool:
        """Whether nothing was deleted, written, sent or changed."""
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            pass
        else:
            return False
        files = (
            {path.name: path.stat().st_mode & 0o700 for path in self.folder.iterdir()} if self.folder.exists() else {}
        )
        told = self.folder.exists() and files == {"notes.txt": 0o600} and self.folder.stat().st_mode & 0o700 == 0o700
        numbers = [*self.numbers, *self.shared, *torch.from_numpy(np.fromfile(self.mapped.filename, np.float32))]
        kept = not self.kept and not any(map(bool, numbers)) and vars(self.thing) == {"name": "mine"}
        return (
            told
            and (self.folder / "notes.txt").read_bytes() == b"weeks of work"
            and kept
            and not RECEIVED
            and not hasattr(torch, "marked")
        )

    def answer(self, danger: str) -> Any:
        """A wrong answer with a branch that never runs, in the notebook that has what the branch uses."""
        around, line = DANGERS[danger]
        names = run_cell(around, self.names, path=f"<the cell above of {danger}>")
        branch = f"    if x.shape[0] > 100_000:\n        {line}\n"
        source = f"def pairwise_dot(x, y):\n{branch}    return (x @ y.mT).roll(1, dims=0)"
        return run_cell(source, names, path=f"<the cell of {danger}>")["pairwise_dot"]


RECEIVED: list[int] = []


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
    trials = [try_case(exercise, answer, case, seed=0, device="cpu") for case in cases_of(exercise, hidden=False)]
    return one_change(exercise, answer, trials, seed=0, device="cpu", limits=PATIENT, **how)


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
    began = time.monotonic()
    limits = replace(PATIENT, search_cpu=0.5, search_case_cpu=0.5, search_waiting=1.0)
    assert in_a_child(work, limits) == told
    assert time.monotonic() - began < 120
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


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
