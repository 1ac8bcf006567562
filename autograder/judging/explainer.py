"""Explain, in a sandbox, a mistake of no known kind as the notebook would: from the answer's own source."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlib.checks.course import module_of
from autograder.judging.budget import Budget
from autograder.judging.cells_around import imported_late
from autograder.lesson_text.assignment import Question
from autograder.sandbox.process import Child, Sandbox
from autograder.sandbox.template import Died
from autograder.sandbox.views import everything
from autograder.showing.errors import CourseError

KNOWN = ("attnlib.checks.verdict.judge", "attnlib.checks.naming.one_change.search")
"""The modules that every explanation needs, the second of which a right answer in a notebook never does."""


class KnowingSandbox(Sandbox):
    """A sandbox whose children have imported the course's answers they need: nothing is judged there.

    Its warm process is forked from the template of the one that judges, which never has them.
    """

    def __init__(self, judging: Sandbox) -> None:
        super().__init__(judging.layers, judging.limits, judging.template)
        self.judging, self.living = judging, judging.living
        self.known = set(KNOWN)
        self.expected = set[str]()
        """The exercises whose reference its warm process has run."""

    def start(self, late: Sequence[str] = ()) -> None:
        """Fork the warm process, and let it import what its children need."""
        super().start(late)
        self.expected.clear()
        self._learn(*self.known, library=everything())

    def close(self) -> None:
        """End both, which share a file system: what could not be removed from it would be there for the other."""
        self.judging.close()

    def fork_knowing(self, module: str, exercise: str, given: frozenset[str], late: list[str]) -> Child:
        """Fork a fresh child with this module imported; the warm process does once what many children need."""
        if self.control is None or not self.late.issuperset(late):
            self.start(late)
        if module not in self.known:
            self.known.add(module)
            self._learn(module)
        if exercise not in self.expected:
            self.expected.add(exercise)
            request = {"do": "expect", "module": module, "exercise": exercise}
            self._ask(request, seconds=self.limits.time.start_wall)
        return self.fork(given, late)

    def _learn(self, *modules: str, library: Mapping[str, str] | None = None) -> None:
        request = {"do": "learn", "library": dict(library or {}), "modules": sorted(modules)}
        self._ask(request, seconds=self.limits.time.start_wall)


class Explainer:
    """Searches for the one change in an answer's source, and reads it, within a submission's time for explanations.

    The answer runs in a fresh child, after the judged one has ended and before any of the submission's answers gets
    a hidden input. It sends words for its own student, on which no point depends.
    """

    def __init__(self, judging: Sandbox, budget: Budget) -> None:
        self.judging, self.budget, self.spent = judging, budget, 0.0

    def explain(self, task: dict[str, Any], question: Question, given: frozenset[str]) -> Any:
        """Return the explanation from the source, in the child's words; None if time is up or the child died."""
        if self.spent >= self.judging.limits.time.explaining_cpu or self.budget.is_spent:
            return None
        knowing = self.judging.companion
        if not isinstance(knowing, KnowingSandbox):
            knowing = self.judging.companion = KnowingSandbox(self.judging)
        exercise, module = question.exercise, module_of(f"lesson_{question.exercise.lesson[:2]}")
        before = self.budget.spent
        try:
            child = knowing.fork_knowing(module, exercise.name, given, imported_late(task["cells"]))
            what = {"exercise": exercise.name, "explain": module, "confined": knowing.layers.confined}
            with self.budget.counting(child):
                child.ask({**task, "library": {}, **what})
                child.listen()
                return child.listen().get("told")
        except (Died, CourseError):
            return None
        finally:
            self.spent += self.budget.spent - before
