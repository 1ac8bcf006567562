"""Find where packages are installed: code there is not the learner's own."""

import os
import sys
import sysconfig
from pathlib import Path


def _holds_packages(folder: Path) -> bool:
    """True if pip has installed packages there, with `--target` for example; never for the notebook's own folder."""
    try:
        return folder.is_absolute() and not folder.samefile(os.curdir) and any(folder.glob("*.dist-info"))
    except OSError:
        return False


INSTALLED = (
    "site-packages",
    "dist-packages",
    *(f"{folder}{os.sep}" for folder in map(Path, sys.path) if _holds_packages(folder)),
)
"""Parts of a path that mark the file as an installed package's."""
HERE = str(Path(__file__).parents[1].absolute())
LIBRARIES = (*INSTALLED, "/attnlib/", "<frozen", HERE, sysconfig.get_path("stdlib"))
"""Parts of a path that mark a file as no code of the learner's own."""
