"""Every claim about speed and memory, one command each: ``python -m benchmarks.NAME``, or ``python -m benchmarks``.

A ratio compares two medians that were measured in one run, turn by turn, so that whatever else the machine does meets
both alike. Below 1 means that attnlib is faster, or smaller. On the CPU with two threads; on a GPU where there is one.
"""
