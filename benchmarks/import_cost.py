"""The cost of `import attnlib` beyond `import torch`: `python -m benchmarks.import_cost`.

The median processor time of nine fresh processes, each of which has already imported torch. The test suite does not
measure it; `tests/test_import_cost.py` looks at which modules are loaded.
"""

import statistics
import subprocess
import sys

from .measure import header, row, verdict

TURNS = 9
MEASURE = """
import time
started = time.process_time()
import torch
between = time.process_time()
import attnlib
print(between - started, time.process_time() - between)
"""


def measured() -> tuple[float, float]:
    """Seconds for torch, and for attnlib after it."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    torch, attnlib = map(float, done.stdout.split())
    return torch, attnlib


def main() -> None:
    """Time the imports of torch, and of attnlib after it."""
    torch, attnlib = (statistics.median(times) for times in zip(*(measured() for _ in range(TURNS)), strict=True))
    header("importing, processor time", "torch ms", "attnlib ms", "share")
    row("", 1000 * torch, 1000 * attnlib, attnlib / torch)
    verdict("attnlib after torch, ms", 1000 * attnlib, 50.0)


if __name__ == "__main__":
    main()
