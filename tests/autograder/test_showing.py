"""What a student may have chosen is shown as it is written: it moves no cursor, computes nothing, and is no markup."""

import csv
import io
from datetime import date
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.progress import Progress, TextColumn
from tiny_course import TINY

from attnlib.checks import exercises
from autograder import __main__ as command_line
from autograder.grading.grade_course import Graded
from autograder.grading.results import Result
from autograder.grading.table import grading_tables
from autograder.report.analysis import analyse
from autograder.report.collect import Mark, Submission
from autograder.report.csv_files import write_csv
from autograder.report.page import page
from autograder.report.tables import tables
from autograder.showing.errors import CourseError
from autograder.showing.pages import fill_in
from autograder.showing.spreadsheet import as_cell, write_rows
from autograder.showing.terminal import Terminal, say

HOSTILE = "\x1b]8;;http://evil\x07[link=http://evil][bold]\x1b[2J\u202e\x9b31m\r:bomb:"
SHOWN = r"\x1b]8;;http://evil\x07[link=http://evil][bold]\x1b[2J\u202e\x9b31m\r:bomb:"
IN_RICH = SHOWN.replace(r"\x07", "").replace(r"\r", "")  # which leaves these out by itself
FORMULAS = ["=1+1", "+1+cmd", "-1+cmd", "@SUM(1)", "\t=1", "\r=1", " =1", '"=1', "'=1", "＝1", "ada;=1", "ada; -x", "-"]


def shown(*renderables, width=400):
    """All that a terminal is sent for these."""
    file = io.StringIO()
    terminal = Terminal(file=file, width=width, force_terminal=True, color_system="truecolor")
    for renderable in renderables:
        terminal.print(renderable)
    return file.getvalue()


def is_harmless(text):
    return not any(bad in text for bad in ("\x1b]", "\x1b[2J", "\u202e", "\x9b", "\r", "\x07", "💣"))


def test_a_terminal_shows_text_as_it_is_written():
    text = shown(HOSTILE)
    assert text == SHOWN + "\n"
    assert shown("[red]a[/red]") == "[red]a[/red]\n"


def test_the_tables_of_grade_and_report_move_no_cursor():
    graded = [
        Graded(HOSTILE, TINY, [Result(HOSTILE, 0.0, 1.0, HOSTILE)]),
        Graded(HOSTILE, HOSTILE, problem=HOSTILE),
    ]
    attempts = [Mark("softmax", 0.0, 5.0, HOSTILE), Mark(HOSTILE, 0.0, 1.0, HOSTILE)]
    submissions = [Submission(HOSTILE, TINY, tuple(attempts)), Submission(HOSTILE, HOSTILE, problem=HOSTILE)]
    made = [*grading_tables(graded, {}), *(table for one in analyse(submissions, {}) for table in tables(one))]
    for table in made:
        text = shown(table)
        assert is_harmless(text), table.title
        assert SHOWN in text


def test_a_misconception_is_told_by_its_title():
    said = {"not_summed": "", "TypeError: no": "TypeError", "argument_not_used": "the values are not right"}
    graded = Graded("ada", TINY, [Result("pairwise_dot", 0.0, 1.0, *why) for why in said.items()])
    attempts = [Mark("pairwise_dot", 0.0, 1.0, in_short=short, diagnosis=name) for name, short in said.items()]
    (analysis,) = analyse([Submission("ada", TINY, tuple(attempts))], exercises())
    *_, found = tables(analysis)
    of_grade, of_report = map(shown, (*grading_tables([graded], exercises()), found))
    for text in (of_grade, of_report):
        assert next(m.title for m in exercises()["pairwise_dot"].misconceptions if m.id == "not_summed") in text
        assert not {"not_summed", "argument_not_used"} & set(text.split())
        assert "the values are not right" in text
    assert "TypeError: no" in of_grade


def test_points_that_a_person_gave_stand_in_the_table_of_grade():
    results = [Result("softmax", 2.5, 4.0, "no_scale", in_place_of=0.0), Result("x", 1.0, 1.0)]
    text = shown(*grading_tables([Graded("ada", TINY, results)], {}))
    assert "3.5/5" in text
    assert "2.5/4" in text
    assert "given by hand in place of 0; no_scale" in text


def test_the_progress_line_moves_no_cursor():
    file = io.StringIO()
    terminal = Terminal(file=file, width=300, force_terminal=True)
    with Progress(TextColumn("{task.description}", markup=False), console=terminal) as progress:
        progress.add_task(HOSTILE)
    assert IN_RICH[:50] in file.getvalue()
    assert is_harmless(file.getvalue().replace("\r", "").replace("\x1b[2K", ""))


def test_an_error_moves_no_cursor(monkeypatch, layout):
    def fail(*_):
        raise CourseError(f"{HOSTILE}\nsecond line")

    monkeypatch.setattr("autograder.building.build_course.prepare", fail)
    result = CliRunner().invoke(command_line.main, ["prepare"])
    assert result.stderr == f"{SHOWN}\nsecond line\n"


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(text):
    cell = as_cell(text)
    for part in cell.split(";"):
        assert part.lstrip(" \"'")[:1] not in set("=+-@＝＋－＠\t\r") or "'" in part, cell
    assert cell.replace("'", "") == text.replace("\t", r"\t").replace("\r", r"\r").replace("'", "")


@pytest.mark.parametrize("number", [-1, -0.25, 3.5, "-0.2500", "12", None])
def test_a_number_is_a_number(number):
    assert as_cell(number) is number or as_cell(number) == number


def test_a_csv_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "a.csv"
    write_rows(path, ["a", "b"], [{"a": HOSTILE, "b": -1.5}, {"a": 'x,"y"\nz'}])
    assert is_harmless(path.read_bytes().decode().replace("\r\n", "\n"))
    with path.open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{"a": SHOWN, "b": "-1.5"}, {"a": r'x,"y"\nz', "b": ""}]


def test_the_files_of_a_report_hold_nothing_invisible(tmp_path):
    submissions = [
        Submission(f"\udcff{HOSTILE}", TINY, (Mark("softmax", 0.0, 5.0, HOSTILE),)),
        Submission("=1", TINY, problem="\udcff"),
    ]
    analyses = analyse(submissions, {})
    html = page(analyses, [], date(2026, 1, 2))
    assert is_harmless(html)
    html.encode()
    for path in write_csv(analyses, tmp_path / "a.csv"):
        text = path.read_bytes().decode()
        assert is_harmless(text.replace("\r\n", "\n"))


def test_a_page_keeps_its_markup(tmp_path):
    template = Path(tmp_path / "a.html")
    template.write_text("{{ text | twice }} {{ text }}", encoding="utf-8")
    from markupsafe import Markup

    html = fill_in(template, {"twice": lambda text: Markup("<b>{}</b>").format(text)}, text="<i>\u202e")
    assert html == r"<b>&lt;i&gt;\u202e</b> &lt;i&gt;\u202e"


def test_what_is_said_keeps_its_lines():
    @click.command()
    def command():
        say(f"one\n{HOSTILE}")

    assert CliRunner().invoke(command).stdout == f"one\n{SHOWN}\n"
