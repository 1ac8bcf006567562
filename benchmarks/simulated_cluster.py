"""A simulated cluster that judges and a writer that enters: stand-ins that take the times they are given."""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Simulated:
    """A run: how long it took, how large its batches were, and the share of their time that workers had no task."""

    seconds: float
    batch: float
    idle: float


def simulate(
    submissions: int,
    *,
    workers: int,
    seconds: list[tuple[float, float]],
    batch: Callable[[int], float],
    most: int,
    held: int = 3,
    seed: int = 0,
) -> Simulated:
    """Judge and enter `submissions`: `seconds` has (share, seconds of judging) of each kind.

    The writer takes up to `most` of what is judged, in `batch(size)` seconds. As in `Cluster.judge`, `held` tasks
    for each worker are under way, entering included, and the next are given out when a batch has been entered.

    >>> simulate(100, workers=2, seconds=[(1.0, 1.0)], batch=lambda size: 0.001, most=10).seconds
    50.001
    >>> simulate(100, workers=50, seconds=[(1.0, 1.0)], batch=lambda size: float(size), most=10).seconds
    101.0
    """
    kinds = random.Random(seed).choices([s for _, s in seconds], [share for share, _ in seconds], k=submissions)
    todo = deque(kinds)
    waiting = deque(todo.popleft() for _ in range(min(held * workers, submissions)))
    ends: list[float] = []
    judged: deque[float] = deque()
    idle = [0.0] * workers
    """When each idle worker last finished a task."""
    lost = worked = now = 0.0
    batches = entered = 0

    def start(at: float) -> None:
        nonlocal lost, worked
        while idle and waiting:
            task = waiting.popleft()
            lost += at - idle.pop()
            worked += task
            heapq.heappush(ends, at + task)

    def finish(until: float) -> None:
        while ends and ends[0] <= until:
            judged.append(heapq.heappop(ends))
            idle.append(judged[-1])
            start(judged[-1])

    start(0.0)
    while entered < submissions:
        now = now if judged else max(now, ends[0])
        finish(now)
        size = min(most, len(judged))
        now += batch(size)
        finish(now)
        for _ in range(size):
            judged.popleft()
            if todo:
                waiting.append(todo.popleft())
        entered, batches = entered + size, batches + 1
        start(now)
    return Simulated(now, submissions / batches, lost / (lost + worked))
