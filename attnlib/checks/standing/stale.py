"""Detect a stale answer: the function that is judged isn't the one in the notebook.

After a syntax error, or an edit that was not run, a name still means the function of before. A kernel knows which cells
it ran; what was only edited shows in the notebook's file once that is saved. Where neither is certain nothing is said.
"""

import ast
import inspect
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from attnlib.checks.standing.kept import running_shell

MOST_BYTES = 2 << 20  # of a notebook's file: larger ones take longer to read than the sentence is worth


@dataclass(frozen=True)
class Ran:
    """The outcome of a cell's run, and its time."""

    failed: bool
    at: float


RAN: dict[int, Ran] = {}
"""The cells that have run since the course was imported, by their numbers."""


def remember_cells() -> None:
    """From now on, note how each cell of this kernel ends."""
    if (shell := running_shell()) is not None:
        shell.events.register("post_run_cell", _note)


def _note(result: Any) -> None:
    if result.execution_count is not None:
        RAN[result.execution_count] = Ran(not result.success, time.time())


def staleness(attempt: Any) -> str:
    """Say why the notebook's answer isn't the one that was judged, as a clause; empty if it may well be."""
    shell, name = running_shell(), getattr(attempt, "__name__", "")
    number = cell_of(attempt, shell)
    if not number or shell.user_ns.get(name) is not attempt:
        return ""
    defines = re.compile(rf"^(async )?(def|class) {re.escape(name)}\b", re.MULTILINE)
    cells = shell.history_manager.input_hist_raw
    before = f"This is about the `{name}` that ran before"
    for later in range(number + 1, len(cells)):
        if defines.search(cells[later]) and _failed(later, shell.history_manager.input_hist_parsed[later]):
            return f"{before}: the cell that redefines it ended with an error"
    written = [source for source in _saved_behind(number, shell.user_ns) if defines.search(source)]
    if len(written) == 1 and not any(written[0].strip() == cell.strip() for cell in cells):
        return f"{before}: its cell has been changed since, and not run"
    return ""


def cell_of(attempt: Any, shell: Any) -> int | None:
    """The number of the cell in which a function or a class was defined; 0 for a function that a magic compiled."""
    parts = vars(attempt).values() if isinstance(attempt, type) else (attempt,)
    inner = (inspect.unwrap(part) for part in parts if isinstance(part, FunctionType))  # a decorator is elsewhere
    files = {part.__code__.co_filename for part in inner if isinstance(part, FunctionType)}
    known = getattr(getattr(shell, "compile", None), "_filename_map", {})
    made_otherwise = known and isinstance(attempt, FunctionType) and attempt.__module__ == "__main__"
    return max((known[file] for file in files if file in known), default=0 if made_otherwise else None)


def _failed(number: int, source: str) -> bool:
    """True if a cell is known to have failed: its run did, or its source isn't Python."""
    if number in RAN:
        return RAN[number].failed
    try:
        compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return True
    return False


def _saved_behind(number: int, names: dict[str, Any]) -> Iterator[str]:
    """The code of the notebook's file, if it was saved after this cell had run."""
    place = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    if number not in RAN or not str(place).endswith(".ipynb"):
        return
    try:
        found = Path(place).stat()
        if not RAN[number].at < found.st_mtime or found.st_size > MOST_BYTES:
            return
        cells = json.loads(Path(place).read_bytes())["cells"]
        yield from ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (OSError, ValueError, LookupError, TypeError):  # it is elsewhere, or just being written: nothing is certain
        return
