"""The one small change that makes a wrong answer right: where no misconception fits, it is searched for in the source.

An answer with a single mistake differs from a right one in a single place, in whatever way it is written. So each
place of its syntax tree is changed in the ways in which slips change it, until what comes out passes all that was
checked, with other numbers and sizes, too. What is told is then true by construction: the place, and what kind of
change it needs; not the change itself, unless something only has to be left out. Repairing programs by such edits:
C. Le Goues et al., "GenProg: a generic method for automatic software repair", IEEE Transactions on Software
Engineering 38 (2012).

A changed answer is code that nobody has written. It runs where it can do nothing, or not at all: see `one_change`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnlib.checks.asking.attempt import Attempt, Local
from attnlib.checks.asking.clock import Clock, Patience
from attnlib.checks.asking.limits import quiet
from attnlib.checks.asking.observation import AS_IN_A_NOTEBOOK, Asking, Observation
from attnlib.checks.asking.observe import observe
from attnlib.checks.asking.time_limits import TimeLimits, here
from attnlib.checks.exercise import Case, Exercise, Misconception
from attnlib.checks.naming.one_change.bench import Bench
from attnlib.checks.naming.one_change.confined import Unconfined, in_a_child
from attnlib.checks.naming.one_change.edits import Edit, edits_of
from attnlib.checks.naming.one_change.elsewhere import Steps, followed, hides, other_cases
from attnlib.checks.naming.one_change.harmless import made_harmless
from attnlib.checks.naming.one_change.kinds import CHANGES, KEPT_STATE
from attnlib.checks.naming.one_change.told import told
from attnlib.checks.naming.one_change.written import Written, source_of
from attnlib.checks.trial.compare import first_difference
from attnlib.checks.trial.trial import Trial

MOST = {"function": 800, "module": 400}  # changes tried: a count, so that the result doesn't depend on a clock


def one_change(
    exercise: Exercise,
    attempt: Any,
    trials: Sequence[Trial],
    asking: Asking = AS_IN_A_NOTEBOOK,
    *,
    confined: bool = False,
) -> Misconception | None:
    """The first change after which the attempt passes all trials; None without one, or without the source.

    What is changed runs in a child that can do nothing, or in this process if that is `confined` itself, as the
    grader's is. Where no child can be confined, an answer is searched only if its source shows that it does nothing.

    The verdict is known before, and does not depend on it: where the search runs out of time there is one hint less.
    """
    written = source_of(attempt)
    if written is None or not written.can_restart or written.is_long() or written.reaches_outside():
        return None
    search = Search(exercise, written, trials, asking)
    if confined:
        return search.found()
    try:
        return _from_record(in_a_child(lambda: _as_record(search.found()), search.limits))
    except Unconfined:
        harmless = made_harmless(written)
        return replace(search, written=harmless).found() if harmless is not None else None


def _as_record(found: Misconception | None) -> dict[str, str] | None:
    return None if found is None else {"id": found.id, "explanation": found.explanation}


def _from_record(record: dict[str, str] | None) -> Misconception | None:
    known = {change.id: change for change in (*CHANGES.values(), KEPT_STATE)}
    return None if record is None else replace(known[record["id"]], explanation=record["explanation"])


@dataclass
class Search:
    """A search for the one change that makes a wrong answer pass its trials."""

    exercise: Exercise
    written: Written
    trials: Sequence[Trial]
    asking: Asking

    @property
    def limits(self) -> TimeLimits:
        """The limits on the search, and on each case."""
        return self.asking.limits or here()

    def found(self) -> Misconception | None:
        """Describe the first change that helps."""
        aspects: set[str] = {t.difference.aspect for t in self.trials if t.difference is not None}
        clock = Clock(self.limits.search_cpu, Patience(self.limits.search_wall, self.limits.search_wall))
        try:
            edits = [edit for edit in edits_of(self.written, aspects) if self._says_something(edit)]
            with clock.running(), quiet():  # Python warns about many of the changes
                if self._agrees_afresh() and self._in_order() and self._holds_elsewhere():
                    return KEPT_STATE
                for edit in self._in_reach(edits)[: MOST[self.exercise.kind]]:
                    if self._mends(edit):
                        return told(self.written, edit)
                    clock.tick()
                    if clock.is_over():
                        return None
        except RecursionError:
            return None  # such as a sum of some hundred terms
        except TimeoutError:
            return None  # too slow to be tried hundreds of times
        return None

    @cached_property
    def _case_limits(self) -> TimeLimits:
        return replace(self.limits, case_cpu=self.limits.search_case_cpu)

    @cached_property
    def _bench(self) -> Bench:
        return Bench(self._case_limits)

    @cached_property
    def _telling(self) -> list[Trial]:
        """The trials, the wrong ones first. The one with the least to compute is tried with every edit."""
        return sorted(self.trials, key=lambda t: (t.difference is None, t.case.other_device, t.expected.cpu))

    @cached_property
    def _others(self) -> list[tuple[Case, Observation, Asking]]:
        """Cases with other numbers and sizes, what the reference does there, and how it was asked."""
        return list(other_cases(self.exercise, [t.case for t in self.trials], self.asking))

    @cached_property
    def _steps_before(self) -> Steps:
        """The steps of the answer as it is written; read before the first edit that might help is made."""
        return self._followed()[1]

    def _mends(self, edit: Edit) -> bool:
        """True if the answer with this edit is right; the first trial runs on the bench if it can."""
        with edit.put():
            if not (self._agrees_on_the_bench(edit) and self._agrees_afresh() and self._holds_elsewhere()):
                return False
            right, after = self._followed()
        return right and not hides(self._steps_before, after, edit)

    def _agrees_on_the_bench(self, edit: Edit) -> bool:
        first = self._telling[0]
        if not edit.leaves_layers(self.written) or first.case.other_device:
            return True
        bench = self._bench
        bench.names = self.written.run()
        bench.target = bench.names.get(self.written.name)
        unfit = Local(bench.target).unfit_reason(self.exercise.kind) is not None
        return not unfit and self._agrees(bench, first.case, first.expected, self.asking.anew)

    def _says_something(self, edit: Edit) -> bool:
        """False for one more step where only what results lead to is judged: many are right, so it may hit one."""
        return edit.repair.kind != "step" or any(t.case.probe is None for t in self.trials)

    def _in_reach(self, edits: list[Edit]) -> list[Edit]:
        """Return the edits where the first telling trial comes to, those where it raises an error first.

        An edit elsewhere would leave it as it is, unless it takes a name's other assignment away.
        """
        with followed(self.written) as steps:
            self._all_agree(self._as_asked(self._telling[:1]))
        if any(name == "UnboundLocalError" for name, _ in steps.raised):
            return edits
        raising = {line for _, line in steps.raised}
        return sorted((e for e in edits if e.lies_in(steps.reached)), key=lambda edit: not edit.lies_in(raising))

    def _agrees_afresh(self) -> bool:
        """True if the answer, as written now and run anew, passes all trials, the telling ones first.

        They are watched for what the exercise forbids, which takes as long as the call itself: the first, which few
        edits pass, only after it has passed.
        """
        first, all_trials = self._as_asked(self._telling[:1]), self._as_asked(self._telling)
        return self._all_agree(first) and self._all_agree(all_trials, watched=True)

    def _in_order(self) -> bool:
        """True if it passes them in their own order: earlier calls may make a later one right."""
        return self._all_agree(self._as_asked(self.trials))

    def _as_asked(self, trials: Sequence[Trial]) -> list[tuple[Case, Observation, Asking]]:
        return [(t.case, t.expected, self.asking.anew) for t in trials]

    def _holds_elsewhere(self) -> bool:
        return self._all_agree(self._others)

    def _followed(self) -> tuple[bool, Steps]:
        on_cpu = [t for t in self.trials if not t.case.other_device]  # to follow all of that other device takes long
        with followed(self.written) as steps:
            right = self._all_agree(self._as_asked(on_cpu), to_the_end=True)
        return right, steps

    def _all_agree(
        self, asked: Sequence[tuple[Case, Observation, Asking]], *, watched: bool = False, to_the_end: bool = False
    ) -> bool:
        answer = Local(self.written.run().get(self.written.name), self._case_limits)
        if answer.unfit_reason(self.exercise.kind) is not None:
            return False
        agreeing = (self._agrees(answer, *each, watched=watched) for each in asked)
        return all(list(agreeing) if to_the_end else agreeing)

    def _agrees(
        self, attempt: Attempt, case: Case, expected: Observation, asking: Asking, *, watched: bool = False
    ) -> bool:
        got = observe(self.exercise, attempt, case, asking, watched=watched)
        if got.failure is not None and got.failure.kind == "time":
            raise TimeoutError
        return first_difference(self.exercise, case, expected, got) is None
