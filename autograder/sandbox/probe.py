"""Which layers this machine offers: found by starting a process behind them."""

import shutil
from functools import cache

from autograder.sandbox.inside import confine
from autograder.sandbox.layers import Layers
from autograder.sandbox.process import Died, Sandbox
from autograder.showing.errors import CourseError

CHOICES = ("auto", "bubblewrap", "landlock", "none")
CONTAINERS = ("docker", "podman")
NOTHING = {
    "cells": [],
    "wanted": "",
    "run": "all",
    "stuck": [],
    "expression": "None",
    "kind": "choice",
    "forbidden": [],
    "library": {},
}
"""A task that shows whether a child comes to life."""

OTHER_FINDERS = "__import__('sys').meta_path[1:]"  # the first one is ours
HAS_REFERENCE = f"'yes' if any(finder.find_spec('attnlib', None) for finder in {OTHER_FINDERS}) else 'no'"


def probe_container(program: str, image: str) -> Layers:
    """A container's layers, by starting one; a CourseError if that fails, or if the image holds the answers."""
    if shutil.which(program) is None:
        raise CourseError(f"The program {program} is not installed, so there is no sandbox, and nothing is graded.")
    why = ""
    for landlock in (True, False) if confine.landlock_abi() > 0 else (False,):
        layers = Layers("container", confine.seccomp_works(), landlock, (program, image))
        try:
            with Sandbox(layers) as sandbox:
                child = sandbox.fork()
                child.ask({**NOTHING, "expression": HAS_REFERENCE})
                told = child.listen()["value"]
                child.close()
                if told != {"text": "no"}:
                    raise CourseError(f"The image {image} has attnlib installed, whose source answers the exercises.")
            return layers
        except Died as error:
            why = str(error)
    raise CourseError(f"A container of {image} starts, but cannot judge: {why}")


def check_choice(choice: str) -> None:
    """Raise a CourseError for what is no choice of a sandbox."""
    program, _, image = choice.partition(":")
    if choice not in CHOICES and not (image and program in CONTAINERS):
        raise CourseError(f"--sandbox is {', '.join(CHOICES)}, docker:IMAGE or podman:IMAGE, got {choice!r}.")


def probe(choice: str = "auto") -> Layers:
    """The strongest layers that work here, by starting a process behind them; a CourseError if there are none."""
    check_choice(choice)
    if choice == "none":
        return Layers("none", seccomp=False, landlock=False)
    program, _, image = choice.partition(":")
    if image:
        return probe_container(program, image)
    seccomp, landlock = confine.seccomp_works(), confine.landlock_abi() > 0
    tried = []
    for outer in ("bubblewrap", "landlock") if choice == "auto" else (choice,):
        if outer == "bubblewrap" and shutil.which("bwrap") is None:
            tried.append("bubblewrap: the program bwrap is not installed")
            continue
        if outer == "landlock" and not (landlock and seccomp):
            tried.append("Landlock and seccomp: this kernel does not have both")
            continue
        layers = Layers(outer, seccomp=seccomp, landlock=landlock)
        try:
            _try(layers)
            return layers
        except (CourseError, Died) as error:
            tried.append(f"{outer}: {error}")
    raise CourseError(
        "There is no sandbox here, so nothing is graded. " + " ".join(f"{line.rstrip('.')}." for line in tried) + " "
        "Install bubblewrap, or say --sandbox none to run student code with your own rights."
    )


@cache
def _try(layers: Layers) -> None:
    """Start a process behind these layers, once for all that this one grades; a CourseError, or Died, if that fails."""
    with Sandbox(layers) as sandbox:
        sandbox.start()
        child = sandbox.fork()
        child.ask(NOTHING)
        child.close()
