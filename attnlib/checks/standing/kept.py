"""What is kept of the checks: those of this session in memory, the best scores of all sessions in one small file.

The file is the learner's own. It is written only from a notebook, never while nbgrader grades one, and it holds nothing
but names of exercises with the best score of each.
"""

import contextlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnlib.checks.verdict.report import Report

PLACE = "ATTNLIB_PROGRESS"
"""The environment variable that names another file; where it is empty, nothing is written."""
FILE, VERSION = ".attnlib_progress.json", 1
ALONE = "so only the checks since this notebook was started count"

State = Literal["passed", "wrong", "unanswered"]


@dataclass(frozen=True)
class Checked:
    """How an exercise's last check in this session ended."""

    state: State
    score: float


LAST: dict[str, Checked] = {}
BEST: dict[str, float] = {}
"""The best scores of this session, which the file may not have if it cannot be written."""


def note(report: Report) -> None:
    """Remember how a check ended; never raises because of the file."""
    state: State = "passed" if report.passed else "unanswered" if report.unanswered else "wrong"
    LAST[report.exercise] = Checked(state, report.score)
    if report.score > BEST.get(report.exercise, 0.0):
        BEST[report.exercise] = report.score
        best_scores()


def best_scores() -> tuple[dict[str, float], str]:
    """The best scores of all sessions, after bringing the file up to date; and what is wrong with it, if anything is.

    Two notebooks may write at the same time: each reads the file first and replaces it as a whole.
    """
    path = place()
    if path is None:
        return dict(BEST), ""
    kept, trouble = _read(path)
    best = {name: max(kept.get(name, 0.0), BEST.get(name, 0.0)) for name in (*kept, *BEST)}
    if not trouble and best != kept:
        trouble = _write(path, best)
    return best, trouble


def place() -> Path | None:
    """The file; None where nothing is kept: outside of notebooks, while nbgrader runs one, or as the learner says."""
    chosen = os.environ.get(PLACE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    if "NBGRADER_EXECUTION" in os.environ or not in_a_notebook():
        return None
    try:
        return Path.home() / FILE
    except RuntimeError:  # nobody knows where that is
        return None


def shown(path: Path) -> str:
    """The path as its owner would write it: a notebook that is handed in need not say where they live."""
    with contextlib.suppress(ValueError, RuntimeError):
        return str(Path("~") / path.relative_to(Path.home()))
    return str(path)


def in_a_notebook() -> bool:
    """Whether this process is a notebook's kernel, in whichever editor."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def _read(path: Path) -> tuple[dict[str, float], str]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"{shown(path)} cannot be read ({error.strerror}), {ALONE}."
    except (ValueError, RecursionError):
        told = None
    best = told.get("best") if isinstance(told, dict) and told.get("version") == VERSION else None
    if not isinstance(best, dict) or not all(type(score) is float and 0 < score <= 1 for score in best.values()):
        return {}, f"{shown(path)} is damaged, {ALONE}. Delete the file to start a new one."
    return best, ""


def _write(path: Path, best: dict[str, float]) -> str:
    text = json.dumps({"version": VERSION, "best": dict(sorted(best.items()))}, indent=1)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        return f"{shown(path)} cannot be written ({error.strerror}): a restart of this notebook forgets what is new."
    return ""
