"""Judging many submissions side by side, in processes of this machine or on a Dask cluster. Tasks carry their data."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.util import Finalize
from typing import Any

import nbformat

from attnlib.checks.asking.time_limits import here
from autograder.grading.certificates import Certificates, check_address
from autograder.grading.custody import take_in
from autograder.judging.budget import OutOfTime
from autograder.judging.judge import Judge, settle, write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import to_text
from autograder.sandbox.inside import confine
from autograder.sandbox.layers import Layers
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import CourseError, first_line, reason_of, trace_of
from autograder.showing.text import printable

HELD = 2  # so many tasks has a worker: one that it judges, one that waits
LOOK_SECONDS = 10.0
ATTEMPTS = 3  # a task whose worker dies under it is tried again so often


@dataclass(frozen=True)
class Task:
    """One submission, with all that judging it needs."""

    student: str
    lesson: str
    source: str
    files: dict[str, bytes]
    seed: int = 0


@dataclass(frozen=True)
class Judged:
    """The outcome of a task: the graded notebook and the points of its tests, or why there are none."""

    student: str
    lesson: str
    problem: str | None = None
    remarks: tuple[str, ...] = ()
    notebook: str = ""
    points: dict[str, float] = field(default_factory=dict)
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    unanswered: tuple[str, ...] = ()
    memory: int = 0
    """The most bytes that a student's process has held in this worker so far."""
    seconds: float = 0.0
    fault: str = ""
    """The traceback, where it is the grader's own fault that there are no points."""
    passing: bool = False
    """Whether there are no points for a reason that may not be there in the next run."""

    @classmethod
    def failed(cls, student: str, lesson: str, error: BaseException) -> "Judged":
        """No points, for a reason: the submission's own if the error is NotGraded, else a fault of the grader's."""
        problem, passing = printable(reason_of(error)), isinstance(error, OutOfTime)
        return cls(student, lesson, problem=problem, fault=trace_of(error), passing=passing)


@cache
def _assignment(lesson: str, source: str) -> Assignment:
    return Assignment(lesson, nbformat.reads(source, as_version=4))


SANDBOXES: dict[tuple[int, Layers], Sandbox] = {}


def _sandbox(layers: Layers) -> Sandbox:
    """This process's own sandbox: one that was forked with its connections would answer to two."""
    return SANDBOXES.setdefault((os.getpid(), layers), Sandbox(layers))


@cache
def _judge(sandbox: Sandbox, seed: int) -> Judge:
    return Judge(sandbox, seed)


def _close_sandboxes() -> None:
    for (owner, _), sandbox in SANDBOXES.items():
        if owner == os.getpid():
            sandbox.close()


def judge_task(task: Task, layers: Layers) -> Judged:
    """Judge one submission in this process's sandbox; whatever keeps it from being judged becomes its reason."""
    try:
        return _judged(task, layers)
    except (KeyboardInterrupt, CourseError):  # the person's, and there is no sandbox or no such lesson
        raise
    except BaseException as error:  # a library may raise anything, SystemExit too
        return Judged.failed(task.student, task.lesson, error)


def _judged(task: Task, layers: Layers) -> Judged:
    began = time.monotonic()
    assignment = _assignment(task.lesson, task.source)
    taken = take_in(task.files, task.lesson, assignment.released)
    settled = settle(taken.notebook, assignment)
    verdicts = _judge(_sandbox(layers), task.seed).verdicts(settled, assignment, beside=taken.beside)
    return Judged(
        task.student,
        task.lesson,
        remarks=taken.remarks,
        notebook=to_text(write_verdicts(settled, verdicts)),
        points={verdict.question.test: verdict.points for verdict in verdicts},
        reports={verdict.question.test: verdict.report.as_record() for verdict in verdicts},
        unanswered=tuple(v.question.answer for v in verdicts if not v.answered and v.question.answer),
        memory=_sandbox(layers).most_memory,
        seconds=time.monotonic() - began,
    )


class Worker:
    """One process that judges one task after the other; a second task waits, so that it is never idle."""

    def __init__(self) -> None:
        self.held: deque[tuple[Future[Judged], Task, int]] = deque()
        self.pool = _pool()
        self.began = time.monotonic()
        self.overdue = False

    def give(self, task: Task, layers: Layers, attempt: int) -> None:
        """Add a task; `attempt` counts from 1."""
        try:
            future = self.pool.submit(_safely, task, layers)
        except BrokenProcessPool as error:  # it died since it was last looked at: `is_dead` tells
            future = Future()
            future.set_exception(error)
        if not self.held:
            self.began = time.monotonic()
        self.held.append((future, task, attempt))

    def take(self) -> Iterator[Judged]:
        """What is done, in order."""
        while self.held and self.held[0][0].done() and not self.is_dead:
            future, task, _ = self.held.popleft()
            self.began, self.overdue = time.monotonic(), False
            error = future.exception()  # what it told could not even be sent
            yield future.result() if error is None else Judged.failed(task.student, task.lesson, error)

    @property
    def is_dead(self) -> bool:
        """Whether the process died under the task that it was judging."""
        if not self.held or not self.held[0][0].done():
            return False
        return isinstance(self.held[0][0].exception(), BrokenProcessPool)

    def end_if_overdue(self, seconds: float) -> None:
        """Kill the process if it has been at one task for so long: its budget was not enforced, and nothing else is."""
        if self.held and time.monotonic() - self.began > seconds:
            self.overdue = True
            self._kill()

    def revive(self) -> list[tuple[Task, int]]:
        """A new process; returns the tasks that the old one had, of which only the first was being judged.

        One that did not come to an end is not tried again.
        """
        more = ATTEMPTS if self.overdue else 1
        left = [(task, attempt + (more if place == 0 else 0)) for place, (_, task, attempt) in enumerate(self.held)]
        self.held.clear()
        self.overdue = False
        self.pool.shutdown(wait=False)
        self.pool = _pool()
        return left

    def end(self) -> None:
        """End the process: at once if it is still judging, else when it has closed its sandbox."""
        if self.held:
            self._kill()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _kill(self) -> None:
        for process in list((getattr(self.pool, "_processes", None) or {}).values()):
            process.kill()  # its sandbox dies with it


