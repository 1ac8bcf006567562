"""Judge one submission, from its files to its points. A task carries its data, and needs no disk."""

import atexit
import os
import threading
import time
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import nbformat

from autograder.judging.budget import Passing
from autograder.judging.intake.bounded import bounded
from autograder.judging.intake.custody import take_in
from autograder.judging.judge import ONE_AT_A_TIME, Judge
from autograder.judging.settle import settle
from autograder.judging.verdict import write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import to_text
from autograder.sandbox.layers import Layers
from autograder.sandbox.probe import open_sandbox
from autograder.sandbox.process import Sandbox
from autograder.showing.errors import CourseError, reason_of, trace_of
from autograder.showing.text import printable

SECOND_ATTEMPT = "an answer was judged at the second attempt, after a fault of the grader's own (see faults.txt)"


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
    """The outcome of a task: the graded notebook and its tests' points, or the reason for having none."""

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
    """The traceback, if it is the grader's own fault that there are no points."""
    overcome: str = ""
    """The tracebacks of the grader's own faults that a second attempt didn't show."""
    passing: bool = False
    """True if there are no points for a reason that may be gone in the next run."""

    @classmethod
    def failed(cls, student: str, lesson: str, error: BaseException) -> "Judged":
        """Return an outcome without points: the submission's fault if the error is NotGraded, else the grader's."""
        problem, passing = printable(reason_of(error)), isinstance(error, Passing)
        return cls(student, lesson, problem=problem, fault=trace_of(error), passing=passing)


def judge_task(task: Task, layers: Layers | None) -> Judged:
    """Judge one submission in this process's sandbox; anything that prevents judging it becomes its reason.

    Without `layers`, the strongest that work on this machine.
    """
    try:
        return _judged(task, layers)
    except (KeyboardInterrupt, CourseError):  # the person stopped it, or there is no sandbox or no such lesson
        raise
    except BaseException as error:  # a library may raise anything, SystemExit too
        return Judged.failed(task.student, task.lesson, error)


def _judged(task: Task, layers: Layers | None) -> Judged:
    began = time.monotonic()
    assignment = _assignment(task.lesson, task.source)
    with bounded():
        taken = take_in(task.files, task.lesson, assignment.released)
        settled = settle(taken.notebook, assignment.released)
    with ONE_AT_A_TIME:
        sandbox = _sandbox(layers)
        judge = _judge(sandbox, task.seed)
        verdicts = judge.verdicts(settled, assignment, beside=taken.beside)
    return Judged(
        task.student,
        task.lesson,
        remarks=(*taken.remarks, *([SECOND_ATTEMPT] if judge.overcome else [])),
        notebook=to_text(write_verdicts(settled, verdicts)),
        points={verdict.question.test: verdict.points for verdict in verdicts},
        reports={verdict.question.test: verdict.report.as_record() for verdict in verdicts},
        unanswered=tuple(v.question.answer for v in verdicts if not v.answered and v.question.answer),
        memory=sandbox.most_memory,
        seconds=time.monotonic() - began,
        overcome="\n".join(judge.overcome),
    )


@cache
def _assignment(lesson: str, source: str) -> Assignment:
    return Assignment(lesson, nbformat.reads(source, as_version=4))


def get_ready(layers: Layers | None) -> None:
    """Start this process's sandbox, so that the first submission needn't wait for it."""
    _sandbox(layers).start()


SANDBOXES: dict[tuple[int, int, Layers | None], Sandbox] = {}


def _sandbox(layers: Layers | None) -> Sandbox:
    """Return this thread's own sandbox: its warm process ends with the thread that started it.

    A sandbox forked with its connections would answer to two processes.
    """
    living = {thread.ident for thread in threading.enumerate()}
    for key in [key for key in SANDBOXES if key[0] == os.getpid() and key[1] not in living]:
        SANDBOXES.pop(key).close()
    key = (os.getpid(), threading.get_ident(), layers)
    if key not in SANDBOXES:
        SANDBOXES[key] = open_sandbox() if layers is None else Sandbox(layers)
        atexit.register(SANDBOXES[key].close)
    return SANDBOXES[key]


@lru_cache(maxsize=8)  # each holds the references' results, and there may be many seeds
def _judge(sandbox: Sandbox, seed: int) -> Judge:
    return Judge(sandbox, seed)


def close_sandboxes() -> None:
    """End this process's sandboxes."""
    for (owner, *_), sandbox in SANDBOXES.items():
        if owner == os.getpid():
            sandbox.close()
