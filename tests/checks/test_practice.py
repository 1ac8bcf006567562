"""Practice: what is asked, how it is answered, and what it costs."""

import doctest
import json
import re
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from practised import START, cards, letter, opened, text

from attnlib.checks import exercises
from attnlib.checks.course import find
from attnlib.checks.practising import choose as choosing
from attnlib.checks.practising.bug import bug_of
from attnlib.checks.practising.choose import Refused, candidates, choose
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.play import Practice
from attnlib.checks.practising.quiz import LETTERS, explanations, hints, line_named
from attnlib.checks.practising.review import Review, slip_of
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import rows

LESSON = "02_scaled_dot_product_attention"
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "practice.md"


def test_only_what_has_passed_is_asked(practice):
    for _ in range(8):
        practice() if practice.round is None else practice.next()
        assert opened(practice).exercise in ("attention_scores", "softmax", "scaled_dot_product_attention")
        practice.give_up()


def test_a_bug_is_shown_with_its_contract_its_symptom_and_its_code(practice):
    shown = text(practice(LESSON))
    bug = opened(practice)
    assert f"Find the bug in {bug.exercise} (level 1: an exception)" in shown
    assert " ".join(bug.contract.split()) in shown
    assert "What you see:" in shown
    assert bug.code.split("\n")[-1].strip() in shown
    assert f"practice.repaired({bug.exercise})" in shown


