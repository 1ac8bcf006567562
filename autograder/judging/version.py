"""Which checks judge: a digest of the files that verdicts depend on."""

import functools
import hashlib
from pathlib import Path

import attnlib


@functools.cache
def version_of_the_checks() -> str:
    """A digest of attnlib and its checks; entries of an earlier version are judged anew."""
    folder = Path(attnlib.__path__[0])
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        state.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return state.hexdigest()
