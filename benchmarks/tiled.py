"""Tiled attention: peak memory at n = 8192, its growth with n, and time at n = 4096.

"plain" is the equation in one line of PyTorch; "eager" is attnlib's own, which writes the softmax over the scores and
takes little more than half of plain's time. Not even the fused kernel needs less than half of that, so the target for
time is set against plain, and the ratios to eager are printed below it.

Memory is the peak resident set of a separate process, less what it held before; on a GPU, what PyTorch's allocator
reports. The processes' malloc returns freed tensors at once: otherwise the peak depends on which ones it keeps.
"""

import os
import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from attnlib import scaled_dot_product_attention, tiled_attention

from .measure import DEVICES, THREADS, header, medians, row, verdict

D = 64
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_TOP_PAD_": "0"}


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The equation, written the obvious way."""
    return torch.softmax(q @ k.transpose(-2, -1) / D**0.5, dim=-1) @ v


WAYS = {
    "plain": plain,
    "tiled": tiled_attention,
    "eager": lambda q, k, v: scaled_dot_product_attention(q, k, v, backend="eager"),
    "fused": lambda q, k, v: scaled_dot_product_attention(q, k, v, backend="fused"),
}


def resident() -> int:
    """Bytes in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def highest_resident() -> int:
    """The most bytes in memory since the program started.

    Not getrusage's ru_maxrss: that one starts at the size of the process that started this one.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def step(way: str, n: int, device: str) -> None:
    """One forward and backward pass."""
    q, k, v = (torch.randn(1, 1, n, D, device=device, requires_grad=True) for _ in range(3))
    WAYS[way](q, k, v).sum().backward()


def peak(way: str, n: int, device: str) -> int:
    """Run in a fresh process: the peak of one forward and backward pass, in bytes."""
    torch.set_num_threads(THREADS)
    step(way, 64, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(way, n, device)
        return torch.cuda.max_memory_allocated() - before
    before = resident()
    step(way, n, device)
    return highest_resident() - before


def measured_peak(way: str, n: int, device: str) -> int:
    """Measure the peak in a process of its own."""
    code = f"from benchmarks.tiled import peak; print(peak({way!r}, {n}, {device!r}))"
    return int(subprocess.check_output([sys.executable, "-c", code], text=True, env={**os.environ, **MALLOC}))


def main() -> None:
    """Measure the peak memory of every way."""
    for device in DEVICES:
        header(f"{device}, one head, d = {D}, forward and backward", "peak memory", *[f"{way} MB" for way in WAYS])
        peaks = {n: {way: measured_peak(way, n, device) for way in WAYS} for n in (4096, 8192)}
        peaks |= {n: {"tiled": measured_peak("tiled", n, device)} for n in (16384, 32768)}
        for n, values in peaks.items():
            row(f"n = {n}", *[values[way] / 1e6 if way in values else "" for way in WAYS])
        verdict("tiled / eager at 8192", peaks[8192]["tiled"] / peaks[8192]["eager"], 0.1)
        for n in (16384, 32768):
            verdict(f"growth of tiled from {n // 2} to {n}", peaks[n]["tiled"] / peaks[n // 2]["tiled"], 2.0)

        q, k, v = (torch.randn(1, 1, 4096, D, device=device) for _ in range(3))
        times = medians({way: partial(f, q, k, v) for way, f in WAYS.items()}, device, budget=10.0)
        header(f"{device}, one head, n = 4096, forward", "", *[f"{way} ms" for way in WAYS])
        row("time", *[times[way] * 1e3 for way in WAYS])
        row("against plain", *[times[way] / times["plain"] for way in WAYS])
        verdict("tiled / plain", times["tiled"] / times["plain"], 0.5)
        row("tiled / eager", times["tiled"] / times["eager"])
        row("fused / eager", times["fused"] / times["eager"])


if __name__ == "__main__":
    main()
