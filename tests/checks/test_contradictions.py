"""No section of a report contradicts another one; all bugs of practice are tried with those marked `again`."""

import random
from dataclasses import fields, replace

import pytest
from contradictions import contradictions

from attnlib.checks import Exercise, Report, run
from attnlib.checks.asking.observation import Asking
from attnlib.checks.course import find
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.table import Row, rows
from attnlib.checks.verdict.judge import run_exercise
from attnlib.checks.verdict.report import Section

ONE_MISTAKE = [row for row in rows() if row.level < max(LEVELS)]
SAMPLE = random.Random(1).sample(ONE_MISTAKE, 16)
WITHOUT_NAMES = random.Random(2).sample(ONE_MISTAKE, 4)


@pytest.mark.slow
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.key)
def test_a_report_on_one_mistake_blames_no_other_and_contradicts_itself_nowhere(row: Row) -> None:
    report = run(row.exercise, row.bug.answer)
    assert contradictions(report, row.bug.lines) == []


@pytest.mark.slow
@pytest.mark.parametrize("row", WITHOUT_NAMES, ids=lambda row: row.key)
def test_neither_does_a_report_on_a_mistake_that_no_catalogue_knows(row: Row) -> None:
    declared = find(row.exercise)
    bare = Exercise(
        **{field.name: getattr(declared, field.name) for field in fields(Exercise) if field.name != "wrong"}
    )
    report = run_exercise(bare, row.bug.answer, Asking(memory={}))
    assert not report.passed
    assert contradictions(report, row.bug.lines) == []


def told(*sections: tuple[str, str], headline: str = "the values are not right") -> Report:
    report = run("attention_scores", lambda q, k: q @ k.mT)
    return replace(report, headline=headline, sections=tuple(Section(*section) for section in sections))


KNOWN = ("A common misunderstanding: The scale is missing", "The dot products are not divided by √d.")
CHANGE = ("One change away: Another number is needed", "In line 3 (`return q @ k / 2`): with another number …")
UNUSED = ("What your code shows: `k` is never used", "`f` takes it and never reads it.")
SECOND = ("Not explained by it: “gradient”", "By itself, this would leave that right: look for a second mistake.")
SHOWN = ("In the case “one”, called with q", "")


@pytest.mark.parametrize(
    "sections",
    [
        (KNOWN, CHANGE),
        (CHANGE, SECOND),
        (CHANGE, UNUSED),
        (KNOWN, ("What your result shows: The values are right; the gradient is not", "")),
        (SHOWN, ("What this looks like", "Right in: “one”, “two”.")),
        (SHOWN, ("What this looks like", "Wrong in: “two”. Everything else that was tried is right.")),
        (("What this looks like", "Wrong in: “one”. All the other parts are right."), ("Wrong as well", "gradient")),
    ],
)
def test_such_a_report_would_be_found_out(sections: tuple[tuple[str, str], ...]) -> None:
    assert len(contradictions(told(*sections))) == 1


def test_a_section_on_another_line_or_another_mistake_would_be_found_out() -> None:
    assert contradictions(told(CHANGE), [4]) == []
    assert len(contradictions(told(CHANGE), [7])) == 1
    assert len(contradictions(told(KNOWN, SECOND), [7])) == 1
    assert contradictions(told(KNOWN, SECOND)) == []
