"""A repair that isn't right yet: what its check sees now, without naming the mistake that is still to be found."""

from typing import Any

from attnlib.checks.course.declare import WrittenExercise
from attnlib.checks.exercise import Misconception
from attnlib.checks.naming.from_source import text_of
from attnlib.checks.practising.bug import Bug
from attnlib.checks.practising.review import slip_of
from attnlib.checks.verdict.report import Report, Section, headline


def is_unchanged(bug: Bug, attempt: Any) -> bool:
    """True if the attempt is the bug's own code, apart from comments and spaces: its cell was run as it came."""
    text = text_of(attempt)
    return bool(text) and text == text_of(bug.answer)


def still_wrong(bug: Bug, report: Report) -> list[Section]:
    """Return the verdict and where the result differs now; and a misconception's explanation if the repair has one."""
    found = [m for m in bug.declared.misconceptions if m.id == report.diagnosis and not _is_of(bug, m)]
    seen = [section for section in report.sections[:1] if section.body and not section.fixed and report.parts]
    named = [s for s in report.sections[1:] if any(s.heading.endswith(f": {m.title}") for m in found)]
    return [Section("", headline(report).rpartition(" (")[0]), *seen, *named]


def _is_of(bug: Bug, named: Misconception) -> bool:
    """True if what the check names is a mistake of the bug's own, alone or with another one."""
    declared = bug.declared
    assert isinstance(declared, WrittenExercise)
    told = declared.wrong_called(bug.slip).told
    own = {slip_of(name) for name in (told.id, told.same_as, *told.both) if name}
    return not own.isdisjoint(map(slip_of, (named.id, *named.both)))
