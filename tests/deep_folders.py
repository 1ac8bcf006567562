"""Folders within folders: so many that no path names the last, and that shutil.rmtree, which recurses, fails on them.

Whoever makes some has to remove them: pytest keeps the folders of three runs, and then fails in every later one.
"""

import os
import subprocess
from pathlib import Path


def nest(folder: Path, depth: int, name: str = "deeper") -> None:
    """Make them below `folder`; the last one holds a file."""
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        inner = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep."""
    subprocess.run(["rm", "-rf", folder], check=True)


def too_deep(folder: Path, most: int = 500) -> Path | None:
    """A folder that is nested so deep below `folder` that rmtree could fail on it, if there is one."""
    left = [(folder, 0)]
    while left:
        here, depth = left.pop()
        if depth > most:
            return here
        if os.access(here, os.R_OK | os.X_OK):
            left += [(Path(each), depth + 1) for each in os.scandir(here) if each.is_dir(follow_symlinks=False)]
    return None
