"""The bugs that practice serves are honest: rejected under their own name, repaired by one change, and readable."""

import random
import re
from dataclasses import replace

import pytest
from contradictions import contradictions

from attnlib.checks import exercises, run
from attnlib.checks.asking.observation import Asking
from attnlib.checks.course import find
from attnlib.checks.practising.bug import Bug, bug_of, made_of
from attnlib.checks.practising.choose import ONLY
from attnlib.checks.practising.dialects import dialects
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.programs import changes, size, with_imports, without_alias
from attnlib.checks.practising.symptom import MOST_LINES as MOST_LINES_SEEN
from attnlib.checks.practising.symptom import symptom_of
from attnlib.checks.practising.table import FILE, MOST_LINES, Row, as_text, checksum, from_text, rows
from attnlib.checks.verdict.judge import cases_of, try_case
from autograder.proof.bugs import another_repair, tried, unreadable, verified

SAMPLE = random.Random(0).sample(rows(), 8)
BY_EXERCISE = {name: [row for row in rows() if row.exercise == name] for name in {row.exercise for row in rows()}}


def try_again(row: Row, asking: Asking, *, others: bool) -> Row | str:
    declared = find(row.exercise)
    wrong = declared.wrong_called(row.slip)
    return verified(wrong, made_of(declared, wrong, row.dialect), asking, others=others)


def test_there_are_as_many_as_promised():
    silent = [row for row in rows() if row.silent]
    two = [row for row in rows() if row.level == max(LEVELS)]
    assert len(rows()) - len(two) >= 2500
    assert len(silent) >= 1200
    assert len(BY_EXERCISE) >= 60
    assert len(two) >= 100
    assert {row.level for row in rows()} == set(LEVELS)
    assert len({row.key for row in rows()}) == len(rows())


@pytest.mark.parametrize("name", sorted(BY_EXERCISE))
def test_contracts_are_spelled_alike(name):
    assert not re.search(r"→|\(\w+,\w", find(name).contract)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_EXERCISE))
def test_every_bug_is_the_code_that_was_tried_and_can_be_read(name):
    """No check is run here: the checksum says that the code is that of the row."""
    for row in BY_EXERCISE[name]:
        bug = row.bug
        assert checksum(bug.code) == row.code, row.key
        assert len(bug.code.split("\n")) <= MOST_LINES, row.key
        assert bug.lines, row.key
        assert bug.size == row.size > 0, row.key
        assert bug.key == row.key


@pytest.mark.slow
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.key)
def test_a_bug_of_a_sample_is_what_its_row_says(row):
    assert try_again(row, Asking(memory={}), others=True) == row


@pytest.mark.again
@pytest.mark.parametrize("name", sorted(BY_EXERCISE))
def test_every_bug_is_what_its_row_says(name):
    """All that can be served; `python -m autograder bugs --check` looks for repairs of other lines, too."""
    asking = Asking(memory={})
    wrong = {row.key: found for row in BY_EXERCISE[name] if (found := try_again(row, asking, others=False)) != row}
    assert wrong == {}


def assert_named(row: Row) -> None:
    """As a learner runs it: the verdict names the slip, alone or beside what can be read in the code."""
    exercise = find(row.exercise)
    told = exercise.wrong_called(row.slip).told
    [title] = [m.title for m in exercise.misconceptions if m.id == (told.same_as or told.id)]
    report = run(row.exercise, row.bug.answer)
    assert not report.passed
    assert report.score < 1
    assert any(part.heading.endswith(f": {title}") for part in report.sections), (row.key, report.message)
    assert contradictions(report, () if exercise.wrong_called(row.slip).told.both else row.bug.lines) == [], row.key


@pytest.mark.slow
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.key)
def test_the_check_names_a_bug_of_a_sample(row):
    assert_named(row)


@pytest.mark.again
@pytest.mark.parametrize("name", sorted(BY_EXERCISE))
def test_the_check_names_every_bug(name):
    for row in BY_EXERCISE[name]:
        assert_named(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.key)
def test_a_symptom_fits_on_a_screen(row):
    seen = symptom_of(row.bug, row.case).split("\n")
    assert 2 <= len(seen) <= MOST_LINES_SEEN
    assert seen[0].endswith(":")
    assert all(line.strip() for line in seen)
    assert max(map(len, seen)) < 600


def test_a_right_answer_is_no_bug():
    bug = bug_of("attention_scores", "no_scale")
    wrong = find("attention_scores").wrong_called("no_scale")
    right = replace(bug, code=bug.right)
    assert verified(wrong, right, Asking(memory={})) == "right, or without an end"


