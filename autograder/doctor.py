"""`python -m autograder doctor`: each promise of the sandbox, tested by attacking it from inside."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from attnlib.checks import exercises
from attnlib.checks.time_limits import here
from autograder.layout import ROOT, Layout
from autograder.sandbox.layers import Layers
from autograder.sandbox.process import Died, Limits, Sandbox
from autograder.sandbox.views import view

EXERCISE = "pairwise_dot"
OPEN, HELD = "got out", "held"


@dataclass(frozen=True)
class Attack:
    """A promise and the code that tries to break it; `expected` are the words by which the grader stops it, if it must.

    The code runs in a function. It raises OSError or ImportError where it is refused, and returns where it is not.
    """

    promise: str
    attack: str
    code: str
    expected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """What came of an attack."""

    attack: Attack
    held: bool
    how: str


def attacks(secret: Path, course: Path) -> Iterator[Attack]:
    """Every promise with its attack; `secret` is a file outside of the sandbox, which everybody may read and write."""
    yield Attack("no network", "connects to 1.1.1.1", "socket.create_connection(('1.1.1.1', 80), timeout=3)")
    yield Attack("no network", "asks for a name", "socket.getaddrinfo('example.org', 80)")
    yield Attack("no network", "listens on a port", "socket.create_server(('127.0.0.1', 0))")
    yield Attack("no sockets of this machine", "opens a unix socket", "socket.socket(socket.AF_UNIX)")
    yield Attack("no file outside is read", f"reads {secret.name}", f"open({str(secret)!r}).read()")
    yield Attack("no file outside is read", "reads /etc/shadow", "open('/etc/shadow').read()")
    yield Attack("no file outside is written", f"writes {secret.name}", f"open({str(secret)!r}, 'w').write('x')")
    yield Attack("no file outside is written", "writes beside torch", "open(torch.__file__ + '.x', 'w').write('x')")
    yield Attack("no file outside is written", "makes /hostile", "os.mkdir('/hostile')")
    yield Attack("no solutions", "lists the repository's", f"os.listdir({str(ROOT / 'solutions')!r})")
    yield Attack("no checks", "reads a check", f"open({str(ROOT / 'attnlib' / 'checks' / 'judge.py')!r}).read()")
    yield Attack("no gradebook", "opens it", f"open({str(course / 'gradebook.db')!r}, 'rb').read()")
    yield Attack("no submissions", "lists them", f"os.listdir({str(course / 'submitted')!r})")
    yield Attack("no reference", "imports the checks", "importlib.import_module('attnlib.checks.judge')")
    yield Attack(
        "no reference",
        "imports it from its file",
        f"sys.path.insert(0, {str(ROOT)!r}); sys.meta_path[:] = "
        "sys.meta_path[1:]; sys.modules.pop('attnlib.checks', None); "
        "importlib.import_module('attnlib.checks.judge')",
    )
    yield Attack("no other processes", "reads their memory", "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)")
    yield Attack(
        "no other processes",
        "looks for their commands",
        "\n    ".join(
            (
                "own, seen = os.getpid(), os.listdir('/proc')",
                "others = {int(p) for p in seen if p.isdigit()} - {1, 2, own, os.getppid()}",
                "if not others: raise OSError('there are none')",
            )
        ),
    )
    yield Attack("no other processes", "traces its parent", called("ptrace", "16, os.getppid(), 0, 0"))
    yield Attack("no other processes", "kills everybody", "os.kill(-1, 9)")
    yield Attack("no other processes", "kills its parent", "os.kill(os.getppid(), 9)")
    yield Attack("no further processes", "forks", "os.fork() or os._exit(0)")
    yield Attack("no further processes", "forks as a bomb", "while True: os.fork()")
    yield Attack("no programs", "starts /bin/true", "subprocess.run(['/bin/true'])")
    yield Attack("no programs", "becomes /bin/true", "os.execv('/bin/true', ['true'])")
    yield Attack("no rights", "becomes root", "os.setuid(0)")
    yield Attack("no rights", "mounts", called("mount", "b'none', b'/tmp', b'tmpfs', 0, None"))
    yield Attack("no rights", "makes a namespace", called("unshare", "0x10000000"))
    yield Attack("no rights", "takes back its limits", "resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))")
    yield Attack("memory is bounded", "allocates 100 GB", "torch.ones(25 * 10**9)", ("allocate memory",))
    yield Attack(
        "memory is bounded",
        "grows a list",
        "kept = []\n    while True: kept.append(bytes(10**8))",
        ("MemoryError",),
    )
    yield Attack("files are bounded", "writes 1 GB into one", "open('x', 'wb').write(bytes(1 << 30))")
    yield Attack(
        "files are bounded",
        "fills the scratch",
        "\n    ".join(("for n in range(10**5): open(str(n), 'wb').write(bytes(8 << 20))",)),
        ("wrote more than", "No space left"),
    )
    yield Attack(
        "threads are bounded",
        "starts 10000",
        "\n    ".join(
            (
                "threading.stack_size(32768)",
                "for n in range(10000): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()",
                "time.sleep(100)",
            )
        ),
        ("threads", "thread"),
    )
    yield Attack("computing is bounded", "loops for ever", "while True: pass", ("did not end", "too much"))
    yield Attack("computing is bounded", "loops in one call", "sum(range(10**15))", ("did not end", "too much"))
    yield Attack("waiting is bounded", "sleeps for ever", "time.sleep(10**6)", ("without computing",))
    yield Attack("a crash is told", "writes to address 0", "ctypes.memset(0, 1, 1)", ("SIGSEGV",))


def called(function: str, arguments: str) -> str:
    """A call of libc's function that raises OSError where it fails."""
    call = f"ctypes.CDLL(None, use_errno=True).{function}({arguments})"
    return f"if {call} < 0: raise OSError(ctypes.get_errno(), 'refused')"


