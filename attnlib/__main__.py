"""`python -m attnlib practice`: the course's commands for a learner without Jupyter."""

import sys

from attnlib.checks.practising.terminal import main

USAGE = "Required is `python -m attnlib practice`, got: {}. `python -m attnlib practice --help` lists its options."

if __name__ == "__main__":
    command, arguments = sys.argv[1:2], sys.argv[2:]
    if command != ["practice"]:
        sys.exit(USAGE.format(" ".join(command) or "nothing"))
    sys.exit(main(arguments))
