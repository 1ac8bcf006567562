"""One case: what was expected, what was received, and where the two first differ."""
