"""Several answers of a submission in one process, one after the other: it counts only for answers that pass there.

A process whose answer has passed takes the next. An answer that doesn't pass there is judged again in a fresh process,
and what is said of it comes from there. So sharing takes no point away, and nothing that is shown depends on it.
Answers that share may use the same of attnlib and of torch, and the cells of each run in a namespace of their own.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from attnlib.checks.asking.ready_made import EINSUM, FAMILIES
from autograder.judging.budget import Budget
from autograder.judging.cells_around import imported_late
from autograder.lesson_text.assignment import Question
from autograder.sandbox.process import Child, Sandbox
from autograder.sandbox.template import Died


class Together:
    """The process that answers share, if there is one now."""

    def __init__(self, sandbox: Sandbox, budget: Budget) -> None:
        self.sandbox, self.budget = sandbox, budget
        self.key: tuple[Any, ...] = ()
        self.late: frozenset[str] = frozenset()
        self.child: Child | None = None

    def fresh(self, task: dict[str, Any], given: frozenset[str]) -> Child:
        """Fork a process for this task; the one before ends."""
        self.part()
        self.child = self.sandbox.fork(given, imported_late(task["cells"]), task["library"])
        self.key, self.late = _key(task), self.sandbox.late
        return self.child

    def takes(self, task: dict[str, Any], judge: Callable[[Child], bool]) -> bool:
        """Give the task to the living process, if one may take it; return whether the answer passes there.

        The process ends unless it does. The attempt gets little time, for which the submission doesn't pay.
        """
        child, passes = self.child, False
        if child is None or not self._may_take(task):
            self.part()
            return False
        child.patience = self.sandbox.limits.time.waiting_again
        spent, began = child.spent, time.thread_time()
        try:
            child.cpu = child.look()["cpu"] or child.cpu
            spent = child.spent
            passes = child.ask(task).get("shortcuts") == [] and judge(child)  # an earlier answer may have forged this
        except Died:
            pass
        finally:
            self.part_unless(passes)
            if not passes:
                self.budget.spent -= child.spent - spent + time.thread_time() - began
        return passes

    def _may_take(self, task: dict[str, Any]) -> bool:
        same = _key(task) == self.key and is_refused(task["forbidden"])
        return same and self.late.issuperset(imported_late(task["cells"]))

    def part_unless(self, passes: bool) -> None:
        """End the process unless its answer passes."""
        if not passes:
            self.part()

    def part(self) -> None:
        """End the process."""
        if self.child is not None:
            child, self.child = self.child, None
            with self.budget.counting(child):
                pass


def _key(task: dict[str, Any]) -> tuple[Any, ...]:
    return task["library"], task["forbidden"]


def is_refused(forbidden: Iterable[str]) -> bool:
    """True if a process refuses all that is forbidden, whatever earlier answers have done to the reading of sources.

    NumPy has einsum, too, and a name of a library's is known from the source alone.
    """
    return all(name.startswith("attnlib.") or (name in FAMILIES and name != EINSUM) for name in forbidden)


def alike_together(questions: list[Question]) -> list[int]:
    """Return the questions' places, those side by side that may use the same; of these the first stays where it is."""
    first: dict[tuple[str, ...], int] = {}
    for number, question in enumerate(questions):
        first.setdefault(question.exercise.forbidden, number)
    return sorted(range(len(questions)), key=lambda number: first[questions[number].exercise.forbidden])
