"""Predictions of earlier lessons in practice: when they are asked, how they are answered, and what that costs."""

import json
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from practised import PASSED, START, cards, text

from attnlib.checks.course.asked_again import asked_again
from attnlib.checks.practising import terminal
from attnlib.checks.practising.choose import Refused, choose, wanted
from attnlib.checks.practising.opened import OpenedBug, OpenedQuestion
from attnlib.checks.practising.play import Practice
from attnlib.checks.practising.review import AFRESH, NOT_INSTALLED, Review
from attnlib.checks.standing import kept

PREDICTED = ["predict_dot_spread", "predict_reach"]


@pytest.fixture
def file(file, monkeypatch):
    """Two predictions were right, too."""
    file.write_text(json.dumps({"version": 1, "best": dict.fromkeys([*PASSED, *PREDICTED], 1.0)}))
    return file


@pytest.fixture
def asked(practice):
    """A question is open."""
    practice(only="questions")
    return practice


def letter(practice, right=True):
    opened = practice.opened
    return next(a for a, option in opened.options.items() if (option == opened.right) is right)


def test_the_right_letter_is_an_answer_and_the_question_is_scheduled(asked, file):
    told = text(asked.answer(f" {letter(asked).lower()} "))
    assert told.startswith(f"Right: {letter(asked)} {letter(asked)} {asked.opened.right} Each of the")
    assert "This question is due again in 2 days." in told
    assert list(cards(file)) == ["predict_dot_spread"]
    assert json.loads(file.read_text())["practice"]["solved"] == {}  # levels are those of bugs


def test_a_wrong_letter_names_the_misunderstanding_with_the_numbers_of_this_question(asked):
    wrong = next(w for w in asked.opened.question.wrong if w.id == "variance_for_deviation")
    chosen = next(a for a, option in asked.opened.options.items() if option == wrong.text)
    told = text(asked.answer(chosen))
    assert told.startswith(f"Not yet Not {chosen}. That is the variance:")
    assert wrong.text.partition(",")[0] in told
    assert not asked.opened.closed


def test_help_costs_and_giving_up_tells_the_answer(asked, file):
    gone = text(asked.hint()).partition("Not right: ")[2].rstrip(".").split(", ")
    assert len(gone) == 2
    assert letter(asked) not in gone
    assert "There are no more hints." in text(asked.hint())
    asked.answer(letter(asked))
    asked.next()
    assert asked.opened.card == "predict_reach"
    told = text(asked.give_up())
    assert told.startswith(f"The answer {letter(asked)} {asked.opened.right} The last token sees")
    with_help, given_up = (cards(file)[name] for name in PREDICTED)
    assert given_up["stability"] < with_help["stability"]


def test_a_question_comes_back_with_other_numbers_and_other_letters(asked):
    first = asked.opened
    asked.answer(letter(asked))
    again = Practice()
    again.now = lambda: START + timedelta(days=30)
    shown = text(again(only="questions"))
    assert again.opened.card == first.card
    assert "A question from lesson 02_scaled_dot_product_attention once more, with other numbers" in shown
    assert again.opened.question.text != first.question.text


def test_it_stays_the_same_until_it_is_answered(practice):
    assert repr(practice(only="questions")) == repr(practice(only="questions"))


@pytest.mark.parametrize("name", asked_again())
def test_the_letters_are_never_all_those_of_the_lesson(name):
    one = asked_again()[name]
    letters = {one.declared.reference: None} | {m.implementation: m.id for m in one.declared.misconceptions}
    orders = set()
    for seed in range(50):
        opened = OpenedQuestion(one, f"{seed}")
        id_of = {wrong.text: wrong.id for wrong in opened.question.wrong}
        shown = {a: id_of.get(option) for a, option in opened.options.items()}
        assert shown != letters
        assert [a for a, id in shown.items() if id is None] == [letter(SimpleNamespace(opened=opened))]
        orders.add(tuple(shown.values()))
    assert len(orders) > 3


def test_bugs_and_new_questions_take_turns_and_what_was_right_is_all_that_is_asked(practice):
    kinds, questions = [], []
    for _ in range(6):
        practice() if practice.round is None else practice.next()
        kinds.append(type(practice.opened))
        questions += [practice.opened.card] if kinds[-1] is OpenedQuestion else []
        practice.give_up()
    assert kinds == [OpenedBug, OpenedQuestion, OpenedBug, OpenedQuestion, OpenedBug, OpenedBug]
    assert questions == PREDICTED


def test_whoever_asks_for_one_at_a_time_gets_questions_too(practice):
    kinds = []
    for _ in range(4):
        practice()
        kinds.append(type(practice.opened))
        practice.give_up()
    assert kinds == [OpenedBug, OpenedQuestion, OpenedBug, OpenedQuestion]


def test_what_waits_longest_comes_first_whichever_kind_it_is(practice):
    practice(only="questions")
    practice.give_up()
    practice.now = lambda: START + timedelta(days=1)
    practice(only="silent")
    practice.give_up()
    found = wanted({*PASSED, *PREDICTED}, lesson=None, only=None, everything=False)
    later = START + timedelta(days=60)
    first = choose(found, practice.round.seen, later)
    assert first.card == "predict_dot_spread"
    assert choose(found, practice.round.seen, later, [first]).card == practice.opened.card


