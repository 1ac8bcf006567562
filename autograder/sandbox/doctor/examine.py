"""`python -m autograder doctor`: each promise of the sandbox, tested by attacking it from inside."""

import os
import resource
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from autograder.lesson_text.layout import Layout
from autograder.sandbox.doctor.attacks import LIMITS, Attack, attacks
from autograder.sandbox.layers import Layers
from autograder.sandbox.process import Sandbox
from autograder.sandbox.remote import failure_from
from autograder.sandbox.template import Died
from autograder.sandbox.views import view
from autograder.showing.errors import CourseError

OPEN, BROKEN = "got out", "the attack is broken"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attack: in words, by what it ended, and whether it was refused."""

    how: str
    by: str = ""
    """The bound that it exceeded, or the name of the exception that it raised."""
    refused: bool = False


@dataclass(frozen=True)
class Finding:
    """An attack, whether the promise held, and what stopped the attack."""

    attack: Attack
    held: bool
    how: str


TEMPLATE = """
import contextlib, ctypes, fcntl, importlib, os, resource, socket, subprocess, sys, threading, time
import torch

libc = ctypes.CDLL(None, use_errno=True)
places = [f"{{place}}/doctor-left" for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/sandbox", "/student", "..")]
for what, amount in {backstops}:
    hard = resource.getrlimit(what)[1]
    amount = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(what, (amount, hard))


def beside(name):
    return f"../{{int(os.path.basename(os.getcwd())) - 1}}/{{name}}"


def attack():
    {code}


def answer(x, y):
    try:
        attack()
    except (OSError, ImportError, ValueError) as error:
        raise PermissionError(type(error).__name__)
    raise UserWarning  # it was not
"""


BACKSTOPS = ((resource.RLIMIT_AS, 32 << 30), (resource.RLIMIT_FSIZE, 256 << 20), (resource.RLIMIT_CPU, 120))
"""Limits far beyond what is promised: they hide no broken promise, but keep it from doing harm."""


def examine(layers: Layers, layout: Layout) -> Iterator[Finding]:
    """Attack each promise, in a process of its own."""
    if not layers.confined:
        raise CourseError(
            "doctor attacks the sandbox, and --sandbox none is no sandbox: the attacks would only reach your own "
            "processes and files. Try --sandbox auto."
        )
    (layout.course / "submitted").mkdir(parents=True, exist_ok=True)
    with (
        tempfile.NamedTemporaryFile("w", prefix="doctor-", suffix=".txt") as secret,
        Sandbox(layers, LIMITS) as sandbox,
    ):
        secret.write("a secret")
        secret.flush()
        os.chmod(secret.name, 0o666)
        for attack in attacks(Path(secret.name), layout.course):
            yield judged(attack, said(sandbox, attack))


def said(sandbox: Sandbox, attack: Attack) -> Outcome:
    """Return the outcome of an attack in the sandbox, after its first part if it has one."""
    if attack.first and (first := run(sandbox, attack.first)).by == BROKEN:
        return first
    return run(sandbox, attack.code)


def run(sandbox: Sandbox, body: str) -> Outcome:
    """Run an attack's code as an answer, in a process of its own."""
    cell = {"name": "attack", "source": TEMPLATE.format(code=body, backstops=BACKSTOPS), "role": "answer"}
    task = {"cells": [cell], "wanted": "attack", "run": "all", "stuck": {}}
    task |= {"expression": "answer", "kind": "function"}
    child = sandbox.fork()
    try:
        child.ask({**task, "forbidden": [], "refused": [], "library": view()})
        told = child.listen()
        if told["missing"]:
            return Outcome(f"{BROKEN}: {failure_from(told['missing']).error}", by=BROKEN)
        failure = failure_from(child.ask({"do": "call", "inputs": [None, None], "gradient": False})["failure"])
    except Died as error:
        return Outcome(str(error), by=error.of)
    finally:
        child.close()
    if failure.exception == "UserWarning":
        return Outcome(OPEN)
    if failure.exception == "PermissionError":
        return Outcome(failure.text, refused=True)
    return Outcome(failure.error, by=failure.exception or failure.kind)


def judged(attack: Attack, outcome: Outcome) -> Finding:
    """Judge whether the promise held: by a refusal, or by the limit that it is about."""
    return Finding(attack, outcome.refused or outcome.by in attack.expected, outcome.how)


def table(findings: list[Finding], layers: Any) -> Table:
    """Tabulate the promises, how each was attacked, and whether it held."""
    found = Table(title=str(layers), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("Promise", "Attack", "", "What stopped it"):
        found.add_column(heading, overflow="fold")
    for finding in findings:
        mark = Text("✓ held", style="green") if finding.held else Text("✗ BROKEN", style="bold red")
        found.add_row(finding.attack.promise, finding.attack.attack, mark, Text(finding.how))
    return found
