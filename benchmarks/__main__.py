"""All benchmarks of speed and memory, one after another."""

import argparse
import os
import sys

import torch

from . import (
    decoding,
    encoder_block,
    entering,
    first_check,
    floor,
    grading,
    import_cost,
    multi_head_attention,
    other_seeds,
    tiled,
    watching,
    weights,
    worker_memory,
)
from .measure import THREADS

argparse.ArgumentParser("python -m benchmarks", description=__doc__).parse_args()
print(f"torch {torch.__version__}, {THREADS} CPU threads, load of the machine before: {os.getloadavg()[0]:.1f}")
print("Where other work keeps the cores busy, two threads wait for each other and the ratios say little.")
held = True
for benchmark in (
    multi_head_attention,
    weights,
    encoder_block,
    floor,
    tiled,
    decoding,
    import_cost,
    first_check,
    grading,
    entering,
    watching,
    worker_memory,
    other_seeds,
):
    print(f"\n{benchmark.__doc__}")
    held &= benchmark.main() is not False  # a claim that is no matter of time
sys.exit(not held)
