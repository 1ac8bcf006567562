"""When a mistake comes back, and what a broken, an old or a read-only file costs."""

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from practised import START, cards, opened, text

from attnlib.checks.practising import review as reviewing
from attnlib.checks.practising.choose import Refused
from attnlib.checks.practising.play import Practice
from attnlib.checks.practising.review import AFRESH, NOT_INSTALLED, Review, review, slip_of
from attnlib.checks.standing import kept


def test_what_was_found_comes_back_when_it_is_due_in_other_code(practice, file):
    practice()
    found = opened(practice)
    practice.line(*found.lines)
    due = datetime.fromisoformat(cards(file)[slip_of(found.slip)]["due"])
    assert timedelta(days=1) <= due - START <= timedelta(days=5)
    again = Practice()
    again.now = lambda: due + timedelta(minutes=1)
    assert "You have seen this mistake before" in text(again())
    assert slip_of(opened(again).slip) == slip_of(found.slip)


def test_what_was_given_up_is_due_before_what_was_found():
    ratings = {}
    for rating in (reviewing.SOLVED, reviewing.WITH_HELP, reviewing.GIVEN_UP):
        seen = Review()
        reviewing.remember(seen, "no_scale", 3, rating, START)
        ratings[rating] = datetime.fromisoformat(seen.cards["no_scale"]["due"]) - START
    assert ratings["Again"] <= ratings["Hard"] <= ratings["Good"]
    assert ratings["Again"] < ratings["Good"]


@pytest.mark.parametrize(
    "history",
    [
        [],
        {},
        {"version": 0, "cards": {}, "solved": {}},
        {"version": 1, "cards": {"no_scale": {"due": "tomorrow"}}, "solved": {}},
        {"version": 1, "cards": {"no_scale": {"due": "2026-05-13"}}, "solved": {}},
        {"version": 1, "cards": {"no_scale": []}, "solved": {}},
        {"version": 1, "cards": {}, "solved": {"a": 1}},
    ],
)
def test_a_broken_or_old_history_costs_itself_alone_and_is_told(file, practice, history):
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "practice": history}))
    assert AFRESH in text(practice())
    practice.line(*opened(practice).lines)
    assert json.loads(file.read_text())["best"] == told["best"]
    assert AFRESH not in text(Practice()())


def test_a_damaged_file_is_named_and_left_as_it_is(file, practice):
    file.write_text("{")
    with pytest.raises(Refused, match="is damaged"):
        practice()
    assert "is damaged" in text(practice(everything=True))
    practice.give_up()
    assert file.read_text() == "{"


def test_scores_and_history_do_not_overwrite_each_other(file, practice):
    practice()
    practice.give_up()
    kept.BEST["pairwise_dot"] = 1.0
    kept.best_scores()
    told = json.loads(file.read_text())
    assert told["best"]["pairwise_dot"] == 1.0
    assert len(told["practice"]["cards"]) == 1


def test_without_fsrs_nothing_is_scheduled_and_it_says_so(file, practice, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsrs", None)
    assert NOT_INSTALLED in text(practice())
    told = text(practice.line(*opened(practice).lines))
    assert "due again" not in told
    assert json.loads(file.read_text())["practice"] == {"version": 1, "cards": {}, "solved": {"1": 1}}


def test_a_folder_that_cannot_be_written_is_said_in_one_sentence(file, practice, monkeypatch):
    practice()
    monkeypatch.setenv(kept.PLACE, str(file.parent / "missing" / "file.json"))
    assert text(practice.give_up()).count("cannot be written (No such file or directory)") == 1


def test_a_history_is_read_as_it_was_written(file, practice):
    practice()
    practice.give_up()
    assert review().cards == cards(file)
    assert Path(kept.place()) == file


def test_a_bug_of_the_round_before_counts_in_none(practice):
    for _ in range(4):
        practice() if practice.round is None else practice.next()
        practice.give_up()
    practice.now = lambda: START + timedelta(days=30)
    practice.next()
    left_open = opened(practice)
    practice.due(most=1)
    practice.line(*left_open.lines)
    practice.next()
    practice.give_up()
    assert text(practice.next()) == "That was all: 1 bug, 0 found, 1 given up. practice() continues."
