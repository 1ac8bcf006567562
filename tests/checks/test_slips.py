"""What holds of the texts of all slips."""

import re

from attnlib.checks import exercises


def test_two_slips_at_once_leave_nothing_of_which_one_could_say_that_it_is_right() -> None:
    pairs = [m for e in exercises().values() for m in e.misconceptions if m.explanation.startswith("Two things at")]
    calls_right = re.compile(r"\b(output|outputs|weights|three|values|numbers)( that you return)? (is|are) right\b")
    assert len(pairs) > 100
    assert [m.id for m in pairs if calls_right.search(m.explanation)] == []
    assert [m.title for m in pairs if re.search(r"\b[a-z][A-Z]", m.title)] == []


def test_no_two_titles_of_an_exercise_differ_in_small_words_alone() -> None:
    """Both may be options for one bug."""
    alike = set()
    for exercise in exercises().values():
        told: dict[str, set[str]] = {}
        for title in {m.title for m in exercise.misconceptions}:
            words = [word for word in title.lower().split() if word not in ("a", "an", "the", "its", "their", "your")]
            told.setdefault(" ".join(words), set()).add(title)
        alike |= {tuple(sorted(titles)) for titles in told.values() if len(titles) > 1}
    assert alike == set()


def test_of_two_slips_at_once_each_text_comes_under_its_own_title() -> None:
    """It may go on from there: “Without it, …”."""
    known = {m.id: m for m in exercises()["recurrent_states"].misconceptions}
    first, *told = known["no_tanh_and_matrix_transposed"].explanation.split("\n")
    alone = (known["no_tanh"], known["matrix_transposed"])
    assert told == [f"{m.title}. {m.explanation}" for m in alone]
    assert first == "Two things at once."


def test_where_neither_mask_has_an_effect_none_is_said_to_be_in_use() -> None:
    known = {m.id: m.explanation for m in exercises()["CausalSelfAttention"].misconceptions}
    assert "You use" not in known["no_causal_mask_and_padding_ignored"]


def test_a_published_case_comes_with_all_forms_of_a_slip() -> None:
    known = {m.id: m.thread for m in exercises()["MultiHeadSelfAttention"].misconceptions}
    forms = {id: thread for id, thread in known.items() if id.startswith("split_by_reshape")}
    assert len(forms) > 3
    assert len({*forms.values()} - {""}) == 1
    assert known["scaled_by_root_width"] != known["split_by_reshape"]


def test_published_cases_are_addresses_of_threads() -> None:
    threads = {m.thread for e in exercises().values() for m in e.misconceptions} - {""}
    assert len(threads) >= 8
    assert [t for t in threads if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", t)] == []
