"""The cost of a check for a student: `python -m benchmarks.first_check [another checkout to compare with]`.

The processor time after `import torch`, in a fresh process each time and with the checkouts in turns: for the first
check, imports included, and then for the same check of a right answer and of a wrong one.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

from .measure import header, row, verdict

TURNS = 9
HERE = str(Path(__file__).parent.parent)
MEASURE = """
import time, torch
torch.set_num_threads(1)
def seconds(f):
    start = time.process_time()
    f()
    return time.process_time() - start
def first():
    from attnlib.checks import run
    assert run("attention_scores", lambda q, k: q @ k.mT * q.shape[-1] ** -0.5).passed
print(seconds(first))
from attnlib.checks import run
for factor in (-0.5, -1.0):
    f = lambda: run("attention_scores", lambda q, k: q @ k.mT * q.shape[-1] ** factor)
    f()
    print(min(seconds(f) for _ in range(5)))
"""


def measured(checkout: str) -> list[float]:
    """Milliseconds: the first check, a later one of a right answer, a later one of a wrong answer."""
    environment = {**os.environ, "PYTHONPATH": checkout}
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=checkout)
    return [1000 * float(line) for line in done.stdout.split()]


def main(checkouts: list[str] | None = None) -> None:
    """Print the table, with a line for each checkout."""
    checkouts = [HERE, *(checkouts or [])]
    found = [[measured(checkout) for checkout in checkouts] for _ in range(TURNS)]
    header("a check, processor time in ms", "first", "right", "wrong")
    for i, checkout in enumerate(checkouts):
        row(checkout if i else "here", *(statistics.median(turn[i][j] for turn in found) for j in range(3)))
    verdict("the first check in a fresh kernel, ms", statistics.median(turn[0][0] for turn in found), 500.0)


if __name__ == "__main__":
    main(sys.argv[1:])
