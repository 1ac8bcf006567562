"""Whatever lives in the sandbox is watched, also while the grader compares numbers or does nothing at all."""

import time

import pytest

from autograder.sandbox import layers as layer
from autograder.sandbox.probe import NOTHING, probe
from autograder.sandbox.process import Sandbox
from autograder.sandbox.template import Died
from autograder.sandbox.views import view
from autograder.showing.errors import CourseError

pytestmark = pytest.mark.slow
FLOODS = """
import mmap, os, threading, time

kept = []

def threads():
    threading.stack_size(32768)
    for n in range(150):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

def written(name):
    file = open(name, "w+b")
    file.write(bytes(8 << 20))
    file.flush()
    return file

def named():
    for n in range(20):
        written(str(n)).close()

def removed():
    for n in range(20):
        kept.append(written("x"))
        os.unlink("x")

def mapped():
    for n in range(20):
        with written("x") as file:
            kept.append(mmap.mmap(file.fileno(), 4096))
        os.unlink("x")

def f(x, y):
    threading.Timer(0.1, FLOOD).start()
    return x
"""
RESERVES = """
import ctypes, os

libc = ctypes.CDLL(None)

def f(x, y):
    file = os.open("x", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, 1 << 20)
    keeping_its_size = 1
    raise ValueError(f"{libc.fallocate(file, keeping_its_size, ctypes.c_long(0), ctypes.c_long(256 << 20))=}")
"""
BEYOND = {
    "threads": "started more than 100 threads",
    "named": "wrote more than 64 MB",
    "removed": "wrote more than 64 MB",
    "mapped": "wrote more than 64 MB",
}


@pytest.fixture(params=["auto", "landlock"])
def sandbox(request, monkeypatch):
    """A sandbox without a file system of its own size, as far as that can be left out."""
    command = layer.command

    def without_quota(*about):
        line, environment = command(*about)
        return [word.replace("quota=try", "quota=no") for word in line], environment

    monkeypatch.setattr(layer, "command", without_quota)
    try:
        layers = probe(request.param)
    except CourseError as error:
        pytest.skip(f"NOT TESTED: there is no sandbox ({request.param}) on this machine. {error}")
    with Sandbox(layers) as sandbox:
        yield sandbox


@pytest.mark.parametrize("flood", BEYOND)
def test_a_child_goes_beyond_no_bound_while_nobody_asks_it_anything(sandbox, flood):
    if flood != "threads" and sandbox.layers.outer != "landlock":
        pytest.skip("there, the kernel says that the disk is full")
    cells = [{"name": "a", "source": FLOODS.replace("FLOOD)", f"{flood})"), "role": "answer"}]
    task = {**NOTHING, "cells": cells, "wanted": "a", "expression": "f", "kind": "function"}
    child = sandbox.fork()
    child.ask({**task, "library": view()})
    child.listen()
    child.ask({"do": "call", "inputs": [None, None], "gradient": False})
    last = time.monotonic() + 60.0
    while time.monotonic() < last and sandbox._ask({"do": "look", "pid": child.pid})["beyond"] is None:
        time.sleep(5.0)  # ten looks of the warm process for each of these
    with pytest.raises(Died, match=BEYOND[flood]):
        child.ask({"do": "call", "inputs": [None, None], "gradient": False})


def test_no_single_call_takes_more_room_than_a_file_may_have(sandbox):
    """It would fill the disk between two looks."""
    cells = [{"name": "a", "source": RESERVES, "role": "answer"}]
    task = {**NOTHING, "cells": cells, "wanted": "a", "expression": "f", "kind": "function"}
    child = sandbox.fork()
    child.ask({**task, "library": view()})
    child.listen()
    said = child.ask({"do": "call", "inputs": [None, None], "gradient": False})
    child.close()
    assert said["failure"]["text"].endswith("=-1")


def test_a_second_child_cannot_be_made_beside_one_that_lives(sandbox):
    child = sandbox.fork()
    with pytest.raises(RuntimeError, match="once the one before has ended"):
        sandbox.fork()
    child.close()
    sandbox.fork().close()
