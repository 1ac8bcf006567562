"""Every claim about speed and memory: ``python -m benchmarks.NAME``; most of them: ``python -m benchmarks``.

A ratio compares two medians that were measured in one run, in turns, so that other load on the machine affects both
equally. Below 1 means that attnlib is faster, or smaller. All run on the CPU with two threads, and on a GPU if there is
one.
"""