TEMPLATE = """
import ctypes, importlib, os, resource, socket, subprocess, sys, threading, time
import torch


def attack():
    {code}


def answer(x, y):
    try:
        attack()
    except (OSError, ImportError, ValueError) as error:
        raise ValueError(f"{held}: {{type(error).__name__}}")
    raise ValueError("{open}")
"""


def examine(layers: Layers, layout: Layout) -> Iterator[Finding]:
    """Attack each promise, in a process of its own."""
    (layout.course / "submitted").mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile("w", prefix="doctor-", suffix=".txt") as secret,
        Sandbox(layers, Limits(time=here().slower(1 / 5))) as sandbox,  # no attack is a right answer
    ):
        secret.write("a secret")
        secret.flush()
        os.chmod(secret.name, 0o666)
        for attack in attacks(Path(secret.name), layout.course):
            yield judged(attack, said(sandbox, attack))


def said(sandbox: Sandbox, attack: Attack) -> str:
    """What the sandbox says of an attack."""
    exercise = exercises()[EXERCISE]
    code = TEMPLATE.format(code=attack.code, held=HELD, open=OPEN)
    cell = {"name": "attack", "source": code, "role": "answer"}
    task = {"cells": [cell], "wanted": "attack", "run": "all", "stuck": []}
    task |= {"expression": "answer", "kind": "function"}
    child = sandbox.fork()
    try:
        child.ask({**task, "forbidden": [], "library": view(exercise)})
        told = child.listen()
        if told["missing"]:
            return f"the attack is broken: {told['missing']}"
        reply = child.ask({"do": "call", "inputs": [None, None], "gradient": False})
        return str(reply.get("failure", {}).get("text", OPEN))
    except Died as error:
        return str(error)
    finally:
        child.close()


def judged(attack: Attack, how: str) -> Finding:
    """Whether the promise held: by a refusal, or by the words of the limit that it is about."""
    how = how.removeprefix("raised ValueError: ")
    held = any(word in how for word in attack.expected) or how.startswith(f"{HELD}: ")
    return Finding(attack, held, how.removeprefix(f"{HELD}: "))


def table(findings: list[Finding], layers: Any) -> Table:
    """The promises, how each was attacked, and whether it held."""
    found = Table(title=str(layers), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("Promise", "Attack", "", "What stopped it"):
        found.add_column(heading, overflow="fold")
    for finding in findings:
        mark = Text("✓ held", style="green") if finding.held else Text("✗ BROKEN", style="bold red")
        found.add_row(finding.attack.promise, finding.attack.attack, mark, Text(finding.how))
    return found
