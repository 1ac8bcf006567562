import subprocess
import sys

MEASURE = """
import time
import torch
start = time.process_time()
import attnlib
print(time.process_time() - start)  # a loaded machine makes it no larger
"""

LOADED = """
import sys
import torch
import attnlib
print([name for name in ("matplotlib", "attnlib.checks", "nbgrader", "autograder", "notebook") if name in sys.modules])
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_costs_at_most_50_ms_beyond_torch():
    assert min(float(run(MEASURE)) for _ in range(3)) <= 0.050


def test_importing_loads_neither_plots_nor_anything_of_the_course():
    assert run(LOADED) == "[]"
