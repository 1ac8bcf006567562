"""Several answers of a submission in one process, one after the other: it counts only for answers that pass there.

A process whose answer has passed takes the next. An answer that doesn't pass there is judged again in a fresh process,
and what is said of it comes from there. So sharing takes no point away, and nothing that is shown depends on it.
Answers that share may use the same of attnlib and of torch, and the cells of each run in a namespace of their own.
"""

from collections.abc import Callable
from typing import Any

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

        The process ends unless it does.
        """
        passes = False
        may = _key(task) == self.key and self.late.issuperset(imported_late(task["cells"]))
        try:
            if self.child is not None and may and not self.child.ask(task)["shortcuts"]:
                passes = judge(self.child)
        except Died:
            pass
        finally:
            self.part_unless(passes)
        return passes

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


def alike_together(questions: list[Question]) -> list[int]:
    """Return the questions' places, those side by side that may use the same; of these the first stays where it is."""
    first: dict[tuple[str, ...], int] = {}
    for number, question in enumerate(questions):
        first.setdefault(question.exercise.forbidden, number)
    return sorted(range(len(questions)), key=lambda number: first[questions[number].exercise.forbidden])
