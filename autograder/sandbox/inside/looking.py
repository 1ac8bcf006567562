"""The state of a child as the warm process sees it: time, threads, files with and without a name."""

import os
import stat
from dataclasses import dataclass
from typing import Any

from .scratch import MOST_FILES, Content, look_into


@dataclass(frozen=True)
class Bounds:
    """The bounds on a child's threads and files."""

    threads: int
    scratch_bytes: int
    file_bytes: int
    quota: bool
    """True if its files are in a file system that is no larger: then the kernel counts their bytes, not this module."""


def state_of(pid: int, scratch: str, bounds: Bounds) -> dict[str, Any]:
    """Return a child's state; `beyond` is the bound that it has broken, as a clause and a kind, or None."""
    state, content = look(pid), look_into(scratch)
    return {**state, "beyond": _beyond(state["threads"], content, bounds, pid)}


def _beyond(threads: int, content: Content, bounds: Bounds, pid: int) -> list[str] | None:
    if content.odd:
        return [content.odd, "files"]
    if not bounds.quota and content.bytes + without_a_name(pid, bounds.file_bytes) > bounds.scratch_bytes:
        return [f"wrote more than {bounds.scratch_bytes >> 20} MB of files", "files"]
    if content.files > MOST_FILES:
        return [f"made more than {MOST_FILES} files", "files"]
    if threads > bounds.threads:
        return [f"started more than {bounds.threads} threads", "threads"]
    return None


def look(pid: int) -> dict[str, Any]:
    """Return a child's processor time so far, the number of its threads, and whether all of them are asleep.

    It is `blocked` if no thread runs, although not all are asleep: some wait for a disk, or cannot be woken.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return {"cpu": 0.0, "asleep": False, "blocked": False, "threads": 0}
    return {
        "cpu": (int(fields[11]) + int(fields[12])) / ticks,
        "asleep": (asleep := all(state in "STtZX" for state in states)),
        "blocked": not asleep and "R" not in states,
        "threads": len(states),
    }


def without_a_name(pid: int, largest: int) -> int:
    """Return the bytes of files that a child has removed and still holds, open or mapped into its memory.

    The kernel does not tell the size of a mapped file, so each counts as the `largest` that there may be.
    """
    found: dict[int, int] = {}
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.endswith(" (deleted)\n"):
                    found[int(line.split()[4])] = largest
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                held = os.stat(f"/proc/{pid}/fd/{name}")
            except FileNotFoundError:  # closed since it was listed
                continue
            if stat.S_ISREG(held.st_mode) and held.st_nlink == 0:
                found[held.st_ino] = held.st_blocks * 512
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or may not be looked into
        return 0
    return sum(found.values())
