"""Find the layers that this machine offers, by starting a process behind them."""

import contextlib
import shutil
from typing import Any

from attnlib.checks.asking import confine
from autograder.sandbox.layers import Layers, why_no_other_user
from autograder.sandbox.process import Sandbox
from autograder.sandbox.template import Died
from autograder.showing.errors import CourseError

ORDERS = {"auto": ("bubblewrap", "landlock"), "any": ("bubblewrap", "landlock", "user")}
"""The layers to try, the strongest first; another user only if that is asked for."""
CHOICES = (*ORDERS, "bubblewrap", "landlock", "user", "none")
CONTAINERS = ("docker", "podman")
NOTHING = {
    "cells": [],
    "wanted": "",
    "run": "all",
    "stuck": {},
    "expression": "None",
    "kind": "choice",
    "forbidden": [],
    "refused": [],
    "library": {},
}
"""A task that shows whether a child comes to life."""
WORKING: set[Layers] = set()
"""Layers that this process has seen work: trying once is enough for all that it grades."""

OTHER_FINDERS = "__import__('sys').meta_path[1:]"  # the first one is ours
HAS_REFERENCE = f"'yes' if any(finder.find_spec('attnlib', None) for finder in {OTHER_FINDERS}) else 'no'"


def _alive(layers: Layers, expression: str = "None") -> tuple[Sandbox, Any]:
    """Return a sandbox in which a child has come to life, and the child's value of the expression."""
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox(layers))
        sandbox.start()
        child = sandbox.fork()
        child.ask({**NOTHING, "expression": expression})
        told = child.listen()["value"]
        child.close()
        stack.pop_all()
        return sandbox, told


def open_container(program: str, image: str) -> Sandbox:
    """Start a container; a CourseError if that fails, or if the image holds the answers."""
    if shutil.which(program) is None:
        raise CourseError(f"The program {program} is not installed, so there is no sandbox, and nothing is graded.")
    why = ""
    for landlock in (True, False) if confine.landlock_abi() > 0 else (False,):
        layers = Layers("container", confine.seccomp_works(), landlock, (program, image))
        try:
            sandbox, told = _alive(layers, HAS_REFERENCE)
        except Died as error:
            why = str(error)
            continue
        if told == {"text": "no"}:
            return sandbox
        sandbox.close()
        raise CourseError(f"The image {image} has attnlib installed, whose source answers the exercises.")
    raise CourseError(f"A container of {image} starts, but cannot judge: {why}")


def check_choice(choice: str) -> None:
    """Raise a CourseError unless this is a choice of a sandbox."""
    program, _, image = choice.partition(":")
    if choice not in CHOICES and not (image and program in CONTAINERS):
        raise CourseError(f"--sandbox is {', '.join(CHOICES)}, docker:IMAGE or podman:IMAGE, got {choice!r}.")


def probe(choice: str = "auto") -> Layers:
    """Return the strongest layers that work here, shown by a process behind them; a CourseError if none work."""
    with open_sandbox(choice) as sandbox:
        return sandbox.layers


def open_sandbox(choice: str = "auto") -> Sandbox:
    """Open a sandbox behind the strongest layers that work here, with the process that showed it; or a CourseError."""
    check_choice(choice)
    if choice == "none":
        return Sandbox(Layers("none", seccomp=False, landlock=False))
    program, _, image = choice.partition(":")
    if image:
        return open_container(program, image)
    seccomp, landlock = confine.seccomp_works(), confine.landlock_abi() > 0
    tried = []
    for outer in ORDERS.get(choice, (choice,)):
        if outer == "bubblewrap" and shutil.which("bwrap") is None:
            tried.append("bubblewrap: the program bwrap is not installed")
            continue
        if outer == "landlock" and not (landlock and seccomp):
            tried.append("Landlock and seccomp: this kernel does not have both")
            continue
        if outer == "user" and (why := why_no_other_user()):
            tried.append(f"another user: {why}")
            continue
        layers = Layers(outer, seccomp=seccomp, landlock=landlock and outer != "user")
        if layers in WORKING:
            return Sandbox(layers)
        try:
            sandbox, _ = _alive(layers)
            WORKING.add(layers)
            return sandbox
        except (CourseError, Died) as error:
            tried.append(f"{outer}: {error}")
    raise CourseError(
        "There is no sandbox here, so nothing is graded. " + " ".join(f"{line.rstrip('.')}." for line in tried) + " "
        "Install bubblewrap, or say --sandbox none to run student code with your own rights."
    )
