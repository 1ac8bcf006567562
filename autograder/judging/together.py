"""Several answers of a submission in one process, one after the other: it counts only for answers that pass there.

A process that answers share refuses all that any of their exercises forbids. One whose answer has passed takes the
next. An answer that doesn't pass there is judged again in a fresh process, which refuses what its own exercise forbids,
and what is said of it comes from there. So sharing takes no point away and gives none, and nothing that is shown
depends on it. The cells of each answer run in a namespace of their own.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnlib.checks.asking.ready_made import EINSUM, FAMILIES
from attnlib.checks.asking.shortcuts import shortcuts
from attnlib.checks.course import called
from attnlib.checks.exercise import Exercise
from autograder.judging.budget import Budget
from autograder.judging.cells_around import imported_late
from autograder.lesson_text.assignment import Assignment, Question
from autograder.lesson_text.regions import solved_source
from autograder.sandbox.inside.cells import parse
from autograder.sandbox.inside.needed import definitions, needed
from autograder.sandbox.process import Child, Sandbox
from autograder.sandbox.template import Died
from autograder.sandbox.views import view, withheld


@dataclass(frozen=True)
class Terms:
    """The names that a process refuses, those of attnlib that can't be called in it, and the answers it is lent."""

    refused: frozenset[str]
    withheld: frozenset[str]
    lent: frozenset[str]

    @classmethod
    def of(cls, exercise: Exercise, assignment: Assignment) -> "Terms":
        """Return the terms of one exercise alone."""
        return cls(frozenset(exercise.forbidden), frozenset(withheld(exercise)), lent_to(assignment))

    def __or__(self, other: "Terms") -> "Terms":
        return Terms(self.refused | other.refused, self.withheld | other.withheld, self.lent)

    def __le__(self, other: "Terms") -> bool:
        return self.refused <= other.refused and self.withheld <= other.withheld

    @property
    def names(self) -> list[str]:
        """All of these names."""
        return sorted(self.refused | {f"attnlib.{name}" for name in self.withheld})


Group = tuple[Terms, Terms]
"""A question's own terms, and those of the process that its group shares."""


class Together:
    """The process that answers share, if there is one now."""

    def __init__(self, sandbox: Sandbox, budget: Budget, groups: Mapping[str, Group]) -> None:
        self.sandbox, self.budget, self.groups = sandbox, budget, groups
        self.terms: Terms | None = None
        self.first: dict[str, Any] = {}
        """Fields that its first task carries and no later one does."""
        self.late: frozenset[str] = frozenset()
        self.child: Child | None = None

    def fresh(self, task: dict[str, Any], question: Question, given: frozenset[str], *, shared: bool = False) -> Child:
        """Fork a process for this task, on the question's own terms or its group's; the one before ends."""
        self.part()
        self.terms = self.groups[question.test][shared]
        self.first = {"refused": sorted(self.terms.refused), "library": view(self.terms.withheld, self.terms.lent)}
        self.child = self.sandbox.fork(given, imported_late(task["cells"]), self.first["library"])
        self.late = self.sandbox.late
        return self.child

    def takes(
        self, task: dict[str, Any], question: Question, given: frozenset[str], judge: Callable[[Child], bool]
    ) -> bool:
        """Give the task to the process of the question's group, if it has one; return whether the answer passes there.

        The process ends unless it does. The attempt gets little time, for which the submission doesn't pay.
        """
        own, group = self.groups[question.test]
        fits = self.terms is not None and own <= self.terms <= group
        if not (fits and is_refused(task["forbidden"]) and self.late.issuperset(imported_late(task["cells"]))):
            self.part()
        if self.child is None and (own == group or not is_refused(task["forbidden"])):
            return False
        lives = self.child is not None
        child, passes = self.child or self.fresh(task, question, given, shared=True), False
        asked = task if lives else {**task, **self.first}
        child.patience = self.sandbox.limits.time.waiting_again
        spent, began = child.spent, time.thread_time()
        try:
            child.cpu = child.look()["cpu"] or child.cpu
            spent = child.spent
            passes = child.ask(asked).get("shortcuts") == [] and judge(child)  # an earlier answer may have forged this
        except Died:
            pass
        finally:
            self.part_unless(passes)
            if not passes:
                self.budget.spent -= child.spent - spent + time.thread_time() - began
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


@lru_cache(maxsize=8)
def lent_to(assignment: Assignment) -> frozenset[str]:
    """Return the exercises of other lessons whose answers the lesson's cells go on with, as they ask for them."""
    asked = {name for source in assignment.given for name in re.findall(r"yours_or_ours\(\s*[\"'](\w+)", source)}
    asked -= {question.exercise.name for question in assignment.questions}
    return frozenset(name for name in asked if getattr(called(name), "right", ""))


def is_refused(forbidden: Iterable[str]) -> bool:
    """True if a process refuses all that is forbidden, whatever earlier answers have done to the reading of sources.

    NumPy has einsum, too, and a name of a library's is known from the source alone.
    """
    return all(name.startswith("attnlib.") or (name in FAMILIES and name != EINSUM) for name in forbidden)


@lru_cache(maxsize=8)
def groups_of(assignment: Assignment) -> dict[str, Group]:
    """Return each question's terms by its test, in the order in which they are judged: groups stand side by side.

    A question joins the first group in which neither the lesson's own answers nor the plain right ones use anything
    that the group would refuse.
    """
    groups: list[tuple[Terms, list[Question]]] = []
    for question in assignment.questions:
        own = Terms.of(question.exercise, assignment)
        for place, (terms, members) in enumerate(groups):
            together = terms | own
            if all(_may(assignment, one, together) for one in (*members, question)):
                groups[place] = together, [*members, question]
                break
        else:
            groups.append((own, [question]))
    return {one.test: (Terms.of(one.exercise, assignment), terms) for terms, members in groups for one in members}


def _may(assignment: Assignment, question: Question, terms: Terms) -> bool:
    """True if neither the lesson's own answer nor the plain right one names anything that these terms refuse."""
    if terms == Terms.of(question.exercise, assignment):
        return True
    if not is_refused(terms.refused):
        return False
    cells = [
        {
            "name": about.get("grade_id", ""),
            "source": solved_source(cell.source),
            "role": "answer" if about else "given",
        }
        for cell in assignment.source.cells
        for about in (cell.metadata.get("nbgrader", {}),)
        if cell.cell_type == "code" and (about.get("solution") or not about)
    ]
    units, _ = parse(cells, question.answer or "")
    source = definitions(needed(units, question.expression, "needed"), question.expression, {})
    plain = "" if question.exercise.kind == "choice" else getattr(question.exercise, "right", "")
    return not (shortcuts(source, terms.names) or shortcuts(plain, terms.names))
