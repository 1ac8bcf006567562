"""`python -m attnlib`, or `attnlib`: the course for a learner without a clone, and practice without Jupyter."""

import io
import sys

from attnlib.checks.at_home import command
from attnlib.checks.practising import terminal


def main() -> int | str:
    """Run the command that the shell names; return its exit status, or what went wrong."""
    named = sys.argv[1:]
    for stream in (sys.stdout, sys.stderr):  # Windows writes into a pipe or a file in an encoding without a ✓
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    return terminal.main(named[1:]) if named[:1] == ["practice"] else command.main(named)


if __name__ == "__main__":
    sys.exit(main())