def test_in_a_notebook_the_code_is_the_next_cell(practice, monkeypatch):
    cells = []
    shell = SimpleNamespace(kernel=1, set_next_input=cells.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    shown = practice(LESSON)
    bug = opened(practice)
    assert cells == [f"{bug.code}\n\n\npractice.repaired({bug.exercise})"]
    assert "The code is in the next cell. To number its lines, press Esc, then Shift+L." in text(shown)
    html = shown._repr_mimebundle_()["text/html"]
    assert "<code>practice.line(7)</code>" in html
    assert bug.code.split("\n")[-1].strip() not in html


def test_naming_the_line_is_an_answer(practice, file):
    practice()
    bug = opened(practice)
    told = text(practice.line(bug.lines[0]))
    assert told.startswith(f"Right: line {bug.lines[0]} The change:")
    assert " ".join(bug.explanation.split())[:60] in told
    assert "This mistake is due again in" in told
    assert list(cards(file)) == [slip_of(bug.slip)]


def test_a_line_can_be_named_by_a_piece_of_its_text(practice):
    practice()
    bug = opened(practice)
    line = bug.code.split("\n")[bug.lines[0] - 1]
    assert text(practice.line(line)).startswith("Right")


def test_another_line_is_not_it_and_costs(practice, file):
    practice()
    bug = opened(practice)
    other = next(n for n, line in enumerate(bug.code.split("\n"), 1) if line.strip() and n not in bug.lines)
    assert text(practice.line(other)).startswith(f"Not yet Line {other} does what it should:")
    practice.line(*bug.lines)
    assert json.loads(file.read_text())["practice"]["solved"] == {}


@pytest.mark.parametrize("answer", ["line", "because", "repaired"])
def test_each_way_to_answer_without_help_counts_as_found(practice, file, answer):
    practice()
    bug = opened(practice)
    if answer == "line":
        practice.line(*bug.lines)
    elif answer == "because":
        practice.because(letter(practice).lower())
    else:
        namespace = {}
        exec(bug.right, namespace)
        assert text(practice.repaired(namespace[bug.exercise])).startswith("Right: the check passes")
    assert json.loads(file.read_text())["practice"]["solved"] == {"1": 1}


def test_several_wrong_lines_are_all_named():
    bug = bug_of("QKVProjection", "biases_unused")
    assert bug.diff().startswith(f"lines {bug.lines[0]} to {bug.lines[-1]}:\n- ")


def test_an_explanation_that_is_not_true_is_said_so(practice):
    practice()
    wrong = letter(practice, right=False)
    assert text(practice.because(wrong)).startswith(f"Not yet {wrong} is not true of this code:")
    with pytest.raises(ValueError, match="an explanation is named by A, B, C, D, got 'E'"):
        practice.because("E")


def test_a_hint_costs_and_narrows_down(practice, file):
    practice()
    bug = opened(practice)
    first, last = map(int, re.search(r"lines (\d+) to (\d+)", text(practice.hint())).groups())
    assert first <= bug.lines[0] <= last
    ends = [bug.code.split("\n")[n - 1].strip() for n in (first, last)]
    assert all(ends)
    gone = re.search(r"not true of it: ([A-D, ]+)", text(practice.hint()))[1].split(", ")
    assert letter(practice) not in gone
    assert "There are no more hints." in text(practice.hint())
    practice.line(*bug.lines)
    assert json.loads(file.read_text())["practice"]["solved"] == {}


def test_giving_up_shows_the_change_and_its_reason(practice):
    practice()
    bug = opened(practice)
    told = text(practice.give_up())
    assert " ".join(bug.diff().split()) in told
    assert " ".join(bug.explanation.split()) in told
    with pytest.raises(Refused, match=r"Nothing is open: practice\(\) opens a bug or a question"):
        practice.line(1)


def test_two_at_once_want_both_lines(practice):
    practice(only="two")
    bug = opened(practice)
    assert len(bug.changes) == 2
    one, other = (change.lines[0] for change in bug.changes)
    assert f"Line {one} is wrong, and it is not the only one" in text(practice.line(one))
    assert text(practice.line(one, other)).startswith("Right: lines")


def test_silent_bugs_raise_nothing(practice):
    for _ in range(6):
        practice(only="silent") if practice.round is None else practice.next()
        assert practice.opened.row.silent
        assert "Error" not in practice.opened.symptom


def test_levels_open_one_after_the_other():
    found = list(rows())
    chosen = choose(found, Review(), START)
    assert chosen.level == 1
    seen = Review(solved=dict.fromkeys(range(1, 4), choosing.ENOUGH))
    assert choose(found, seen, START).level == 4
    seen = Review(solved=dict.fromkeys(LEVELS, choosing.ENOUGH))
    assert choose(found, seen, START).level == max(LEVELS)


def test_within_a_level_large_repairs_come_first():
    level = [row for row in rows() if row.level == 3]
    early = choose(level, Review(solved={1: 3, 2: 3}), START)
    late = choose(level, Review(solved={1: 3, 2: 3, 3: 300}), START)
    sizes = sorted(row.size for row in level)
    assert early.size >= sizes[len(sizes) // 2] >= late.size


def test_where_nothing_has_passed_one_sentence_says_where_to_begin(file, practice):
    file.unlink()
    with pytest.raises(Refused, match=r"none has passed its check yet\. Begin with pairwise_dot in"):
        practice()
    with pytest.raises(Refused, match="none of lesson 05_causal_attention has passed"):
        practice("05_causal_attention")
    assert "Find the bug" in text(practice("05", everything=True))
    assert find(opened(practice).exercise).lesson == "05_causal_attention"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"lesson": "05_causal"}, "no lesson is called '05_causal'; did you mean '05_causal_attention'"),
        ({"lesson": "../../etc"}, "no lesson is called '../../etc'; there are: 00_start_here"),
        ({"only": "loud"}, "only must be 'silent', 'two' or 'questions', got 'loud'"),
        ({"minutes": 0}, "minutes must be a number above 0, got 0"),
        ({"minutes": "ten"}, "minutes must be a number above 0, got 'ten'"),
        ({"minutes": float("nan")}, "minutes must be a number above 0, got nan"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_in_a_sentence(practice, asked, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        practice(**asked)


def test_a_lesson_without_such_bugs_says_so(practice, monkeypatch):
    monkeypatch.setattr(choosing, "rows", lambda: tuple(row for row in rows() if row.level < 6))
    with pytest.raises(Refused, match="that you have passed has two wrong lines"):
        practice(only="two")


def test_the_minutes_end_the_round(practice, monkeypatch):
    practice(minutes=10)
    assert "10 of 10 minutes are left" in text(practice.give_up())
    practice.next()
    practice.line(*opened(practice).lines)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 700)
    assert text(practice.next()) == "10 minutes are over: 2 bugs, 1 found, 1 given up. practice() continues."
    with pytest.raises(Refused, match=r"next\(\) takes nothing, .* got lesson='06': use practice\(\)"):
        practice.next(lesson="06")


@pytest.mark.parametrize("exercise", ["attention_scores", "break_repeats", "softmax"])
def test_of_four_explanations_one_is_true_and_hints_say_nothing_false(exercise):
    for row in [row for row in rows() if row.exercise == exercise][:10]:
        bug = row.bug
        options = explanations(bug)
        assert list(options) == list(LETTERS)
        assert list(options.values()).count(bug.title) == 1
        assert explanations(bug) == options
        assert len(hints(bug, options)) == 2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (0, "line 0 is empty"),
        (2, "line 2 is empty"),
        (9, "lines 1 to 3"),
        ("z", "no line has 'z'"),
        ("=", "lines 1, 3"),
    ],
)
def test_a_line_that_is_not_one_is_refused(where, message):
    with pytest.raises(Refused, match=message):
        line_named("a = 1\n\nb = 2", where)


