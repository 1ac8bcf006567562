"""Answers as IPython holds them: the source of a cell is in linecache, under the name of no file."""

import linecache
from typing import Any


def run_cell(source: str, names: dict[str, Any], path: str = "<a cell of a notebook>") -> dict[str, Any]:
    """Run a cell among the names that the notebook already has; returns all names that there are afterwards."""
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    found = {"__name__": "__main__", **names}
    exec(compile(source, path, "exec"), found)
    return found
