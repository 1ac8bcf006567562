"""`python -m attnlib lab`: the course for a learner without a clone."""

import sys

from attnlib.checks.at_home.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
