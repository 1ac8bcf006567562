"""Regrade requests: taken once, read beside the code, decided once, and kept when the answer is judged again."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from click.testing import CliRunner
from tiny_course import POINTS, RIGHT, TINY

from autograder.__main__ import main
from autograder.elsewhere.requests import Requests
from autograder.grading import grade_course
from autograder.in_nbgrader.shares import in_share
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError

WRONG = RIGHT["pairwise_dot"].replace("return ", "return 2 * ")
HEAD = "student_id,assignment,exercise,text\n"


@pytest.fixture
def asked(klass, tmp_path):
    """Two graded students, and the command on their course."""
    for student in ("ada", "bob"):
        klass.submit(student, {"pairwise_dot": WRONG})
    grade(klass)

    def call(*arguments: str, table: str | None = None, code: int = 0) -> str:
        if table is not None:
            (tmp_path / "form.csv").write_text(HEAD + table, encoding="utf-8")
            arguments = (*arguments, str(tmp_path / "form.csv"))
        done = CliRunner().invoke(main, ["requests", "--course", str(klass.layout.course), *arguments])
        assert done.exit_code == code, done.output
        return done.output

    return call


def grade(klass, *, again: bool = False) -> None:
    how = grade_course.How(layers=probe(), again=again)
    grade_course.grade(klass.layout, klass.submitted, (TINY,), how)


def open_one(klass) -> str:
    (request,) = Requests(klass.layout).all()
    return request.id


def test_what_lateness_costs_is_of_the_points_after_the_decision(klass, tmp_path):
    """Else a late student would be sent the difference, until somebody grades again."""
    (klass.layout.course / "course_settings.py").write_text(
        'c = get_config()\nc.LateSubmissionPlugin.penalty_method = "zero"\n', encoding="utf-8"
    )
    with klass.course.gradebook() as book, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book.update_or_create_assignment(TINY, duedate=datetime(2026, 1, 1))
        book.update_or_create_student("ada")
        book.update_or_create_submission(TINY, "ada", timestamp=datetime(2026, 1, 2))
    (tmp_path / "form.csv").write_text(f"{HEAD}ada,{TINY},pairwise_dot,Look again.\n", encoding="utf-8")
    requests = Requests(klass.layout)
    requests.take(tmp_path / "form.csv")
    requests.decide(open_one(klass), "It is right.", "tim", 4.0)
    with klass.course.gradebook() as book:
        found = book.find_submission(TINY, "ada")
        assert found.late_submission_penalty == found.score == 4.0


@pytest.mark.slow
def test_an_assistant_reads_a_request_and_accepts_it_and_the_points_stay(asked, klass):
    text = f'ada,{TINY},pairwise_dot,"It is only a factor.\nSee\x1b[2J the plot."\n'
    assert asked("take", table=text) == "1 new request.\n"
    assert asked("take", table=text) == "0 new requests.\n"
    listed = asked()
    assert f"ada, {TINY}, pairwise_dot: 0 of {POINTS['pairwise_dot']} points" in listed
    assert "It is only a factor." in listed
    assert "\\x1b[2J" in listed
    assert "One change away" in listed
    assert WRONG.splitlines()[1].strip() in listed

    id = open_one(klass)
    assert "--points should be from 0 to 4, got 5." in asked("accept", id, "--points=5", "--because=No.", code=1)
    asked("accept", id, "--points=2", "--because=The idea is right.", "--by=tim")
    assert klass.scores("ada")["test_pairwise_dot"] == 0
    grade(klass, again=True)
    with klass.course.gradebook() as gradebook:
        notebook = gradebook.find_submission_notebook(TINY, TINY, "ada")
        assert {one.name: one.score for one in notebook.grades}["test_pairwise_dot"] == 2
        comments = {one.name: one.comment for one in notebook.comments}
    assert comments["pairwise_dot"] == "Regrade request accepted: The idea is right."
    assert asked() == "0 requests.\n"
    assert "accepted:\n    by tim: The idea is right." in asked("--all")
    refused = asked("refuse", id, "--because=Too late.", code=1)
    assert refused == f"{id} was accepted by tim: The idea is right.\n"


@pytest.mark.slow
def test_a_refusal_leaves_the_points_and_says_why(asked, klass):
    asked("take", table=f"bob,{TINY},test_pairwise_dot,Why?\n")
    asked("refuse", open_one(klass), "--because=A factor of two is not a matter of style.")
    with klass.course.gradebook() as gradebook:
        found = gradebook.find_grade("test_pairwise_dot", TINY, TINY, "bob")
        assert (found.score, found.manual_score) == (0, None)


@pytest.mark.slow
def test_of_two_who_decide_at_a_time_one_does(asked, klass):
    asked("take", table=f"ada,{TINY},pairwise_dot,Why?\n")
    id = open_one(klass)

    def decide(by: str) -> str:
        try:
            return Requests(klass.layout).decide(id, f"So says {by}.", by, 1.0).by
        except CourseError:
            return "too late"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, ["tim", "una"])) in (["tim", "too late"], ["too late", "una"])
    (request,) = Requests(klass.layout).all(decided=True)
    assert request.because == f"So says {request.by}."


@pytest.mark.slow
def test_a_line_that_is_no_request_is_named_and_the_others_are_taken(asked, tmp_path):
    lines = [
        f"ada,{TINY},pairwise_dot,Why?",
        f"eve,{TINY},pairwise_dot,Why?",
        f"bob,{TINY},none,Why?",
        f"bob,{TINY},x,",
    ]
    said = asked("take", table="\n".join(lines), code=1)
    assert said.startswith("1 new request.\n")
    assert f"Not taken: line 3: nothing of eve in {TINY} was graded." in said
    assert f"line 4: {TINY} has no exercise 'none'; there are: pairwise_dot, predict_largest_dot." in said
    assert "line 5: there is no text." in said
    (tmp_path / "other.csv").write_text("a,b\n")
    assert "should have the columns student_id, assignment, exercise, text; student_id is missing." in asked(
        "take", str(tmp_path / "other.csv"), code=1
    )
    assert "There is no request '../x'" in asked("refuse", "../x", "--because=No.", code=1)
    assert "--share should be like 2/3, the second of three shares, got '3/2'." in asked("--share=3/2", code=1)


def test_help_makes_no_course(tmp_path):
    done = CliRunner().invoke(main, ["requests", "--course", str(tmp_path / "course"), "accept", "--help"])
    assert done.exit_code == 0
    assert not (tmp_path / "course").exists()


def test_a_course_that_is_not_there_is_said_and_not_made(tmp_path):
    done = CliRunner().invoke(main, ["requests", "--course", str(tmp_path / "typo")])
    assert done.exit_code != 0
    assert "required is a course's folder, and there is none" in f"{done.output}{done.exception}"
    assert not (tmp_path / "typo").exists()


def test_each_student_is_in_one_share():
    students = [f"student {number}" for number in range(100)]
    shares = [{one for one in students if in_share(one, (number, 3))} for number in (1, 2, 3)]
    assert sum(map(len, shares)) == len(set.union(*shares)) == 100
    assert all(len(share) > 20 for share in shares)
