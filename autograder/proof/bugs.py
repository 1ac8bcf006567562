"""Try every wrong line as a bug for practice, to find those that are honest and can be served.

A bug is served if its check rejects it under its own name, as a learner runs it; if the one repair makes it right and
no small change of another line does; and if it can be read: 40 lines, no line too long, nothing that gives it away.
"""

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import replace

from attnlib.checks.asking.attempt import Local
from attnlib.checks.asking.inputs import tensors_in
from attnlib.checks.asking.limits import quiet
from attnlib.checks.asking.observation import Asking
from attnlib.checks.asking.sources import shortcuts_of
from attnlib.checks.asking.time_limits import here
from attnlib.checks.course import find
from attnlib.checks.course.declare import WrittenExercise, Wrong
from attnlib.checks.course.wronglines import NoPlace
from attnlib.checks.naming.diagnose import diagnose
from attnlib.checks.naming.from_source import text_of
from attnlib.checks.naming.one_change.edits import edits_of
from attnlib.checks.naming.one_change.written import Written, source_of
from attnlib.checks.practising.bug import Bug, defined, made_of
from attnlib.checks.practising.dialects import dialects
from attnlib.checks.practising.difficulty import difficulty
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import LONGEST_LINE, MOST_LINES, TELLTALE, Row, checksum
from attnlib.checks.trial.trial import Trial
from attnlib.checks.verdict.judge import cases_of, run_exercise, try_case
from autograder.proof.telltales import telltale

MOST_WRONG = 3
"""The most lines in one wrong place: with more, it is not a wrong line any more."""
EDIT_CPU = 0.3
"""Seconds for one case of a changed program: a changed loop may have no end."""
MOST_EDITS = 60
"""The most changes of other lines to try: a long answer has hundreds more, which nobody would make."""


def candidates(name: str) -> Iterator[tuple[Wrong, Bug]]:
    """Yield every wrong line of the exercise in every right answer that has such a line, each program once."""
    exercise = find(name)
    assert isinstance(exercise, WrittenExercise)
    seen: set[str] = set()
    for dialect, right in enumerate(dialects(exercise)):
        for wrong in exercise.wrongs if right else ():
            try:
                bug = made_of(exercise, wrong, dialect)
            except NoPlace:
                continue
            if bug.code not in seen:
                seen.add(bug.code)
                yield wrong, bug


def unreadable(wrong: Wrong, bug: Bug) -> str:
    """Return why nobody should be given this bug to read; "" if it is fit to be read."""
    lines, places = bug.code.split("\n"), 2 if wrong.told.both else 1
    if len(lines) > MOST_LINES:
        return "too long"
    if any(len(lines[n - 1]) > LONGEST_LINE or re.search(TELLTALE, lines[n - 1]) for n in bug.lines):
        return "a line that stands out"
    if len(bug.changes) != places or any(change.is_missing for change in bug.changes):
        return "not one wrong place, or a line that is missing"
    if any(len(change.lines) > MOST_WRONG for change in bug.changes):
        return "many wrong lines"
    return telltale(bug)


def tried(name: str) -> tuple[list[Row], dict[str, str]]:
    """Return the bugs of an exercise that can be served, and the reasons why the others cannot, by key."""
    asking = Asking(memory={})
    served: list[Row] = []
    refused: dict[str, str] = {}
    for wrong, bug in candidates(name):
        reason = unreadable(wrong, bug)
        if not reason:
            found = verified(wrong, bug, asking)
            if isinstance(found, Row):
                served.append(found)
                continue
            reason = found
        refused[bug.key] = reason
    return served, refused


def verified(wrong: Wrong, bug: Bug, asking: Asking, *, others: bool = True) -> Row | str:
    """Return the bug's row in the table, or why it is not honest; without `others`, no other lines are tried."""
    exercise = bug.declared
    attempt = bug.answer
    trials = _trials(bug, attempt, asking)
    hard = difficulty(trials)
    if hard is None:
        return "right, or without an end"
    if not repair_passes(bug.exercise, bug.right):
        return "its repair is not right"
    named = diagnose(exercise, trials, asking, source=text_of(attempt))
    if not named or named[0].id != (wrong.told.same_as or wrong.told.id):
        return f"named {named[0].id}" if named else "named by no slip"
    if shortcuts_of(attempt, exercise.forbidden, exercise.reference):
        return "uses what its exercise forbids"
    if others and not wrong.told.both and (line := another_repair(bug, attempt, trials, asking)):
        return f"line {line} can be repaired as well"
    if not symptom_of(bug, hard.case).strip():
        return "no symptom"
    return Row(
        exercise=bug.exercise,
        slip=bug.slip,
        dialect=bug.dialect,
        level=6 if wrong.told.both else hard.level,
        silent=hard.silent,
        size=bug.size,
        code=checksum(bug.code),
        case=hard.case,
    )


@functools.lru_cache(maxsize=64)
def repair_passes(exercise: str, right: str) -> bool:
    """True if the check accepts the repaired code, which many bugs share."""
    return run_exercise(find(exercise), defined(right, exercise, "repaired")).passed


def _trials(bug: Bug, attempt: object, asking: Asking) -> list[Trial]:
    local = Local(attempt)
    return [try_case(bug.declared, local, case, asking) for case in cases_of(bug.declared, hidden=False)]


def _cost(trial: Trial) -> float:
    """Estimate how long the case takes, from how many numbers go in, and how often."""
    numbers = sum(t.numel() for t in tensors_in(trial.got.inputs))
    return (numbers + 1000) * (1 + len(trial.case.after) + 2 * trial.case.gradient + 4 * trial.case.watched)


def another_repair(bug: Bug, attempt: object, trials: list[Trial], asking: Asking) -> int:
    """Return the number of another line in which one small change makes the code right; 0 if there is none.

    The changes are the likeliest of those that the check itself looks for in an answer whose mistake nobody knows.
    """
    written = source_of(attempt)
    if written is None:
        return 0
    aspects: set[str] = {t.difference.aspect for t in trials if t.difference is not None}
    order = sorted(trials, key=lambda t: (t.difference is None, _cost(t)))
    with quiet():
        for edit in edits_of(written, aspects)[:MOST_EDITS]:
            nodes = [site.node for site, _ in edit.places]
            if len({getattr(node, "lineno", 0) for node in nodes}) > 1 or any(_touches(n, bug.lines) for n in nodes):
                continue  # a change of several lines, or of the wrong one
            with edit.put():
                if _passes(bug, written, order, asking):
                    return min(getattr(node, "lineno", 0) for node in nodes)
    return 0


def _touches(node: ast.AST, lines: tuple[int, ...]) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    return any(first <= line <= last for line in lines)


def _passes(bug: Bug, written: Written, order: list[Trial], asking: Asking) -> bool:
    made = written.run().get(written.name)
    answer = Local(made, replace(here(), case_cpu=EDIT_CPU))
    if made is None or answer.unfit_reason(bug.declared.kind) is not None:
        return False
    return all(try_case(bug.declared, answer, trial.case, asking).difference is None for trial in order)
