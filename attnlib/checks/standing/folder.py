"""Find the learner's own package: `my_attention/`, beside the notebooks."""

import os
from datetime import date
from pathlib import Path

from attnlib.checks.standing.kept import PLACE as PROGRESS
from attnlib.checks.standing.kept import in_a_notebook, running_shell
from attnlib.checks.standing.kept import shown as shown_in_full

PLACE = "ATTNLIB_MY_ATTENTION"
"""The environment variable that names another folder; if it is empty, no code and no weights are kept."""
NAME = "my_attention"


def own_folder() -> Path | None:
    """Return the package's folder, which may not exist yet; None if nothing is kept or read.

    That is outside of notebooks, while nbgrader runs one, and where the learner said no: of code by `PLACE`, of
    anything by `ATTNLIB_PROGRESS`.
    """
    chosen = os.environ.get(PLACE)
    if is_off() or chosen == "":
        return None
    if chosen is not None:
        return Path(chosen).expanduser()
    return beside_the_notebook() / NAME if in_a_notebook() else None


def is_off() -> bool:
    """True if nothing at all is kept: nbgrader runs the notebook, or `ATTNLIB_PROGRESS` is empty."""
    return "NBGRADER_EXECUTION" in os.environ or os.environ.get(PROGRESS) == ""


def beside_the_notebook() -> Path:
    """Return the notebook's folder, from VS Code or Jupyter, or else where the kernel was started (as on Colab)."""
    shell = running_shell()
    for place in (shell.user_ns.get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME")):
        notebook = Path(str(place))
        if notebook.suffix == ".ipynb" and notebook.is_absolute() and notebook.parent.is_dir():
            return notebook.parent
    return Path(shell.starting_dir)


def shown(path: Path) -> str:
    """Return the path as a reader of the notebook sees it: `my_attention/…` if it is beside the notebook."""
    if os.environ.get(PLACE) is None and NAME in path.parts:
        return "/".join(path.parts[len(path.parts) - 1 - path.parts[::-1].index(NAME) :])
    return shown_in_full(path)


def day(when: date) -> str:
    """A date as people write it.

    >>> day(date(2026, 11, 2))
    '2 November 2026'
    """
    return f"{when.day} {when:%B %Y}"
