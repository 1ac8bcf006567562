"""Findings from an answer's own source: slips that can be read in it, and the one change it needs.

The answer may live in another process. That process sends its findings in JSON's types: words for the answer's own
author, under the course's own names and headings.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnlib.checks.asking.attempt import Attempt
from attnlib.checks.asking.observation import Asking
from attnlib.checks.exercise import Exercise, Misconception
from attnlib.checks.naming.error_readers import Names
from attnlib.checks.naming.one_change.kinds import CHANGES, KEPT_STATE
from attnlib.checks.naming.one_change.written import source_of
from attnlib.checks.naming.reading import HEADING, Read, read
from attnlib.checks.trial.trial import Trial, visibly_wrong

READ = {
    "self_missing": "A method without self",
    "method_misspelt": "A method that is never called",
    "notebook_variable": "A variable of the notebook",
    "result_not_kept": "A result that is not kept",
    "dropout_not_asked_for": "No dropout is asked for",
    "dropout_made_anew": "A new dropout layer is made at each call",
    "mode_for_share": "The mode is given where the probability belongs",
    "dropout_always_on": "F.dropout does not know about evaluation mode",
    "kept_in_a_default": "A default that keeps what earlier calls put into it",
    "classes_not_counted": "one_hot is not told how many classes there are",
    "one_object_repeated": "A list holds the same object several times",
    "argument_not_used": "An argument that is never used",
    "layer_not_used": "A layer that is made and never used",
    "variable_not_used": "A variable that is computed and never used",
}
"""The ids of what `read` finds, with the titles under which another process may report it."""
MOST_FOUND, LONGEST = 3, 1000


@dataclass(frozen=True)
class FromSource:
    """`certain` findings explain a wrong result by themselves, `hints` may or may not; one `change` would fix it."""

    certain: tuple[Misconception, ...] = ()
    change: Misconception | None = None
    hints: tuple[Misconception, ...] = ()
    names: Names | None = None

    def as_record(self) -> dict[str, Any]:
        """The findings in JSON's types."""
        change = [self.change] if self.change else []
        groups = {"certain": self.certain, "change": change, "hints": self.hints}
        return {
            group: [{"id": f.id, "title": f.title, "explanation": f.explanation} for f in found]
            for group, found in groups.items()
        }


def from_record(told: Any) -> FromSource:
    """Read the findings that another process sent, as far as they are well formed."""
    told = told if isinstance(told, dict) else {}
    certain, change, hints = (_believed(told.get(group)) for group in ("certain", "change", "hints"))
    is_read = {finding.id: finding.id in READ for finding in (*certain, *hints)}
    return FromSource(
        tuple(f for f in certain if is_read[f.id]),
        next((f for f in change if f.id not in READ), None),
        tuple(f for f in hints if is_read[f.id]),
    )


def _believed(told: Any) -> list[Misconception]:
    own = {change.id: change for change in (*CHANGES.values(), KEPT_STATE)}
    found = []
    for item in told[:MOST_FOUND] if isinstance(told, list) else []:
        told_words = [item.get(key) if isinstance(item, dict) else None for key in ("id", "title", "explanation")]
        if not all(type(word) is str for word in told_words):
            continue
        id, title, explanation = (str(word)[:LONGEST] for word in told_words)
        if id in own:
            found.append(replace(own[id], explanation=explanation))
        elif id in READ:
            words = f"{title}. {explanation}" if title != READ[id] else explanation
            found.append(Misconception(id=id, title=READ[id], explanation=words, implementation=None, heading=HEADING))
    return found


def text_of(attempt: Any) -> str:
    """The attempt's source without comments, as Python would write it; empty where there is none."""
    if not isinstance(attempt, Attempt):
        written = source_of(attempt)
        return "" if written is None else ast.unparse(written.tree)
    try:
        return ast.unparse(ast.parse(attempt.source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last for what is nested too deep
        return ""


def read_source(exercise: Exercise, attempt: Any, trials: Sequence[Trial]) -> Read | None:
    """Read the slips in the source; None if there is no source, or far too much of it."""
    written = source_of(attempt)
    if written is None or written.is_long():
        return None
    return read(exercise, written, [trial.case for trial in visibly_wrong(trials)])


def from_source(
    exercise: Exercise,
    attempt: Any,
    trials: Sequence[Trial],
    found: Read | None,
    asking: Asking,
    *,
    confined: bool = False,
) -> FromSource:
    """Return all findings from the source, after `read_source` has `found` the slips that can be read in it."""
    from attnlib.checks.naming.one_change.search import one_change  # imported late: a right answer never needs it

    change = one_change(exercise, attempt, trials, asking, confined=confined)
    if found is None:
        return FromSource(change=change)
    unread = tuple(hint for hint in found.hints if hint.id == "argument_not_used")
    if change is not None and change.id == "one_change_variable" and len(unread) == 1:
        return FromSource(found.certain or unread, names=found.names)  # changing any of several equal numbers would do
    return FromSource(found.certain, change, () if found.certain else found.hints, found.names)
