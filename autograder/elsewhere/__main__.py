"""`python -m autograder.elsewhere PLATFORM SUBMISSION RESULTS`: what a package's run script calls."""

import sys
from pathlib import Path

from autograder.elsewhere import github, gradescope, prairielearn
from autograder.showing.errors import CourseError

PLATFORMS = {"gradescope": gradescope.run, "github": github.run, "prairielearn": prairielearn.run}


def main(arguments: list[str]) -> str | None:
    """Grade one submission; returns what went wrong, in one sentence."""
    if len(arguments) != 3 or arguments[0] not in PLATFORMS:
        return f"usage: python -m autograder.elsewhere {{{','.join(PLATFORMS)}}} SUBMISSION RESULTS"
    platform, submission, results = arguments
    try:
        Path(results).unlink(missing_ok=True)  # drops an earlier run's results
        PLATFORMS[platform](Path(submission), Path(results))
    except CourseError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename} cannot be used: {error.strerror}."
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
