"""Judge many submissions on a Dask cluster, whose machines see neither the course nor each other's files."""

import multiprocessing
import platform
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from attnlib.checks.asking.time_limits import here
from autograder.grading.certificates import Certificates, check_address
from autograder.grading.workers import ATTEMPTS, Crew
from autograder.judging.submission import Judged, Task
from autograder.judging.version import version_of_the_grader
from autograder.sandbox.layers import Layers
from autograder.showing.errors import CourseError, first_line
from autograder.showing.text import printable

GONE = "The cluster's scheduler is gone. What was entered is kept: start it, and run this again."
HELD = 3
"""The tasks that are sent for each worker, so that none waits for its next one."""


class Cluster:
    """The workers of a Dask cluster, found by the address of its scheduler; each has a sandbox of its own.

    They need this project installed, in the same version, and no shared disk. A worker that is lost costs nothing: its
    tasks are given to another. Dask sends Python's pickles, which run code: at a tls:// address the scheduler, the
    workers and this program believe nobody who does not show a certificate of the same authority.
    """

    def __init__(self, address: str, shown: Certificates | None = None) -> None:
        check_address(address, shown)
        try:
            from distributed import Client
        except ImportError:
            raise CourseError("--scheduler needs Dask: pip install 'attnlib[cluster]'") from None
        try:
            security = None if shown is None else shown.security()
            self.client = Client(address, timeout=here().scheduler_wall, security=security)
        except (OSError, TimeoutError, ValueError) as error:
            raise CourseError(f"No Dask scheduler answers at {address}: {first_line(error)}") from None

    @property
    def size(self) -> int:
        """The workers that are there now; at least 1, since what waits for the first of them is given to none."""
        try:
            threads: dict[str, int] = self.client.nthreads()
        except OSError:
            raise CourseError(GONE) from None
        return max(1, sum(threads.values()))

    def get_ready(self, layers: Layers | None) -> None:
        """Do nothing: each worker's sandbox starts with its first task."""

    def judge(self, tasks: Iterable[Task], layers: Layers | None) -> Iterator[list[Judged]]:
        """Judge the tasks; yields what ended while the last of it was entered."""
        from distributed import as_completed

        waiting, by_key, version = iter(tasks), {}, version_of_the_grader()

        def submit() -> list[Any]:
            task = next(waiting, None)
            if task is None:
                return []
            future = self.client.submit(judge_on_worker, task, layers, version, pure=False, retries=ATTEMPTS)
            by_key[future.key] = task
            return [future]

        running = as_completed([future for _ in range(HELD * self.size) for future in submit()])
        for batch in running.batches():
            yield [_outcome(future, by_key.pop(future.key)) for future in batch]
            for more in [future for _ in batch for future in submit()]:
                running.add(more)

    def close(self) -> None:
        """Leave the cluster, which drops what was submitted and is not judged."""
        self.client.close()


def _outcome(future: Any, task: Task) -> Judged:
    if future.cancelled():  # as all are when the connection is lost
        raise CourseError(GONE)
    try:
        judged: Judged = future.result()  # if it was lost with its worker meanwhile, waits until it is there again
        return judged
    except Exception as error:
        problem = f"the cluster gave it up: {first_line(error)}"
    return Judged(task.student, task.lesson, problem=printable(problem), fault=problem)


ONE_AT_A_TIME = threading.Lock()


@cache
def _crew() -> Crew:
    """This worker's one process for judging, which is ended from here if it doesn't end by itself.

    Dask calls in threads, beside which nothing should be forked, and by default in a process that may have no children.
    """
    multiprocessing.current_process().daemon = False
    return Crew(1, "spawn")


def judge_on_worker(task: Task, layers: Layers | None, version: str) -> Judged:
    """Judge on a cluster's worker, behind the layers that its machine offers; its threads take turns.

    A verdict is entered as one of the grader's own version, so no other version gives any.
    """
    if version != version_of_the_grader():
        problem = f"the worker on {platform.node()} has another version of the course, of a library or of Python"
        return Judged(task.student, task.lesson, problem=printable(problem), fault=problem)
    with ONE_AT_A_TIME:
        ((judged,),) = _crew().judge([task], layers)
        return judged
