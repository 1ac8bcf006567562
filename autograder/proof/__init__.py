"""The proof that the checks can be trusted: `python -m autograder checks`."""