def test_a_bug_under_another_name_is_not_served():
    declared = find("attention_scores")
    bug = made_of(declared, declared.wrong_called("fixed_scale"))
    assert verified(declared.wrong_called("no_scale"), bug, Asking(memory={})) == "named fixed_scale"


def test_a_repair_that_is_not_right_is_seen():
    declared = find("attention_scores")
    wrong = declared.wrong_called("no_scale")
    bug = made_of(declared, wrong)
    broken = replace(bug, right=bug.right.replace("sqrt", "exp"))
    assert verified(wrong, broken, Asking(memory={})) == "its repair is not right"


def test_a_second_line_that_would_do_is_seen():
    """The scale is turned upside down in one line, and could be multiplied by in the next."""
    code = "import math\n\n\ndef attention_scores(q, k):\n    scale = SCALE\n    return q @ k.mT / scale"
    right, wrong = (code.replace("SCALE", text) for text in ("math.sqrt(q.shape[-1])", "1 / math.sqrt(q.shape[-1])"))
    bug = Bug(exercise="attention_scores", slip="x", right=right, code=wrong, title="", explanation="")
    asking, attempt = Asking(memory={}), bug.answer
    trials = [try_case(bug.declared, attempt, case, asking) for case in cases_of(bug.declared, hidden=False)]
    assert bug.lines == (5,)
    assert another_repair(bug, attempt, trials, asking) == 6


def test_an_alias_that_would_stand_out_is_folded():
    right, wrong = without_alias("    b = f(x)\n    a = b / 2\n    return a", "    b = f(x)\n    a = b\n    return a")
    assert wrong == "    a = f(x)\n    return a"
    assert right == "    a = f(x) / 2\n    return a"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("b = f(x)\na = b / 2\nreturn a, b", "b = f(x)\na = b\nreturn a, b"),  # it is used again
        ("b = f(x)\na = b / b\nreturn a", "b = f(x)\na = b\nreturn a"),  # twice in the right line
        ("b = f(x)\nc = 1\na = b / 2", "b = f(x)\nc = 1\na = b"),  # not in the line before
        ("a = b / 2", "a = b"),
        ("b = 1\na = b / 2", "b = 1\na = 2 * b"),  # no alias
    ],
)
def test_what_is_no_such_alias_stays_as_it_is(right, wrong):
    assert without_alias(right, wrong) == (right, wrong)


def test_the_wrong_lines_are_counted_in_the_code_that_is_shown():
    right, wrong = with_imports("def f(x):\n    y = x\n    return y", "def f(x):\n    y = F.relu(x)\n    return y")
    assert wrong.startswith("import math\nimport torch\nimport torch.nn.functional as F\n\n\ndef f")
    assert right.split("\n")[:3] == wrong.split("\n")[:3]
    [change] = changes(right, wrong)
    assert wrong.split("\n")[change.lines[0] - 1] == "    y = F.relu(x)"
    assert change.repair == "    y = x"
    assert size(right, wrong) == 5


@pytest.mark.parametrize("text", ["\n", "exercise\n", "\t".join(["a"] * 8) + "\n"])
def test_a_damaged_table_is_named(text):
    with pytest.raises(ValueError, match="the first line must be exercise slip"):
        from_text(text)


def test_a_damaged_row_is_named():
    head = as_text(rows()[:1]).split("\n")[0]
    with pytest.raises(ValueError, match="line 2 must have 8 cells"):
        from_text(f"{head}\nsoftmax\tx\n")


def test_the_table_is_written_as_it_is_read():
    assert as_text(rows()) == FILE.read_text(encoding="utf-8")
    assert [row.exercise for row in rows()] == sorted((row.exercise for row in rows()), key=list(exercises()).index)


def test_a_dialect_stands_by_itself_under_the_name_of_its_exercise():
    found = [code for code in dialects(find("softmax"))[1:] if code]
    assert found
    for code in found:
        assert "def softmax(" in code or "class softmax" in code
        assert '"""' not in code


def test_what_cannot_be_read_is_not_served():
    declared = find("EncoderBlock")
    wrong = declared.wrongs[0]
    assert unreadable(wrong, made_of(declared, wrong)) == "too long"
    served, refused = tried("write_matrices")
    assert served
    assert {row.key for row in served} & set(refused) == set()
    assert ONLY == ("silent", "two", "questions")
