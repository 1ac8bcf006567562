"""Keep a record of the checks: this session's in memory, the best scores of all sessions in one small file.

The file is the learner's own. It is written only from a notebook or by practice in a terminal, never while nbgrader
grades one, and it holds nothing but names of exercises with the best score of each, and when a bug is due again.
"""

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnlib.checks.verdict.report import Report

PLACE = "ATTNLIB_PROGRESS"
"""The environment variable that names another file; if it is empty, nothing is written."""
FILE, VERSION = ".attnlib_progress.json", 1
HELD_BY_ANOTHER = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
WAITS = 2.0  # seconds for another process to write, which takes it a moment
ALONE = "so only the checks since this notebook was started count"

State = Literal["passed", "wrong", "unanswered"]


@dataclass(frozen=True)
class Checked:
    """The outcome of an exercise's last check in this session."""

    state: State
    score: float


LAST: dict[str, Checked] = {}
BEST: dict[str, float] = {}
"""The best scores of this session, which the file may lack if it can't be written."""


def note(report: Report) -> None:
    """Remember how a check ended; never raises because of the file."""
    state: State = "passed" if report.passed else "unanswered" if report.unanswered else "wrong"
    LAST[report.exercise] = Checked(state, report.score)
    if report.score > BEST.get(report.exercise, 0.0):
        BEST[report.exercise] = report.score
        best_scores()


def best_scores(*, terminal: bool = False) -> tuple[dict[str, float], str]:
    """The best scores of all sessions, after bringing the file up to date; and what is wrong with it, if anything is.

    Two notebooks may write at the same time: what is new is added, under a lock, to what the file holds by then.
    """
    path = place(terminal=terminal)
    if path is None:
        return dict(BEST), ""
    kept, trouble = _read(path)
    if trouble or _with_ours(kept) == kept:
        return _best(_with_ours(kept)), trouble
    kept, trouble = _changed(path, _with_ours)
    return _best(_with_ours(kept)), trouble


def section(name: str, *, terminal: bool = False) -> tuple[Any, str]:
    """Return what the file holds under this name, or None, and what is wrong with the file, if anything is."""
    path = place(terminal=terminal)
    if path is None:
        return None, ""
    kept, trouble = _read(path)
    return kept.get(name), trouble


def keep_section(name: str, change: Callable[[Any], Any], *, terminal: bool = False) -> str:
    """Change the section, under a lock, by `change`; return what is wrong with the file, if anything is."""
    path = place(terminal=terminal)
    if path is None:
        return ""
    return _changed(path, lambda kept: {**kept, name: change(kept.get(name))})[1]


def _changed(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Change the file under a lock; return its contents and what is wrong with it. A damaged file is left as it is."""
    kept: dict[str, Any] = {}
    try:
        with locked(path):
            kept, trouble = _read(path)
            if not trouble:
                kept = change(kept)
                _replace(path.resolve(), kept)  # a link stays one
    except OSError as error:
        trouble = f"{shown(path)} cannot be written ({error.strerror}): anything new is lost at a restart."
    return kept, trouble


def _best(kept: Mapping[str, Any]) -> dict[str, float]:
    best: dict[str, float] = kept.get("best", {})
    return best


def _with_ours(kept: dict[str, Any]) -> dict[str, Any]:
    best = _best(kept)
    return {**kept, "best": {name: max(best.get(name, 0.0), BEST.get(name, 0.0)) for name in (*best, *BEST)}}


def place(*, terminal: bool = False) -> Path | None:
    """Return the file; None if nothing is kept: outside notebooks, while nbgrader runs one, or as the learner says.

    In a `terminal`, where somebody practises, it is kept as in a notebook.
    """
    chosen = os.environ.get(PLACE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    if "NBGRADER_EXECUTION" in os.environ or not (terminal or in_a_notebook()):
        return None
    try:
        return Path.home() / FILE
    except RuntimeError:  # there is no home folder
        return None


def shown(path: Path) -> str:
    """Return the path as its owner would write it: a notebook that is handed in shouldn't say where they live."""
    with contextlib.suppress(ValueError, RuntimeError):
        return str(Path("~") / path.relative_to(Path.home()))
    return str(path)


def in_a_notebook() -> bool:
    """True if this process is a notebook's kernel, in any editor."""
    return getattr(running_shell(), "kernel", None) is not None


def running_shell() -> Any:
    """Return IPython's shell, without importing IPython; None outside of one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _read(path: Path) -> tuple[dict[str, Any], str]:
    """Return all that the file holds; nothing, and the reason, if it can't be read or isn't such a file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"version": VERSION, "best": {}}, ""
    except OSError as error:
        return {}, f"{shown(path)} cannot be read ({error.strerror}), {ALONE}."
    except (ValueError, RecursionError):
        told = None
    best = told.get("best") if isinstance(told, dict) and told.get("version") == VERSION else None
    if not isinstance(best, dict) or not all(type(score) is float and 0 < score <= 1 for score in best.values()):
        return {}, f"{shown(path)} is damaged, {ALONE}. Delete the file to start a new one."
    return told, ""


def _replace(path: Path, kept: Mapping[str, Any]) -> None:
    text = json.dumps({**kept, "version": VERSION, "best": dict(sorted(_best(kept).items()))}, indent=1)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process writes; not for a stopped process, nor where a disk has no locks.

    Its system takes the lock from a process that ends. Whoever has the lock removes its file; another that waited for
    it then has the lock of a file that is gone, and tries again.
    """
    lock, last = path.with_name(f"{path.name}.lock"), time.monotonic() + WAITS
    while True:
        with lock.open("ab") as file:
            try:
                _lock(file.fileno())
            except OSError as error:
                if error.errno in HELD_BY_ANOTHER and time.monotonic() < last:
                    time.sleep(0.01)
                    continue
            if not _is_still_at(lock, file.fileno()):
                continue
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # Windows keeps an open file
                    lock.unlink()
            return


def _lock(descriptor: int) -> None:
    """Lock an open file; raises OSError if another process has done so."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_still_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
