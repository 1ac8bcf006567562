"""Medians of turns, ratios of medians, and tables with the targets beside them."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

THREADS = 2
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def seconds(function: Callable[[], object], device: str) -> float:
    """Return the seconds one call takes, until the device has finished it."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def medians(
    functions: dict[str, Callable[[], object]], device: str = "cpu", *, budget: float = 4.0, turns: int | None = None
) -> dict[str, float]:
    """The median time of each function, measured in turns: at least 5, at most ``turns``, within ``budget`` seconds.

    A GPU gets 400 turns instead of 40: its calls are short, and its clocks and the caches need some to warm up.
    """
    turns = turns or (400 if device == "cuda" else 40)
    torch.set_num_threads(THREADS)
    names = list(functions)
    for name in names:
        functions[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for turn in range(turns):
        for name in names if turn % 2 else reversed(names):
            times[name].append(seconds(functions[name], device))
        if turn >= 4 and time.perf_counter() - start > budget:
            break
    return {name: statistics.median(values) for name, values in times.items()}


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios."""
    return math.exp(sum(map(math.log, values)) / len(values))


def header(title: str, *columns: str) -> None:
    """Print a title and the names of columns."""
    print(f"\n{title}")
    print("  ".join(f"{column:>12}" if i else f"{column:<44}" for i, column in enumerate(columns)))


def row(name: str, *values: float | str) -> None:
    """Print one line of a table."""
    cells = [f"{value:>12.3f}" if isinstance(value, float) else f"{value:>12}" for value in values]
    print("  ".join([f"{name:<44}", *cells]), flush=True)


def verdict(name: str, value: float, target: float, *, at_least: bool = False) -> bool:
    """Print a value beside its target."""
    met = value >= target if at_least else value <= target
    sign = ">=" if at_least else "<="
    print(f"{name:<44}  {value:>12.3f}  target {sign} {target:g}: {'met' if met else 'NOT MET'}", flush=True)
    return met
