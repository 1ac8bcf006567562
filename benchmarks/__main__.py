"""All benchmarks of speed and memory but entering, watching and worker_memory, one after another."""

import argparse
import os

import torch

from . import (
    decoding,
    encoder_block,
    first_check,
    floor,
    grading,
    import_cost,
    multi_head_attention,
    other_seeds,
    tiled,
    weights,
)
from .measure import THREADS

argparse.ArgumentParser("python -m benchmarks", description=__doc__).parse_args()
print(f"torch {torch.__version__}, {THREADS} CPU threads, load of the machine before: {os.getloadavg()[0]:.1f}")
print("Where other work keeps the cores busy, two threads wait for each other and the ratios say little.")
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
    other_seeds,
):
    print(f"\n{benchmark.__doc__}")
    benchmark.main()
