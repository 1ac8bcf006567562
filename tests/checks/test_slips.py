"""What holds of the texts of all slips."""

import re

from attnlib.checks import exercises


def test_two_slips_at_once_leave_nothing_of_which_one_could_say_that_it_is_right() -> None:
    pairs = [m for e in exercises().values() for m in e.misconceptions if m.explanation.startswith("Two things at")]
    calls_right = re.compile(r"\b(output|outputs|weights|three|values|numbers)( that you return)? (is|are) right\b")
    assert len(pairs) > 100
    assert [m.id for m in pairs if calls_right.search(m.explanation)] == []
    assert [m.title for m in pairs if re.search(r"\b[a-z][A-Z]", m.title)] == []


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