def judge_all(tasks: Iterable[Task], layers: Layers, workers: int) -> Iterator[Judged]:
    """Judge the tasks side by side on this machine, in the order in which they end.

    Few tasks are held at a time. Where a worker dies, which no student code should be able to cause, the submission
    that it was judging is given to another, and no other submission is concerned.
    """
    waiting = iter(tasks)
    again: list[tuple[Task, int]] = []
    crew = [Worker() for _ in range(workers)]
    try:
        while True:
            for place in range(HELD):
                for worker in crew:
                    if len(worker.held) == place and (found := again.pop() if again else _first_attempt(waiting)):
                        worker.give(found[0], layers, found[1])
            futures = [held[0] for worker in crew for held in worker.held]
            if not futures:
                return
            wait(futures, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for worker in crew:
                yield from worker.take()
                worker.end_if_overdue(longest())
                why = "did not come to an end" if worker.overdue else f"died {ATTEMPTS} times"
                for task, attempt in worker.revive() if worker.is_dead else []:
                    if attempt <= ATTEMPTS:
                        again.append((task, attempt))
                    else:
                        problem = f"the grader's process {why}"
                        yield Judged(task.student, task.lesson, problem=problem, fault=problem)
    finally:
        for worker in crew:
            worker.end()


def longest() -> float:
    """The seconds after which a worker that is still at one submission must hang itself: its budget is half of that."""
    return 2 * here().submission_wall


def _first_attempt(waiting: Iterator[Task]) -> tuple[Task, int] | None:
    task = next(waiting, None)
    return None if task is None else (task, 1)


def _pool() -> ProcessPoolExecutor:
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    return ProcessPoolExecutor(1, multiprocessing.get_context(method), initializer=_begin, initargs=(os.getpid(),))


def _begin(grader: int) -> None:
    """A worker ends with the grader, also where that is killed; and it computes with one thread."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's, which ends its workers
    if confine.seccomp_works():
        confine.die_with_parent()
        if os.getppid() != grader:  # it was killed before the kernel knew
            os._exit(1)
    Finalize(None, _close_sandboxes, exitpriority=1)
    torch.set_num_threads(1)


def _safely(task: Task, layers: Layers) -> Judged:
    """Judge; a fault of the grader's own is this submission's reason, and stops no other."""
    try:
        return judge_task(task, layers)
    except BaseException as error:
        return Judged.failed(task.student, task.lesson, error)


def judge_on_cluster(
    tasks: Iterable[Task],
    layers: Layers | None,
    address: str,
    say: Callable[[str], None] = lambda _: None,
    shown: Certificates | None = None,
) -> Iterator[Judged]:
    """Judge the tasks on a Dask cluster, by the address of its scheduler; each worker has a sandbox of its own.

    The workers need this project installed, and no shared disk. A worker that is lost costs nothing: its tasks are
    given to another. Dask sends Python's pickles, which run code: at a tls:// address the scheduler, the workers and
    this program believe nobody who does not show a certificate of the same authority.
    """
    check_address(address, shown)
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise CourseError("--scheduler needs Dask: pip install 'attnlib[cluster]'") from None
    try:
        security = None if shown is None else shown.security()
        client = Client(address, timeout=here().scheduler_wall, security=security)
    except (OSError, TimeoutError, ValueError) as error:
        raise CourseError(f"No Dask scheduler answers at {address}: {first_line(error)}") from None
    with client:
        slots = max(1, sum(client.nthreads().values()))
        say(f"{slots} workers at {address}")
        waiting, by_key = iter(tasks), {}

        def submit() -> list[Any]:
            task = next(waiting, None)
            if task is None:
                return []
            future = client.submit(judge_on_worker, task, layers, pure=False, retries=ATTEMPTS)
            by_key[future.key] = task
            return [future]

        running = as_completed([future for _ in range(3 * slots) for future in submit()])
        for future in running:
            task = by_key.pop(future.key)
            if future.status == "finished":
                yield future.result()
            else:
                problem = f"the cluster gave it up: {first_line(future.exception())}"
                yield Judged(task.student, task.lesson, problem=printable(problem), fault=problem)
            for more in submit():
                running.add(more)


ONE_AT_A_TIME = threading.Lock()


@cache
def _layers_here() -> Layers:
    import torch

    from autograder.sandbox.layers import probe

    torch.set_num_threads(1)
    return probe()


def judge_on_worker(task: Task, layers: Layers | None) -> Judged:
    """Judge on a cluster's worker, behind the layers that its machine offers; its threads take turns."""
    with ONE_AT_A_TIME:
        return _safely(task, layers or _layers_here())
