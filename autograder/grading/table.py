"""The tables that `grade` prints, one a lesson."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from attnlib.checks.exercise import Exercise
from attnlib.checks.naming.from_source import READ
from attnlib.checks.naming.names import names_in
from autograder.grading.grade_course import Graded
from autograder.grading.results import Result
from autograder.showing.text import printable

TIGHT: Any = {"padding": (0, 1, 0, 0), "pad_edge": False}  # a terminal of 80 columns is to hold a diagnosis


def grading_tables(graded: list[Graded], known: Mapping[str, Exercise]) -> Iterator[Table]:
    """Yield each lesson's table: every exercise's points and the reason for missing ones; then a table of remarks.

    A misconception appears under its title, as for the student. Whole sentences have a table of their own, in which
    80 columns hold them.
    """
    for lesson in sorted({one.lesson for one in graded}):
        table = Table(
            title=lesson or "no lesson", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, **TIGHT
        )
        table.add_column("Student", overflow="fold")
        table.add_column("Score", justify="right", no_wrap=True)
        table.add_column("Exercise", no_wrap=True)
        table.add_column("Points", justify="right", no_wrap=True)
        table.add_column("Diagnosis", overflow="fold", style="yellow")
        sentences = Table(box=box.SIMPLE_HEAD, show_header=False, **TIGHT)
        sentences.add_column("Student", overflow="fold", max_width=24)
        sentences.add_column("Sentence", overflow="fold")
        for one in graded:
            if one.lesson == lesson:
                _add_rows(table, one, known)
                _add_sentences(sentences, one)
        if table.row_count:
            yield table
        elif sentences.row_count:
            sentences.title, sentences.title_justify, sentences.title_style = lesson or "no lesson", "left", "bold"
        if sentences.row_count:
            yield sentences


def _add_rows(table: Table, one: Graded, known: Mapping[str, Exercise]) -> None:
    if one.problem is not None:
        return
    table.add_section()
    student = one.student
    score = f"{one.points:g}/{one.max_points:g}"
    for result in one.results:
        full = result.points >= result.max_points
        mark = ("✓ ", "green") if full else ("✗ ", "red")
        exercise = Text.assemble(mark, printable(result.exercise))
        points = f"{result.points:g}/{result.max_points:g}"
        why = "; ".join(filter(None, [_by_hand(result), "" if full else _told(result, known)]))
        table.add_row(student, score, exercise, points, why)
        student, score = "", ""


def _by_hand(result: Result) -> str:
    return "" if result.in_place_of is None else f"given by hand in place of {result.in_place_of:g}"


def _told(result: Result, known: Mapping[str, Exercise]) -> str:
    named = names_in(known.get(result.exercise)).get(result.diagnosis or "")
    if named is None and result.diagnosis in READ:  # its title belongs to this answer alone
        return result.in_short or ""
    return named.title if named else result.diagnosis or ""


def _add_sentences(table: Table, one: Graded) -> None:
    """Add the reason it was not graded, and the remarks on it."""
    problem = [Text(printable(one.problem), style="yellow")] if one.problem is not None else []
    for number, text in enumerate([*problem, *(Text(printable(remark), style="dim") for remark in one.remarks)]):
        table.add_row("" if number else one.student, text)
