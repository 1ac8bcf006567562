"""Run a search where it can do no harm: in a forked child behind Landlock, seccomp and limits.

A changed answer is a program nobody has written. A branch that never ran may run now and delete a folder, or append
to a list of the notebook. The child has the notebook's objects as they are, and nobody else sees what it does with
them.
"""

import contextlib
import ctypes
import gc
import json
import math
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from attnlib.checks.asking.clock import TICK, Patience
from attnlib.checks.asking.time_limits import TimeLimits

MEMORY = 1 << 30
"""Bytes beyond those that the notebook has already: an answer's tensors are small."""
MOST_THREADS = 100
READY = b"\n"
PROT_READ = 1


class Unconfined(Exception):
    """Raised before anything runs, if no child can be confined here, or none could compute."""


def in_a_child(work: Callable[[], Any], limits: TimeLimits) -> Any:
    """Return the result of `work`, run in a child, in JSON's types; None if it doesn't end, or ends the child.

    Raises `Unconfined`, and RuntimeError with the traceback for any other exception of the work's.
    """
    if sys.platform != "linux" or torch.cuda.is_initialized():  # CUDA does not survive a fork
        raise Unconfined
    from attnlib.checks.asking import confine  # only on Linux

    if confine.landlock_abi() == 0 or not confine.seccomp_works():
        raise Unconfined
    reader, writer = os.pipe()
    parent, child = os.getpid(), 0
    try:
        with warnings.catch_warnings():  # Python warns of threads: what they hold is waited for as long as `_read` does
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            _become_harmless(confine, work, writer, parent, limits)
        os.close(writer)
        said = _read(reader, child, limits)
    finally:
        os.close(reader)
        if child:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # where SIGCHLD is ignored
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
    if not said.startswith(READY):
        raise Unconfined
    try:
        told = json.loads(said)
    except ValueError:  # it was killed while writing
        return None
    if "fault" in told:
        raise RuntimeError(told["fault"])
    return told["returned"]


def _become_harmless(confine: Any, work: Callable[[], Any], writer: int, parent: int, limits: TimeLimits) -> NoReturn:
    """Give up all access, check that torch still computes, do the work, and end."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
        confine.die_with_parent()
        if os.getppid() != parent:
            os._exit(0)
        _close_all_but(writer)
        _keep_memory_apart(confine.LIBC)
        gc.freeze()  # the notebook cleans up its own garbage, and no page is copied for that
        cpu = math.ceil(limits.search_cpu + limits.search_case_cpu) + 1
        confine.limit_resources(cpu_seconds=cpu, memory_bytes=MEMORY, file_bytes=0, threads=MOST_THREADS)
        confine.no_new_privileges()
        confine.restrict_files(["/"], [os.devnull])
        confine.forbid_system_calls()
        torch.set_num_threads(1)
        with torch.enable_grad():  # refused after a fork, where the notebook's own gradients have started threads
            one = torch.ones(1, requires_grad=True)
            torch.autograd.grad(one.sum(), one)
        os.write(writer, READY)
        os.write(writer, json.dumps(_returned(work)).encode())
    finally:
        os._exit(0)


def _returned(work: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"returned": work()}
    except MemoryError:
        return {"returned": None}
    except Exception:
        return {"fault": traceback.format_exc()}


def _close_all_but(kept: int) -> None:
    """Close the notebook's open files: Landlock doesn't take back the right to a file that is already open."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != kept:
            with contextlib.suppress(OSError):  # the descriptor that listed them
                os.close(descriptor)


def _keep_memory_apart(libc: Any) -> None:
    """Keep writes out of memory that others see as well: a mapped file's, or a shared tensor's."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        addresses, rights = line.split()[:2]
        if rights[1] == "w" and rights[3] == "s":
            start, end = (int(address, 16) for address in addresses.split("-"))
            if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(end - start), PROT_READ) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")


def _read(reader: int, child: int, limits: TimeLimits) -> bytes:
    """Read everything the child sends until it ends, or is idle for too long."""
    patience, found = Patience(limits.search_waiting, limits.search_wall), b""
    ready = select.poll()
    ready.register(reader, select.POLLIN)
    clock = ~child << 3 | 2  # the kernel's number for the processor time of a process
    wall, cpu = time.monotonic(), 0.0
    while patience.waiting_left > 0 and patience.wall_left > 0:
        if ready.poll(1000 * TICK):
            if not (more := os.read(reader, 1 << 16)):
                break
            found += more
        before, spent = wall, cpu
        wall = time.monotonic()
        with contextlib.suppress(OSError):  # it is gone, and needs no waiting for
            cpu = time.clock_gettime(clock)
        patience.spend(wall - before, cpu - spent)
    return found
