"""Judge many submissions side by side in processes of this machine, each of which is killed if it doesn't end."""

import gc
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.util import Finalize

from attnlib.checks.asking import confine
from attnlib.checks.asking.time_limits import here
from autograder.judging.intake.bounded import bound_memory
from autograder.judging.submission import Judged, Task, close_sandboxes, get_ready, judge_task
from autograder.sandbox.layers import Layers

METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
HELD = 2
"""The tasks of a worker: one being judged, one waiting."""
LOOK_SECONDS = 10.0
ATTEMPTS = 3
"""The most tries for a task whose worker died."""


class Worker:
    """One process that judges one task after the other; a second task waits, so that it is never idle."""

    def __init__(self, method: str = METHOD) -> None:
        self.held: deque[tuple[Future[Judged], Task, int]] = deque()
        self.method = method
        self.pool = _pool(method)
        self.began = time.monotonic()
        self.overdue = False

    def get_ready(self, layers: Layers | None) -> None:
        """Let the process start its sandbox; where that can't be done, the first task says so."""
        self.pool.submit(get_ready, layers)

    def give(self, task: Task, layers: Layers | None, attempt: int) -> None:
        """Add a task; `attempt` counts from 1."""
        try:
            future = self.pool.submit(judge_task, task, layers)
        except BrokenProcessPool as error:  # it died since the last look: `is_dead` will say so
            future = Future()
            future.set_exception(error)
        if not self.held:
            self.began = time.monotonic()
        self.held.append((future, task, attempt))

    def take(self) -> Iterator[Judged]:
        """Yield the finished judgements, in order."""
        while self.held and self.held[0][0].done() and not self.is_dead:
            future, task, _ = self.held.popleft()
            self.began, self.overdue = time.monotonic(), False
            error = future.exception()  # no sandbox, or a result that could not be sent
            yield future.result() if error is None else Judged.failed(task.student, task.lesson, error)

    @property
    def is_dead(self) -> bool:
        """True if the process died while judging its task."""
        if not self.held or not self.held[0][0].done():
            return False
        return isinstance(self.held[0][0].exception(), BrokenProcessPool)

    def end_if_overdue(self, seconds: float) -> None:
        """Kill the process if one task took it this long: its budget was not enforced, and nothing else bounds it."""
        if self.held and time.monotonic() - self.began > seconds:
            self.overdue = True
            self._kill()

    def revive(self) -> list[tuple[Task, int]]:
        """Start a new process; return the old one's tasks, of which only the first was being judged.

        A task that didn't end is not tried again.
        """
        more = ATTEMPTS if self.overdue else 1
        left = [(task, attempt + (more if place == 0 else 0)) for place, (_, task, attempt) in enumerate(self.held)]
        self.held.clear()
        self.overdue = False
        self.pool.shutdown(wait=False)
        self.pool = _pool(self.method)
        return left

    def end(self) -> None:
        """End the process: at once if it is still judging, else when it has closed its sandbox."""
        if self.held:
            self._kill()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _kill(self) -> None:
        for process in list((getattr(self.pool, "_processes", None) or {}).values()):
            process.kill()  # its sandbox dies with it


class Crew:
    """Workers that judge side by side, in the order in which they end.

    Few tasks are held at a time. Where a worker dies, which no student code should be able to cause, its submission is
    given to another; where one does not come to an end, it is not. No other submission is concerned.
    """

    def __init__(self, size: int, method: str = METHOD) -> None:
        if method == "fork":
            gc.collect()
            gc.freeze()  # a collection in a worker would touch, and so copy, every page that it shares with us
        self.size = size
        self.workers = [Worker(method) for _ in range(size)]

    def get_ready(self, layers: Layers | None) -> None:
        """Let all workers start their sandboxes, without waiting for them."""
        for worker in self.workers:
            worker.get_ready(layers)

    def judge(self, tasks: Iterable[Task], layers: Layers | None) -> Iterator[list[Judged]]:
        """Judge the tasks behind the given layers, or else the strongest that work; yields what has ended since."""
        waiting = iter(tasks)
        again: list[tuple[Task, int]] = []
        while True:
            for place in range(HELD):
                for worker in self.workers:
                    if len(worker.held) == place and (found := again.pop() if again else _first_attempt(waiting)):
                        worker.give(found[0], layers, found[1])
            futures = [held[0] for worker in self.workers for held in worker.held]
            if not futures:
                return
            wait(futures, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            done: list[Judged] = []
            for worker in self.workers:
                done += worker.take()
                worker.end_if_overdue(longest())
                why = "did not come to an end" if worker.overdue else f"died {ATTEMPTS} times"
                for task, attempt in worker.revive() if worker.is_dead else []:
                    if attempt <= ATTEMPTS:
                        again.append((task, attempt))
                    else:
                        problem = f"the grader's process {why}"
                        done.append(Judged(task.student, task.lesson, problem=problem, fault=problem))
            if done:
                yield done

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self.workers:
            worker.end()


def longest() -> float:
    """The seconds after which a worker on one submission must be stuck: its budget is half of that."""
    return 2 * here().submission_wall


def _first_attempt(waiting: Iterator[Task]) -> tuple[Task, int] | None:
    task = next(waiting, None)
    return None if task is None else (task, 1)


def _pool(method: str) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context(method), initializer=_begin, initargs=(os.getpid(),))


def _begin(grader: int) -> None:
    """End the worker with the grader, even if that is killed; and compute with one thread."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the grader, which ends its workers
    if confine.seccomp_works():
        confine.die_with_parent()
        if os.getppid() != grader:  # the grader was killed before the kernel was told
            os._exit(1)
    Finalize(None, close_sandboxes, exitpriority=1)
    torch.set_num_threads(1)
    bound_memory()
