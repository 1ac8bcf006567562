"""The figures of an item analysis that go beyond counts."""

import math
import statistics
from collections.abc import Sequence

Z = statistics.NormalDist().inv_cdf(0.975)
SMALLEST_CLASS = 20
SMALLEST_GROUP = 3


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927), which stays within 0 and 1 and is honest for small classes.

    >>> [round(end, 3) for end in wilson(8, 10)]
    [0.49, 0.943]
    """
    centre = (successes + Z * Z / 2) / (trials + Z * Z)
    half = Z / (trials + Z * Z) * math.sqrt(successes * (trials - successes) / trials + Z * Z / 4)
    return max(0.0, centre - half), min(1.0, centre + half)


def discrimination(passed: Sequence[bool], rest: Sequence[float]) -> float | None:
    """Correlation of passing an exercise with the points in the rest of the lesson (corrected point-biserial).

    None, not applicable: fewer than 20 submissions, fewer than 3 that passed or that did not, or the same rest for all.
    """
    right = sum(passed)
    if len(passed) < SMALLEST_CLASS or min(right, len(passed) - right) < SMALLEST_GROUP or len(set(rest)) == 1:
        return None
    return statistics.correlation([float(p) for p in passed], rest)


def chance(submissions: int) -> float | None:
    """Return the correlation that chance reaches in 1 of 20 classes of that size, None if none is computed."""
    return Z / math.sqrt(submissions - 1) if submissions >= SMALLEST_CLASS else None
