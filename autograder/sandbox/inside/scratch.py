"""A child's scratch folder: count its content while the child lives, and remove it, however deep, however locked.

A student's code chooses names, modes and depth. So nothing here recurses without a bound, follows a link, or builds a
path: folders are opened one from another.
"""

import os
from dataclasses import dataclass

MOST_FILES = 10_000
MOST_DEPTH = 32
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Content:
    """A folder's bytes and files, counted to just beyond `MOST_FILES`; `odd` is something no honest code does."""

    bytes: int = 0
    files: int = 0
    odd: str = ""


def look_into(top: str) -> Content:
    """Count what a child has written, as far as files have names; it may go on writing meanwhile."""
    found = Content()
    try:
        _count(os.open(top, FOLDER), 0, found)
    except PermissionError:
        found.odd = "locked its own folder"
    return found


def _count(folder: int, depth: int, found: Content) -> None:
    """Add the content of an open folder, and close it."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.files += 1
                if found.files > MOST_FILES or found.odd:
                    return
                try:
                    found.bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    inner = os.open(entry.name, FOLDER, dir_fd=folder)
                except PermissionError:
                    found.odd = "made a folder that nobody can look into"
                    return
                except OSError:  # removed, or replaced by something else, since it was listed
                    continue
                if depth == MOST_DEPTH:
                    os.close(inner)
                    found.odd = f"nested more than {MOST_DEPTH} folders"
                    return
                _count(inner, depth + 1, found)
    finally:
        os.close(folder)


def clear(top: str) -> None:
    """Remove all that a folder holds; raises OSError if anything stays. Nobody may be writing there any more."""
    here = os.open(top, FOLDER)
    left = [_without_files(here)]  # at each depth, the folders that are still to be removed
    try:
        while left:
            if left[-1]:
                here = _replaced(here, _unlocked(left[-1][-1], here))
                left.append(_without_files(here))
                continue
            left.pop()
            if left:
                here = _replaced(here, os.open("..", FOLDER, dir_fd=here))
                os.rmdir(left[-1].pop(), dir_fd=here)
    finally:
        os.close(here)


def _unlocked(name: str, folder: int) -> int:
    """Open a folder in an open folder, and give its owner all rights to it; no link is followed."""
    try:
        inner = os.open(name, FOLDER, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, os.O_PATH | FOLDER, dir_fd=folder)
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
        os.close(handle)
        inner = os.open(name, FOLDER, dir_fd=folder)
    if os.fstat(inner).st_mode & 0o700 != 0o700:
        os.fchmod(inner, 0o700)
    return inner


def _replaced(before: int, now: int) -> int:
    os.close(before)
    return now


def _without_files(folder: int) -> list[str]:
    """Remove all but folders, and return the names of those."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders
