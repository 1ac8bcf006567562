"""A check in a real kernel, as in a student's notebook, with somebody there who could be asked."""

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client import BlockingKernelClient, KernelManager

from attnlib.checks.asking import confine

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
MUCH = 600  # seconds: only a hang takes so long
RIGHT = "def pairwise_dot(x, y):\n    return x @ y.mT\n"


@pytest.fixture(scope="module")
def kernel() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager = KernelManager()
    manager.start_kernel(env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=MUCH)
        assert execute(client, "import time, builtins\nfrom attnlib.checks import check")["status"] == "ok"
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def execute(client: BlockingKernelClient, code: str) -> dict:
    """The kernel's reply, and all that was shown. Whoever is asked for input makes the test fail."""
    shown: list[str] = []

    def note(message: dict) -> None:
        content = message["content"]
        data = content.get("data", {})
        html = re.sub("</?code>", "`", data.get("text/html", ""))
        shown.append(content.get("text", "") + data.get("text/plain", "") + html)

    def asked(message: dict) -> None:
        client.input("")
        shown.append("somebody was asked for input")

    # after an error a kernel aborts, for a moment, whatever it is asked next, unless it was told not to stop
    reply = client.execute_interactive(
        code, allow_stdin=True, stdin_hook=asked, output_hook=note, timeout=MUCH, stop_on_error=False
    )
    return {**reply["content"], "shown": " ".join("\n".join(shown).split())}


def checked(line: str) -> str:
    """A cell that defines a right answer with one more line, its third, and checks it."""
    return (
        f"import time\ndef pairwise_dot(x, y):\n    {line}\n    return x @ y.mT\n\ncheck('pairwise_dot', pairwise_dot)"
    )


def test_sleeping_ends_once_and_is_told(kernel):
    began = time.monotonic()
    reply = execute(kernel[1], checked("time.sleep(40)"))
    assert reply["ename"] == "CheckFailed"
    assert "waited 10 seconds without computing: `time.sleep(40)` in line 3" in reply["shown"]
    assert time.monotonic() - began < 40


@pytest.mark.parametrize("line", ["name = input('Your name? ')", "import getpass; getpass.getpass()", "breakpoint()"])
def test_nobody_is_asked_for_input(kernel, line):
    reply = execute(kernel[1], checked(line))
    assert reply["ename"] == "CheckFailed"
    assert "asks for input" in reply["shown"]
    assert f"line 3: `{line}`" in reply["shown"]
    assert "somebody was asked" not in reply["shown"]


def test_a_cell_can_ask_again_after_a_check(kernel):
    reply = execute(kernel[1], "name = input('Your name? ')")
    assert reply["status"] == "ok"
    assert "somebody was asked" in reply["shown"]


def test_the_kernel_can_be_interrupted_while_an_answer_waits(kernel, tmp_path):
    manager, client = kernel
    here = tmp_path / "here"
    client.execute(checked(f"import pathlib; pathlib.Path({str(here)!r}).touch(); time.sleep(40)"), stop_on_error=False)
    until = time.monotonic() + MUCH
    while not here.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=MUCH))["msg_type"] != "execute_reply":
        pass
    assert reply["content"]["ename"] == "Interrupted"
    assert reply["content"]["traceback"] == ["Interrupted before there was a result. Run this cell again."]
    assert execute(client, RIGHT + "\ncheck('pairwise_dot', pairwise_dot)")["status"] == "ok"


OLD = "This is about the `pairwise_dot` that ran before: "
CHECK = "check('pairwise_dot', pairwise_dot)"
STUB = "def pairwise_dot(x, y):\n    raise NotImplementedError\n"


@pytest.mark.parametrize(
    "broken", ["def pairwise_dot(x, y)\n    return x\n", "1 / 0\n" + STUB, "%%time\ndef pairwise_dot(x, y)\n  x"]
)
@pytest.mark.parametrize("before", [RIGHT, RIGHT.replace("x @", "2 * x @"), STUB])
def test_an_answer_of_before_is_told_where_its_cell_has_ended_with_an_error(kernel, before, broken):
    execute(kernel[1], before)
    assert OLD not in execute(kernel[1], CHECK)["shown"]
    assert execute(kernel[1], broken)["status"] == "error"
    assert f"{OLD}the cell that redefines it ended with an error" in execute(kernel[1], CHECK)["shown"]
    execute(kernel[1], before)
    assert OLD not in execute(kernel[1], CHECK)["shown"]


