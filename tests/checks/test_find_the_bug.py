"""The benchmark: the same lines each time, 300 bugs kept out with all that is like them, answers scored."""

import json

import pytest

from attnlib.checks.practising.records import record, ten_bugs
from attnlib.checks.practising.review import slip_of
from attnlib.checks.practising.table import rows
from benchmarks import find_the_bug
from benchmarks.find_the_bug import as_lines, bugs, kept_out, main, score

ROW = next(row for row in rows() if row.exercise == "attention_scores" and row.silent)
TWO = next(row for row in rows() if row.level == 6)


def test_three_hundred_are_kept_out_by_the_seed():
    assert len(kept_out()) == 300
    assert kept_out() == kept_out()
    assert kept_out(1) != kept_out()
    assert {row.key for row in bugs(held=True)} == kept_out()
    assert len(bugs()) == len(rows()) - 300


def test_nothing_that_is_kept_out_has_a_twin_in_the_public_file():
    held, public = ({(row.exercise, slip_of(row.slip)) for row in bugs(held=which)} for which in (True, False))
    assert held & public == set()


def test_the_lines_are_the_same_each_time():
    some = bugs()[::400]
    assert list(as_lines(some)) == list(as_lines(some))
    told = json.loads(next(iter(as_lines(some))))
    assert set(told) == {
        *("version", "id", "lesson", "exercise", "level", "silent", "contract", "symptom", "code", "options"),
        *("lines", "repair", "letter", "explanation"),
    }


def test_right_answers_are_right_in_all_three_ways():
    bug, right = record(ROW), ROW.bug.right
    answer = {"id": bug["id"], "lines": bug["lines"][:1], "letter": bug["letter"], "code": right}
    assert score(bug, answer, may_run=True) == {"line": True, "letter": True, "repair": True}
    assert "repair" not in score(bug, answer, may_run=False)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"lines": []}, {"line": False}),
        ({"lines": "7"}, {"line": False}),
        ({"lines": [1, 2, 3, 4, 5, 6, 7, 8]}, {"line": False}),
        ({"letter": "E"}, {"letter": False}),
        ({"code": "def attention_scores(q, k"}, {"repair": False}),
        ({"code": "import torch"}, {"repair": False}),
        ({}, {}),
    ],
)
def test_wrong_answers_are_wrong(answer, found):
    assert score(record(ROW), answer, may_run=True) == found


def test_of_two_bugs_both_have_to_be_named():
    bug = record(TWO)
    assert not score(bug, {"lines": bug["lines"][:1]}, may_run=False)["line"]
    assert score(bug, {"lines": bug["lines"]}, may_run=False)["line"]


def test_it_is_written_and_scored_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(find_the_bug, "rows", lambda: rows()[:360])
    file, answers = tmp_path / "bugs.jsonl", tmp_path / "answers.jsonl"
    assert main(["write", str(file)]) == 0
    assert capsys.readouterr().out.startswith("60 bugs, ")
    asked = find_the_bug.read(file)
    answers.write_text("".join(json.dumps({"id": bug["id"], "lines": bug["lines"]}) + "\n" for bug in asked[:30]))
    assert main(["score", str(file), str(answers)]) == 0
    assert capsys.readouterr().out.split("\n")[-2].split() == ["all", "60", "50.0%", "0.0%", "0.0%"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", 'line 1: required is a JSON object with an "id", got {'), ('{"id": "x"}', "there is no bug 'x'")],
)
def test_a_broken_file_of_answers_is_one_sentence(tmp_path, capsys, text, message):
    (tmp_path / "bugs.jsonl").write_text(json.dumps(record(ROW)) + "\n")
    (tmp_path / "answers.jsonl").write_text(text + "\n")
    assert main(["score", str(tmp_path / "bugs.jsonl"), str(tmp_path / "answers.jsonl")]) == 1
    assert message in capsys.readouterr().err


def test_a_page_has_ten_short_bugs_of_ten_exercises():
    page = ten_bugs()
    assert len({bug["exercise"] for bug in page}) == 10
    assert page == ten_bugs()
    assert page != ten_bugs(seed=1)
    assert json.loads(json.dumps(page)) == page
