"""What `report` writes: CSV files and a page, of a small class and of a graded course."""

import base64
import csv
import io
import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console
from small_class import FIVE, KNOWN, LESSON, LOST, attempt, submission
from tiny_course import RIGHT, TINY

from attnlib.checks import exercises
from autograder import __main__ as command_line
from autograder.grading.grade_course import How, grade
from autograder.report.analysis import MISCONCEPTION, OTHER, analyse, shared_misconceptions
from autograder.report.collect import Submission, collect
from autograder.report.csv_files import write_csv
from autograder.report.page import page
from autograder.report.tables import tables
from autograder.sandbox.probe import probe


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_csv_files_are_tidy(tmp_path):
    findings, figures = map(rows, write_csv(analyse([*FIVE, LOST], KNOWN), tmp_path / "class.csv"))
    assert (tmp_path / "class_exercises.csv").is_file()
    stuck = next(row for row in findings if row["exercise"] == "softmax" and row["finding"] == "over_queries")
    assert (stuck["kind"], stuck["count"], stuck["of"], stuck["share"]) == (MISCONCEPTION, "2", "5", "0.4000")
    assert stuck["students"] == "bea; dan"
    assert {(row["finding"], row["count"]) for row in findings if row["kind"] == "part not earned"} >= {
        ("values", "3"),
        ("large scores", "4"),
    }
    [lost] = [row for row in findings if row["kind"] == "not graded"]
    assert (lost["exercise"], lost["finding"], lost["students"]) == ("", "the notebook is not JSON", "fay")
    row = next(row for row in figures if row["exercise"] == "softmax")
    assert (row["passed"], row["passed_share"], row["not_answered"], row["misconceptions"]) == ("1", "0.2000", "1", "3")
    assert row["discrimination"] == ""


def test_no_cell_of_the_csv_is_a_formula(tmp_path):
    path, _ = write_csv(analyse([submission('=cmd|"/c calc"!A1', attempt(0, "@SUM(1)"))], KNOWN), tmp_path / "a.csv")
    found = next(row for row in rows(path) if row["kind"] == OTHER)
    assert (found["finding"], found["students"]) == ("'@SUM(1)", '\'=cmd|"/c calc"!A1')


@pytest.mark.slow
def test_a_notebook_that_lost_its_metadata_is_counted_with_the_others(klass):
    def lose(notebook):
        for cell in notebook.cells:
            cell.metadata.clear()

    klass.submit("kept", RIGHT)
    klass.submit("lost", RIGHT, lose)
    graded = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
    assert [one.problem for one in graded] == [None, None]
    submissions = collect(klass.layout, (TINY,))
    assert [[attempt.exercise for attempt in one.attempts] for one in submissions] == [list(RIGHT)] * 2
    (analysis,) = analyse(submissions, exercises())
    assert [(item.exercise, item.submissions) for item in analysis.items] == [(name, 2) for name in RIGHT]


