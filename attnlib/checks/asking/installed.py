"""Where installed packages lie: what stands there is not the learner's own code."""

import os
import sys
from pathlib import Path


def _holds_packages(folder: Path) -> bool:
    """Whether pip has put packages there, by `--target` say; never the notebook's own folder."""
    try:
        return folder.is_absolute() and not folder.samefile(os.curdir) and any(folder.glob("*.dist-info"))
    except OSError:
        return False


INSTALLED = (
    "site-packages",
    "dist-packages",
    *(f"{folder}{os.sep}" for folder in map(Path, sys.path) if _holds_packages(folder)),
)
"""Parts of the paths of files that an installed package has brought."""