def test_one_is_served_at_once():
    """In 200 ms of processor time, after the first of an exercise."""
    took = []
    for row in list(rows())[:: len(rows()) // 20]:
        for _ in range(2):
            start = time.process_time()
            bug = bug_of(row.exercise, row.slip, row.dialect)
            explanations(bug)
            symptom_of(bug, row.case)
            last = time.process_time() - start
        took.append(last)
    assert sorted(took)[int(0.95 * len(took))] < 0.2


def test_every_lesson_with_code_can_be_practised():
    for lesson in {exercise.lesson for exercise in exercises().values()}:
        assert candidates(set(), lesson=lesson, only=None, everything=True)


def test_the_guide_does_what_it_says():
    failed, tried = doctest.testfile(str(GUIDE), module_relative=False)
    assert (failed, tried > 3) == (0, True)


def test_the_guide_names_what_there_is():
    told = GUIDE.read_text(encoding="utf-8")
    for name in re.findall(r"practice\.(\w+)\(", told):
        assert callable(getattr(Practice, name))
    for level, what in LEVELS.items():
        assert f"{level} {what.split(',')[0].removeprefix('seen ').split(' in a')[0][:12]}" in told or level == 5


def test_what_is_due_is_said_and_no_bug_is_opened(practice):
    assert text(practice.due()) == "Nothing is due. practice() asks about bugs in what you have passed."
    assert practice.round is None
    for _ in range(5):
        practice() if practice.round is None else practice.next()
        practice.give_up()
    assert text(practice.due()).startswith("Nothing is due.")
    practice.now = lambda: START + timedelta(days=30)
    assert text(practice.due()) == "3 mistakes you have met before are due again `practice.next()` opens a bug."
    assert practice.opened.closed
    met = set()
    for _ in range(3):
        assert "You have seen this mistake before." in text(practice.next())
        met.add(slip_of(opened(practice).slip))
        practice.line(*opened(practice).lines)
    assert len(met) == 3
    assert text(practice.next()) == "That was all: 3 bugs, 3 found, 0 given up. practice() continues."


def test_nothing_is_due_where_nothing_has_passed_or_the_file_is_broken(practice, file):
    file.write_text('{"best": {}}', encoding="utf-8")
    assert text(practice.due()).startswith("Nothing is due.")
    file.write_text("{", encoding="utf-8")
    assert "Nothing is due." in text(practice.due())
