"""`python -m attnlib lab`, `update` and `status`."""

import argparse
from pathlib import Path

from attnlib.checks.at_home.lessons import FOLDER, CannotOpen, open_lab, update
from attnlib.checks.standing.progress import progress

COMMANDS = ("lab", "update", "status")


def main(arguments: list[str]) -> int | str:
    """Run one of the commands; return its exit status, or what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m attnlib")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in (
        ("lab", "copy any missing notebooks into a folder, and open JupyterLab"),
        ("update", "update a folder's notebooks to this version; what you wrote stays"),
    ):
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("folder", nargs="?", type=Path, default=Path(FOLDER), help=f"by default {FOLDER}")
    commands.add_parser("status", help="what is passed, the points, and the next step")
    commands.add_parser("practice", help="find the bug, in a terminal")  # `practising.terminal` has its options
    chosen, options = parser.parse_known_args(arguments)
    if options and chosen.command != "lab":
        parser.error(f"unrecognized arguments: {' '.join(options)}")
    try:
        if chosen.command == "lab":
            return open_lab(chosen.folder, options)
        print(progress(terminal=True) if chosen.command == "status" else "\n".join(update(chosen.folder)))
    except CannotOpen as error:
        return str(error)
    except OSError as error:
        return f"{error.filename} cannot be used ({error.strerror})."
    return 0
