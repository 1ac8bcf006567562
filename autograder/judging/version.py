"""The grader's version: a digest of the program that verdicts depend on, and of the libraries that compute them."""

import functools
import hashlib
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import attnlib
import autograder
from attnlib.checks import course

PARTS = ("judging", "lesson_text", "sandbox", "showing")
"""The rooms that make a verdict; a repair in any other room changes none."""
LIBRARIES = ("einops", "ipython", "matplotlib", "nbformat", "nbgrader", "numpy", "scikit-learn", "torch")


@functools.cache
def version_of_the_grader() -> str:
    """A digest of attnlib, its checks, lessons of others, the judging parts and the libraries' versions."""
    library, grader = Path(attnlib.__path__[0]), Path(autograder.__path__[0])
    return digest_of_program([library, *(grader / part for part in PARTS), *course.OTHERS])


def is_up_to_date() -> bool:
    """True if the program on disk is still the one that `version_of_the_grader` read first."""
    return version_of_the_grader.__wrapped__() == version_of_the_grader()


def digest_of_program(folders: Iterable[Path]) -> str:
    """A digest of the files of these folders, Python's version and the libraries'."""
    state = hashlib.sha256(platform.python_version().encode())
    for name in LIBRARIES:
        state.update(f"\n{name} {_version(name)}".encode())
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            state.update(f"\n{folder.name}/{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return state.hexdigest()


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"
