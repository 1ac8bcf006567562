"""The item analysis on the terminal, in 80 columns."""

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table

from autograder.report.analysis import Finding, Item, LessonAnalysis
from autograder.report.statistics import SMALLEST_CLASS

STYLE: Any = {
    "title_justify": "left",
    "title_style": "bold",
    "box": box.SIMPLE_HEAD,
    "padding": (0, 1, 0, 0),
    "pad_edge": False,
}
NAMES_SHOWN = 6


def tables(analysis: LessonAnalysis) -> Iterator[Table]:
    """Tabulate a lesson's exercises, their parts, the mistakes, and ungraded submissions, leaving out empty tables."""
    made = [_exercises(analysis), _parts(analysis), _findings(analysis), _not_graded(analysis)]
    yield from (table for table in made if table.row_count)


def _exercises(analysis: LessonAnalysis) -> Table:
    table = Table(title=f"{analysis.lesson}: {analysis.graded} graded, {analysis.without_grade} not graded", **STYLE)
    table.caption = f"Discr.: correlation with the rest of the lesson, n/a below {SMALLEST_CLASS} submissions"
    table.caption_justify = "left"
    table.add_column("Exercise", overflow="fold")
    for heading in ("Passed", "", "95 %", "Points", "Unanswered", "Discr."):
        table.add_column(heading, justify="right", no_wrap=True)
    for item in analysis.items:
        low, high = item.interval
        table.add_row(
            item.exercise,
            f"{item.passed}/{item.submissions}",
            percent(item.share),
            f"{100 * low:.0f}–{100 * high:.0f}",
            percent(item.points),
            str(item.not_answered.count),
            figure(item.discrimination),
        )
    return table


def _parts(analysis: LessonAnalysis) -> Table:
    table = Table(title="Earned each part", **STYLE)
    table.add_column("Exercise", overflow="fold")
    table.add_column("Parts", overflow="fold")
    for item in analysis.items:
        if item.parts:
            table.add_row(item.exercise, ", ".join(f"{part.name} {percent(part.share)}" for part in item.parts))
    return table


def _findings(analysis: LessonAnalysis) -> Table:
    table = Table(title="Stuck on the same", **STYLE)
    table.add_column("Exercise", no_wrap=True)
    table.add_column("Mistake", overflow="fold")
    table.add_column("n", justify="right", no_wrap=True)
    if any(finding.students for item in analysis.items for finding in item.findings):
        table.add_column("Students", overflow="fold")
    for item in analysis.items:
        _add_findings(table, item)
    return table


def _add_findings(table: Table, item: Item) -> None:
    for number, finding in enumerate(item.findings):
        exercise = "" if number else item.exercise
        cells = [finding.title or finding.what, str(finding.count), _students(finding)]
        table.add_row(exercise, *cells[: len(table.columns) - 1])
    if item.findings:
        table.add_section()


def _students(finding: Finding) -> str:
    more = len(finding.students) - NAMES_SHOWN
    named = ", ".join(finding.students[:NAMES_SHOWN])
    return f"{named} and {more} more" if more > 0 else named


def _not_graded(analysis: LessonAnalysis) -> Table:
    table = Table(title="Not graded, and not counted", **STYLE)
    table.add_column("Student", overflow="fold")
    table.add_column("Reason", overflow="fold")
    for one in analysis.not_graded:
        table.add_row(one.student, one.problem or "")
    return table


def percent(share: float) -> str:
    """Format a share for people."""
    return f"{100 * share:.0f} %"


def figure(value: float | None) -> str:
    """Format a correlation with two digits, n/a if there is none."""
    return "n/a" if value is None else f"{value:.2f}"