def test_due_counts_questions_and_opens_no_more_than_it_says(practice):
    assert text(practice.due()) == "2 questions from lessons are due again `practice.next()` opens the first."
    practice()
    practice.give_up()
    practice.now = lambda: START + timedelta(days=30)
    told = text(practice.due())
    assert told.startswith("1 mistake you have met before and 2 questions from lessons are due again")
    for _ in range(3):
        practice.next()
        practice.give_up()
    assert text(practice.next()) == "That was all: 1 bug and 2 questions, 0 found, 3 given up. practice() continues."
    assert text(practice.due()).startswith("Nothing is due.")


@pytest.mark.parametrize(
    ("asked_for", "message"),
    [
        ({"lesson": "05"}, "and none of lesson 05_causal_attention has been yet; or ask for everything=True"),
        ({"lesson": "10"}, "Lesson 10_flash_attention has no predictions to ask again."),
        ({"lesson": "77"}, "no lesson is called '77'"),
    ],
)
def test_without_a_question_a_sentence_says_why(practice, asked_for, message):
    with pytest.raises(Refused) as refused:
        practice(only="questions", **asked_for)
    assert message in str(refused.value)


def test_a_lesson_alone_and_everything_are_asked_for_as_with_bugs(practice):
    practice("09", only="questions")
    assert practice.opened.card == "predict_reach"
    practice("12", only="questions", everything=True)
    assert practice.opened.card == "predict_what_is_needed"
    practice("09")  # no bug there has passed, and one prediction was right
    assert practice.opened.card == "predict_reach"
    with pytest.raises(Refused, match="none of lesson 09_fast_decoding has passed its check yet"):
        practice("09", only="silent")


def test_an_answer_of_the_other_kind_is_refused_and_costs_nothing(asked):
    for answer in (lambda: asked.line(1), lambda: asked.because("A"), lambda: asked.repaired(len)):
        with pytest.raises(
            Refused, match=r"A question is open: it is answered with a letter, `practice.answer\('A'\)`"
        ):
            answer()
    for none in (None, "E", 1):
        with pytest.raises(Refused, match="an option is named by A, B, C, D, got "):
            asked.answer(none)
    assert asked.opened.wrong == 0
    asked(only="silent")
    with pytest.raises(Refused, match="A bug is open: name its line"):
        asked.answer("A")
    assert asked.opened.wrong == 0


def test_in_a_notebook_the_answer_is_typed_into_the_next_cell(practice, monkeypatch):
    cells = []
    shell = SimpleNamespace(kernel=1, set_next_input=cells.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    shown = practice(only="questions")
    assert cells == ['practice.answer(None)  # "A", "B", "C", "D"']
    html = shown._repr_mimebundle_()["text/html"]
    assert "Put the letter into the next cell and run it" in html
    assert all(f"<div><b>{a}</b>&emsp;" in html for a in "ABCD")


def test_an_older_file_has_its_scores_and_its_cards_still(file, practice):
    practice(only="silent")
    practice.give_up()
    told = json.loads(file.read_text())
    practice(only="questions")
    practice.give_up()
    new = json.loads(file.read_text())
    assert new["best"] == told["best"]
    assert new["practice"]["cards"].items() >= told["practice"]["cards"].items()


def test_a_broken_history_is_told_and_the_question_is_asked_all_the_same(file, practice):
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "practice": {"version": 1, "cards": {"predict_reach": {}}, "solved": {}}}))
    assert AFRESH in text(practice(only="questions"))


def test_without_fsrs_questions_are_asked_and_none_is_called_due(practice, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsrs", None)
    assert NOT_INSTALLED in text(practice.due())
    assert "Nothing is due" in text(practice.due())
    practice(only="questions")
    assert "due again" not in text(practice.answer(letter(practice)))


def test_a_card_is_none_of_a_mistake():
    slips = {row.card for row in wanted(set(), lesson=None, only="silent", everything=True)}
    assert slips.isdisjoint(asked_again())
    assert Review().due(START) == []


def test_a_terminal_asks_and_takes_a_letter(file, monkeypatch, capsys):
    probe = Practice(terminal=True)
    probe(only="questions")
    lines = iter(["x", "7", "e", "h", letter(probe, right=False), "s", letter(probe).lower(), "", "q"])
    monkeypatch.setattr("builtins.input", lambda _prompt="": next(lines))
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal.main(["--only", "questions"]) == 0
    out = capsys.readouterr().out
    told = " ".join(out.split())
    assert max(map(len, out.split("\n"))) < 60
    assert all(f"'{none}' is no answer." in told for none in "x7e")
    assert told.count("A question from lesson 02_scaled_dot_product_attention, with other numbers") == 2
    assert "A to D = your answer" in told
    assert f"Right: {letter(probe)}" in told
    assert "A question from lesson 09_fast_decoding" in told
    assert kept.place(terminal=True) == file


def test_a_terminal_says_why_there_is_no_question(file, monkeypatch, capsys):
    file.unlink()
    assert terminal.main(["--only", "questions"]) == 1
    assert "Practice asks the predictions again that were right" in " ".join(capsys.readouterr().out.split())
