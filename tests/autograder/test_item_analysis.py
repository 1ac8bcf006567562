"""`python -m autograder report`: small classes, counted by hand."""

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
from tiny_course import RIGHT, TINY

from attnlib.checks import exercises
from autograder import __main__ as command_line
from autograder.report.analysis import MISCONCEPTION, OTHER, analyse, shared_misconceptions
from autograder.report.collect import Attempt, Submission, collect
from autograder.report.csv_files import write_csv
from autograder.report.page import page
from autograder.report.statistics import chance, discrimination, wilson
from autograder.report.tables import tables

KNOWN = exercises()
LESSON = "02_scaled_dot_product_attention"
PARTS = KNOWN["softmax"].parts  # values 2, large scores 1, gradient 1, robustness 1


def attempt(points, diagnosis=None, right=(), exercise="softmax"):
    worth = KNOWN[exercise].parts
    return Attempt(exercise, points, sum(worth.values()), diagnosis, {part: part in right for part in worth})


def submission(student, *attempts):
    return Submission(student, LESSON, attempts)


FIVE = [
    submission("ada", attempt(5, right=PARTS)),
    submission("bea", attempt(0, "over_queries"), attempt(0, "no_scale", exercise="attention_scores")),
    submission("cyd", attempt(3, "no_shift", right=("values", "robustness"))),
    submission("dan", attempt(0, "over_queries")),
    submission("eve", attempt(0, "not answered")),
]
LOST = Submission("fay", LESSON, problem="the notebook is not JSON")


def softmax(submissions, **options):
    return next(item for item in analyse(submissions, KNOWN, **options)[0].items if item.exercise == "softmax")


def test_wilson_as_published():
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3
    for successes, trials, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)]:
        assert wilson(successes, trials) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert wilson(29, 29) == (pytest.approx(0.8830, abs=5e-5), 1)


def test_discrimination_is_the_point_biserial_correlation():
    # 10 that passed have 4 in the rest, 10 that did not have 2, two of them swapped: means 3.8 and 2.2, deviation 1
    passed = [True] * 10 + [False] * 10
    rest = [4.0] * 9 + [2.0] + [2.0] * 9 + [4.0]
    assert discrimination(passed, rest) == pytest.approx((3.8 - 2.2) / 1 * 0.5)


@pytest.mark.parametrize(
    ("right", "wrong", "rest"), [(10, 9, None), (18, 2, None), (2, 18, None), (20, 0, None), (10, 10, 3.0)]
)
def test_discrimination_of_too_few_is_not_said(right, wrong, rest):
    passed = [True] * right + [False] * wrong
    assert discrimination(passed, [float(n) if rest is None else rest for n in range(right + wrong)]) is None


def test_chance_is_said_from_the_smallest_class_on():
    assert chance(19) is None
    assert chance(26) == pytest.approx(1.96 / 5, abs=1e-5)


def test_a_class_of_five_counted_by_hand():
    item = softmax([*FIVE, LOST])
    assert (item.submissions, item.passed, item.share) == (5, 1, 0.2)
    assert item.points == pytest.approx((5 + 0 + 3 + 0 + 0) / 25)
    assert item.not_answered.students == ("eve",)
    assert item.discrimination is None
    assert [(found.what, found.count, found.students) for found in item.findings] == [
        ("over_queries", 2, ("bea", "dan")),
        ("no_shift", 1, ("cyd",)),
    ]
    assert item.findings[0].title == "The softmax runs over the queries"
    assert [(part.name, part.earned, part.known) for part in item.parts] == [
        ("values", 2, 5),
        ("large scores", 1, 5),
        ("gradient", 1, 5),
        ("robustness", 2, 5),
    ]
    assert item.parts[1].without == ("bea", "cyd", "dan", "eve")


def test_an_exercise_counts_only_those_who_had_it():
    [lesson] = analyse(FIVE, KNOWN)
    assert [(item.exercise, item.submissions) for item in lesson.items] == [("attention_scores", 1), ("softmax", 5)]


def test_what_was_not_graded_counts_nowhere():
    [lesson] = analyse([*FIVE, LOST], KNOWN)
    assert (lesson.graded, lesson.without_grade, lesson.not_graded) == (5, 1, (LOST,))
    assert softmax([*FIVE, LOST]) == softmax(FIVE)


def test_a_lesson_of_which_nothing_was_graded():
    [lesson] = analyse([LOST], KNOWN)
    assert (lesson.graded, lesson.items) == (0, ())
    assert "the notebook is not JSON" in page([lesson], [], date(2026, 1, 2))


def test_equal_mistakes_with_unequal_details_are_one():
    said = ["raised ValueError: no 1", "raised ValueError: no 2", "SyntaxError", None]
    item = softmax([submission(f"s{n}", attempt(0, text)) for n, text in enumerate(said)])
    assert [(found.kind, found.what, found.count) for found in item.findings] == [
        (OTHER, "raised ValueError", 2),
        (OTHER, "SyntaxError", 1),
        (OTHER, "none of the usual mistakes", 1),
    ]


def test_what_a_result_shows_is_a_mistake_with_a_title_too():
    class_of_three = [submission(name, attempt(0, "rows_with_a_factor")) for name in ("amy", "bob")]
    class_of_three.append(submission("cem", attempt(0, "one_factor_more")))
    found = softmax(class_of_three, names=False).findings
    assert [(one.kind, one.title, one.count) for one in found] == [
        ("misconception", "Each row is right but for a factor of its own", 2),
        ("misconception", "Every number is … times the right one", 1),
    ]


def test_parts_that_contradict_the_gradebook_are_not_counted():
    forged = submission("x", attempt(3, right=PARTS))
    unknown = submission("y", Attempt("softmax", 3, 5, None, {"anything": True}))
    item = softmax([*FIVE, forged, unknown])
    assert (item.parts[0].earned, item.parts[0].known, item.submissions) == (2, 5, 7)


def test_a_misconception_is_followed_through_the_exercises():
    both = submission("cyd", attempt(0, "over_queries"), attempt(0, "no_scale", exercise="attention_scores"))
    again = submission("bea", attempt(0, "over_queries", exercise="scaled_dot_product_attention"))
    first, second = shared_misconceptions([both, again, FIVE[1]], KNOWN)
    assert (first.what, first.count, first.students) == ("no_scale", 2, ("bea", "cyd"))
    assert (second.what, second.count, second.students) == ("over_queries", 2, ("bea", "cyd"))
    assert second.exercises == ("softmax", "scaled_dot_product_attention")


def test_the_tables_say_it_in_80_columns():
    console = Console(width=80, record=True, file=io.StringIO())
    for table in tables(analyse([*FIVE, LOST], KNOWN)[0]):
        console.print(table)
    lines = [" ".join(line.split()) for line in console.export_text().splitlines()]
    assert "softmax 1/5 20 % 4–62 32 % 1 n/a" in lines
    assert "softmax over_queries 2 bea, dan" in lines
    assert "fay the notebook is not JSON" in lines
    assert f"{LESSON}: 5 graded, 1 not graded" in lines


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
    assert (stuck["finding"], stuck["count"], stuck["students"]) == ("exchanged", "2", "bea; cyd")
    html = Path(tmp_path / "out" / "class.html").read_text(encoding="utf-8")
    assert "bea, cyd" in html
    assert "the notebook is not JSON" in html
    assert "Wrote " in result.stdout
