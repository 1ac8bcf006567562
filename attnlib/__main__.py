"""`python -m attnlib`: the course for a learner without a clone, and practice without Jupyter."""

import sys

from attnlib.checks.at_home import command
from attnlib.checks.practising import terminal

if __name__ == "__main__":
    main = terminal.main if sys.argv[1:2] == ["practice"] else command.main
    sys.exit(main(sys.argv[2:] if main is terminal.main else sys.argv[1:]))
