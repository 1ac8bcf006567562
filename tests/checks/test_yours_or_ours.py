"""A lesson goes on with the learner's answer if it is right, and with the course's if not."""

import pytest
import torch

from attnlib.checks import exercises, yours_or_ours


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


def test_an_exercise_that_does_not_exist_is_an_error():
    with pytest.raises(ValueError, match="no exercise is called 'casual_mask'; did you mean 'causal_mask'"):
        yours_or_ours("casual_mask", {})
