"""A lesson goes on with the learner's answer if it is right, and with the course's if not."""

import inspect

import pytest
import torch

import attnlib.checks
from attnlib.checks import exercises, yours_or_ours
from autograder.sandbox import silent_checks


def right(q_len, k_len, window=None):
    seen = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)
    return seen if window is None else seen.triu(k_len - q_len - window + 1)


def wrong(q_len, k_len):
    return torch.ones(q_len, k_len, dtype=torch.bool).tril()


@pytest.mark.parametrize("names", [{"causal_mask": right}, {"mine": right}])
def test_a_right_answer_is_used(names, capsys):
    (called,) = names
    assert yours_or_ours("causal_mask", names, called=called) is right
    assert capsys.readouterr().out == f"Your own {called} is used here.\n"


@pytest.mark.parametrize("names", [{}, {"causal_mask": wrong}, {"causal_mask": None}])
def test_the_course_s_own_stands_in_for_any_other(names, capsys):
    assert yours_or_ours("causal_mask", names) is exercises()["causal_mask"].reference
    assert capsys.readouterr().out.startswith("attnlib's causal_mask is used here")


@pytest.mark.parametrize(
    "asked", [lambda mask: mask(2, 3).shape[0] / mask.of_another_lesson, lambda mask: mask is right]
)
def test_an_answer_that_fails_at_what_the_lesson_asks_is_not_used(asked, capsys):
    names = {"causal_mask": right}
    assert yours_or_ours("causal_mask", names, asked=lambda mask: mask(2, 3)) is right
    assert yours_or_ours("causal_mask", names, asked=asked) is exercises()["causal_mask"].reference
    assert capsys.readouterr().out.split("\n")[1] == (
        "attnlib's causal_mask is used here: yours passes its check, but does not do what this lesson asks of it."
    )


def test_an_exercise_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="no exercise is called 'casual_mask'; did you mean 'causal_mask'"):
        yours_or_ours("casual_mask", {})


@pytest.mark.parametrize("name", ["yours_or_ours", "check", "grade", "keep", "trained", "keep_weights"])
def test_while_grading_each_takes_the_same_arguments(name):
    takes = [[*inspect.signature(getattr(where, name)).parameters] for where in (attnlib.checks, silent_checks)]
    assert takes[0] == takes[1]