def test_a_class_of_before_is_told_too(kernel):
    right = "import torch\nclass QKVProjection(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    execute(kernel[1], right)
    execute(kernel[1], right + "    def (")
    assert "the `QKVProjection` that ran before" in execute(kernel[1], "check('QKVProjection', QKVProjection)")["shown"]


@pytest.mark.parametrize("between", ["x = 1 /", "def another(x)\n    pass", "assert False", "pairwise_dot(1"])
def test_an_error_in_a_cell_that_defines_something_else_is_no_matter(kernel, between):
    execute(kernel[1], RIGHT)
    assert execute(kernel[1], between)["status"] == "error"
    assert OLD not in execute(kernel[1], CHECK)["shown"]


def test_an_older_answer_that_is_kept_under_another_name_is_no_mistake(kernel):
    execute(kernel[1], RIGHT + "mine = pairwise_dot")
    execute(kernel[1], STUB)
    execute(kernel[1], STUB + "oops(")
    assert OLD not in execute(kernel[1], "check('pairwise_dot', mine)")["shown"]


def save(path: Path, *sources: str) -> None:
    cells = [{"cell_type": "code", "source": source.splitlines(keepends=True)} for source in sources]
    path.write_text(json.dumps({"cells": cells}))
    os.utime(path, (time.time() + 5, time.time() + 5))  # whatever the disk's clock says


@pytest.mark.parametrize("name", ["os.environ['JPY_SESSION_NAME']", "__vsc_ipynb_file__"])
def test_an_edit_that_was_saved_and_not_run_is_told(kernel, tmp_path, name):
    client, notebook = kernel[1], tmp_path / "lesson.ipynb"
    try:
        execute(client, f"import os\n{name} = {str(notebook)!r}")
        execute(client, RIGHT)
        assert OLD not in execute(client, CHECK)["shown"]  # there is no file
        save(notebook, RIGHT, CHECK)
        assert OLD not in execute(client, CHECK)["shown"]
        edited = RIGHT.replace("@ y", "@ 3 * y")
        save(notebook, edited, CHECK)
        assert f"{OLD}its cell has been changed since, and not run" in execute(client, CHECK)["shown"]
        save(notebook, edited, RIGHT, CHECK)
        assert OLD not in execute(client, CHECK)["shown"]  # nobody can say which of the two cells is meant
        notebook.write_text('{"cells": [')
        assert OLD not in execute(client, CHECK)["shown"]
    finally:
        execute(client, f"del {name}")


def test_a_file_that_was_saved_before_the_cell_ran_says_nothing(kernel, tmp_path):
    notebook = tmp_path / "lesson.ipynb"
    save(notebook, STUB, CHECK)
    os.utime(notebook, (time.time() - 5, time.time() - 5))
    execute(kernel[1], f"__vsc_ipynb_file__ = {str(notebook)!r}")
    execute(kernel[1], RIGHT + "# in a notebook that is not saved")
    assert OLD not in execute(kernel[1], CHECK)["shown"]
    execute(kernel[1], "del __vsc_ipynb_file__")


def test_a_search_deletes_nothing_says_nothing_and_leaves_the_kernel_as_it_was(kernel, tmp_path):
    """The kernel has threads, sockets and a history, and has trained; a branch that never ran would delete a folder."""
    folder = tmp_path / "mine"
    folder.mkdir()
    prepared = (
        "import shutil, torch\n"
        f"folder, kept = {str(folder)!r}, []\n"
        "def start_afresh():\n    print('deleting')\n    kept.append(1)\n    shutil.rmtree(folder)\n"
        "w = torch.randn(300, 300, requires_grad=True)\n"
        "for _ in range(3):\n    (torch.randn(300, 300) @ w).softmax(-1).sum().backward()\n"
    )
    assert execute(kernel[1], prepared)["status"] == "ok"
    answer = (
        "def pairwise_dot(x, y):\n    if x.shape[0] > 100_000:\n        start_afresh()\n"
        "    return (x @ y.mT).roll(1, dims=0)\n\ncheck('pairwise_dot', pairwise_dot)"
    )
    reply = execute(kernel[1], answer)
    assert reply["ename"] == "CheckFailed"
    assert "deleting" not in reply["shown"]
    assert folder.is_dir()
    after = execute(kernel[1], "import os\nprint(kept, len(os.listdir('/proc/self/fd')) > 9, w.grad is not None)")
    assert after["shown"].strip() == "[] True True"
    if sys.platform == "linux" and confine.landlock_abi() and confine.seccomp_works():
        assert reply["shown"].count("One change away") == 2  # as text, and as HTML
