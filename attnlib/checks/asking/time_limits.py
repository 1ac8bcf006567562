"""Every time limit in one object, with its reason; code that needs a limit is passed the object."""

import functools
import math
import time
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class TimeLimits:
    """Seconds: of processor time in `…_cpu`, of real time in `…_wall`, and of doing nothing in `…waiting`.

    Processor time is what ends an attempt, because a loaded machine makes it no longer. A slower machine does: `here`
    gives each machine the limits in proportion to its speed. Waiting is waiting, however slow the machine.
    """

    # An attempt, in a notebook and in the grader's child alike.
    case_cpu: float = 10.0
    """All calls of one case. The slowest right answer needs a hundredth of it."""
    waiting: float = 10.0
    """The time during which an attempt, in all cases together, or a cell may do nothing: sleep, wait for a lock."""
    waiting_again: float = 2.0
    """The same for a cell, once another cell of the same notebook has used up its time."""
    check_wall: float = 300.0
    """A whole visible check: nobody waits for a cell any longer."""

    # The search for the one change that would make an answer right: whether there is a hint, never what the verdict is.
    search_case_cpu: float = 0.5
    """One case of a changed answer: a loop that the change made endless ends there, and the search with it."""
    search_cpu: float = 2.0
    """The whole search, which takes less than one second unless the answer itself is slow."""
    search_wall: float = 60.0
    """The same on a loaded machine."""
    search_waiting: float = 3.0
    """Waiting of a search's own process, as for what a thread of the notebook held when the search began."""

    explaining_cpu: float = 10.0
    """Explanations of all rejected answers of one submission that is graded: the next one is not begun."""

    # A cell of a notebook that is graded.
    cell_cpu: float = 10.0
    """One cell of a student's."""
    given_cell_cpu: float = 30.0
    """One cell of the lesson's own: some train a model."""
    stuck_cell_cpu: float = 1.0
    """A cell that did not end before, when another answer of the same student was judged."""

    # A child of the sandbox, as the grader sees it from outside: for code that got round the limits above.
    cells_cpu: float = 90.0
    """All cells that an answer needs."""
    reply_cpu: float = 25.0
    """One question to a child: more than one case may take, so that the child itself can say what happened."""
    child_cpu: float = 150.0
    """A child from beginning to end; the kernel ends it."""
    child_waiting: float = 15.0
    """Waiting of a child at one time: longer than `waiting`, for the same reason."""
    child_waiting_in_all: float = 60.0
    """Waiting of a child from beginning to end, in naps of any length."""
    child_blocked_wall: float = 120.0
    """A child from beginning to end, while it waits for a disk, or in a state from which nothing wakes it."""
    child_wall: float = 1800.0
    """A child from beginning to end: the last resort."""

    # A submission, with all its children.
    submission_cpu: float = 900.0
    """Computing and waiting of all children together: six that use up `child_cpu`, or fifteen that wait."""
    submission_wall: float = 5400.0
    """The whole submission: three children that use up `child_wall`. Then it is not graded."""

    # The grader and the build.
    intake_wall: float = 120.0
    """Until a submission's files have been read: a hundred times what the largest that are taken need."""
    start_wall: float = 300.0
    """Until the warm process has imported torch: a loaded machine imports slowly."""
    answer_wall: float = 60.0
    """Until the warm process, which runs nobody's code, has answered."""
    ending_wall: float = 10.0
    """Until a child that has closed its connection has ended by itself, and can say how."""
    scheduler_wall: float = 10.0
    """Until a Dask scheduler has answered."""
    kill_wall: float = 5.0
    """Until a process that has been killed is gone. Where it is not, the warm process ends, too."""
    lesson_cell_wall: float = 600.0
    """One cell of a lesson that is executed for the build."""
    mutant_cpu: float = 1.0
    """One case of a mutant in the proof of the checks, where thousands are tried; some loop for ever."""

    def slower(self, times: float) -> "TimeLimits":
        """The limits on a machine that is slower by this factor."""
        longer = (f.name for f in fields(self) if f.name.endswith(("_cpu", "_wall")))
        return replace(self, **{name: times * getattr(self, name) for name in longer})


WORK_SECONDS = 0.006
"""Time that `_work` took on the machine for which the limits above were chosen, times 1.5."""


def _work() -> int:
    return sum(hash((n, str(n))) & 1 for n in range(8000))


def slowness() -> int:
    """Return how many times longer than there a known piece of work takes here: a whole number, rounded up, at least 1.

    The fastest of several turns counts: anything else the machine does can only make a turn longer.
    """
    turns = []
    for _ in range(9):
        began = time.perf_counter()  # the finest clock on every system: processor time comes in 16 ms on Windows
        _work()
        turns.append(time.perf_counter() - began)
    return max(1, math.ceil(min(turns) / WORK_SECONDS))


@functools.cache
def here() -> TimeLimits:
    """The limits on this machine, whose speed is measured once per process."""
    return TimeLimits().slower(slowness())