class Addresses(HTMLParser):
    """Tags and addresses of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.addresses = set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "data", "action")]


def make_page(submissions, **options):
    shared = shared_misconceptions(submissions, KNOWN, **options)
    return page(analyse(submissions, KNOWN, **options), shared, date(2026, 1, 2), **options)


def test_the_page_needs_nothing_from_elsewhere():
    html = make_page([*FIVE, LOST])
    found = Addresses(html)
    assert not found.tags & {"script", "link", "iframe", "object"}
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in found.addresses)
    plots = [base64.b64decode(a.partition(",")[2]) for a in found.addresses if a.startswith("data:")]
    assert [ElementTree.fromstring(plot).tag for plot in plots] == ["{http://www.w3.org/2000/svg}svg"] * 2
    assert "2 January 2026" in html
    assert re.search(r"over_queries</span> The softmax runs over the queries.*?bea, dan", html, re.DOTALL)


def test_the_same_class_gives_the_same_page():
    assert make_page(FIVE) == make_page(FIVE)


def test_a_page_escapes_what_a_student_could_choose():
    bad = "<script>alert(1)</script>$x$"
    html = make_page([submission(bad, attempt(0, bad)), submission(f"{bad}2", attempt(0, "over_queries"))])
    html += make_page([Submission(bad, LESSON, problem=bad), submission(bad, attempt(0, bad, exercise="softmax"))])
    assert "<script>" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;$x$") >= 6


def test_a_page_for_the_class_names_nobody(tmp_path):
    leaky = [
        submission("fay", attempt(0, "raised FayError: fay was here")),
        Submission("gus", LESSON, problem="gus.ipynb"),
    ]
    everybody = [*FIVE, *leaky]
    html = make_page(everybody, names=False)
    path, figures = write_csv(analyse(everybody, KNOWN, names=False), tmp_path / "a.csv")
    console = Console(width=80, record=True, file=io.StringIO())
    for table in tables(analyse(everybody, KNOWN, names=False)[0]):
        console.print(table)
    visible = re.sub(r'src="data:[^"]*"', "", html)
    for text in (visible, path.read_text(encoding="utf-8"), figures.read_text(encoding="utf-8"), console.export_text()):
        assert not re.search(r"\b(ada|bea|cyd|dan|eve|fay|gus)\b|FayError", text)
    assert "over_queries" in visible
    assert "6 graded, 1 not graded" in visible
    assert [row["count"] for row in rows(path) if row["kind"] == "not graded"] == ["1"]


@pytest.fixture
def command(monkeypatch):
    """Run `report` on a course."""

    def run(layout, *arguments):
        monkeypatch.setattr(command_line, "LAYOUT", layout)
        return CliRunner().invoke(command_line.main, ["report", *map(str, arguments)])

    return run


def test_a_course_in_which_nothing_was_graded(command, layout):
    result = command(layout)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds nothing that was graded; first: python -m autograder grade" in result.stderr
    assert not layout.course.exists()


def test_a_course_without_submissions(command, klass):
    result = command(klass.layout, TINY)
    assert result.exit_code == 1
    assert f"has no submission of {TINY}." in result.stderr


def test_an_unknown_lesson(command, klass):
    assert "No lesson is called '99_none'; there are: 00_tiny." in command(klass.layout, "99_none").stderr


def test_a_file_that_cannot_be_written(command, klass, tmp_path):
    klass.submit("late").write_text("{", encoding="utf-8")
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = command(klass.layout, "--html", tmp_path / "file" / "page.html")
    assert result.exit_code == 1
    assert "page.html cannot be written: File exists." in result.stderr


@pytest.mark.slow
def test_what_was_graded_is_what_is_reported(command, klass, tmp_path):
    wrong = RIGHT | {"pairwise_dot": "def pairwise_dot(x, y):\n    return y @ x.transpose(-2, -1)"}
    klass.submit("ada", RIGHT)
    klass.submit("bea", wrong)
    klass.submit("cyd", wrong)
    klass.submit("dan", {"predict_largest_dot": RIGHT["predict_largest_dot"]})
    klass.submit("eve").write_text("not a notebook", encoding="utf-8")
    for student in ("ada", "bea", "cyd", "dan", "eve"):
        klass.course.autograde(TINY, student)
    found = {one.student: one for one in collect(klass.layout, ())}
    assert found["ada"].attempts[1].parts == dict.fromkeys(KNOWN["pairwise_dot"].parts, True)
    assert (found["eve"].problem, found["eve"].attempts) == ("the notebook is not JSON", ())

    outputs = ["--csv", tmp_path / "out" / "class.csv", "--html", tmp_path / "out" / "class.html"]
    result = command(klass.layout, *outputs)
    assert result.exit_code == 0, result.output
    figures = {row["exercise"]: row for row in rows(tmp_path / "out" / "class_exercises.csv")}
    assert (figures["predict_largest_dot"]["passed"], figures["predict_largest_dot"]["submissions"]) == ("4", "4")
    assert (figures["pairwise_dot"]["passed"], figures["pairwise_dot"]["not_answered"]) == ("1", "1")
    [stuck] = [row for row in rows(tmp_path / "out" / "class.csv") if row["kind"] == MISCONCEPTION]
    assert (stuck["finding"], stuck["count"], stuck["students"]) == ("ys_as_rows", "2", "bea; cyd")
    html = Path(tmp_path / "out" / "class.html").read_text(encoding="utf-8")
    assert "bea, cyd" in html
    assert "the notebook is not JSON" in html
    assert "Wrote " in result.stdout
