"""A sandbox's own folder, which is removed with the sandbox, or later by another grader."""

import contextlib
import fcntl
import os
import tempfile
import time
import weakref
from pathlib import Path

from autograder.sandbox.inside.scratch import FOLDER, clear

PREFIX = "autograder-"
NEW_SECONDS = 60.0


class Folder:
    """A folder for one sandbox among the system's temporary files; locked as long as its grader lives."""

    def __init__(self) -> None:
        remove_leftovers()
        self.name = tempfile.mkdtemp(prefix=PREFIX)
        self.lock = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.chmod(self.name, 0o755)  # the sandbox's user must find its own folders there
        self.remove = weakref.finalize(self, _remove, self.name, self.lock)
        """Also called at the end of the program, but only once."""


def _remove(name: str, lock: int) -> None:
    """Remove a sandbox's folder; what cannot be removed now is left to later runs, and harms none of them."""
    with contextlib.suppress(OSError):
        clear(name)
        os.rmdir(name)
    os.close(lock)


def remove_leftovers() -> None:
    """Remove the folders of graders that were killed: those that nobody has locked, except new ones."""
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or removed by another grader meanwhile
            if left.lstat().st_uid != os.geteuid() or time.time() - left.lstat().st_mtime < NEW_SECONDS:
                continue
            lock = os.open(left, FOLDER)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                clear(str(left))
                left.rmdir()
            finally:
                os.close(lock)
