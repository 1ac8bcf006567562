"""Practice: what a repair is told, what costs nothing, and explanations that the symptom alone does not rule out."""

import json
import random

import pytest
from practised import text

from attnlib.checks.practising.bug import defined
from attnlib.checks.practising.choose import Refused
from attnlib.checks.practising.difficulty import LEVELS
from attnlib.checks.practising.opened import OpenedBug
from attnlib.checks.practising.quiz import explanations
from attnlib.checks.practising.table import rows


def open_bug(practice, key):
    row = next(row for row in rows() if row.key == key)
    practice.opened = OpenedBug(row, row.bug)
    return row.bug


def test_a_cell_that_is_run_as_it_came_is_no_answer(practice, file):
    bug = open_bug(practice, "layer_norm/statistics_detached")
    commented = bug.code.replace("    mean", "    # Is it this line?\n    mean", 1)
    for code in (bug.code, commented):
        told = text(practice.repaired(defined(code, bug.exercise, "as it came")))
        assert told == "Nothing was changed That costs nothing: repair the code, then check it."
    practice.line(bug.lines[0])
    assert json.loads(file.read_text())["practice"]["solved"] == {"4": 1}


def test_the_cell_of_another_bug_is_refused_and_costs_nothing(practice):
    other = open_bug(practice, "softmax/global_shift").answer
    open_bug(practice, "layer_norm/statistics_detached")
    with pytest.raises(Refused, match="The bug that is open is in layer_norm, and this is softmax"):
        practice.repaired(other)
    assert practice.opened.wrong == 0


def test_code_that_is_still_wrong_shows_where_and_not_why(practice):
    bug = open_bug(practice, "layer_norm/statistics_detached")
    other = bug.code.replace("    mean", "    x = x.clone()\n    mean", 1)
    told = text(practice.repaired(defined(other, bug.exercise, "changed")))
    assert told.startswith("Not yet ✗ layer_norm: the gradient is not right In the case “gradients”, called with x")
    assert "first difference at [0, 0, 0]: expected" in told
    assert bug.title not in told


def test_a_repair_with_a_mistake_of_its_own_is_told_that_one(practice):
    bug = open_bug(practice, "layer_norm/statistics_detached")
    assert bug.right.count(" + eps") == 1
    told = text(practice.repaired(defined(bug.right.replace(" + eps", ""), bug.exercise, "changed")))
    assert "A common misunderstanding: eps is missing: When all entries of a vector are equal," in told
    assert bug.title not in told


def test_two_bugs_of_which_one_is_repaired_do_not_give_the_other_away(practice):
    key = next(row.key for row in rows() if row.level == max(LEVELS) and row.exercise == "layer_norm")
    bug = open_bug(practice, key)
    first, second = (bug.declared.wrong_called(name).told for name in bug.declared.wrong_called(bug.slip).told.both)
    lines = bug.code.split("\n")
    lines[bug.changes[1].lines[0] - 1 : bug.changes[1].lines[-1]] = bug.changes[1].repair.split("\n")
    told = text(practice.repaired(defined("\n".join(lines), bug.exercise, "half")))
    assert told.startswith("Not yet")
    assert first.title not in told
    assert second.title not in told


def test_after_a_repair_of_ones_own_ours_is_not_called_the_change(practice):
    bug = open_bug(practice, "layer_norm/statistics_detached")
    told = text(
        practice.repaired(lambda x, gain, bias, eps=1e-5: defined(bug.right, bug.exercise, "x")(x, gain, bias, eps))
    )
    assert told.startswith("Right: the check passes As it was before the bug: line")


def test_the_symptom_alone_excludes_few_explanations():
    """The others are of the bug's level, as far as the exercise has such bugs in lines that are right here."""
    alone = checked = 0
    for row in random.Random(0).sample([row for row in rows() if row.level < max(LEVELS)], 60):
        told = row.bug.declared.wrong_called
        levels = {}
        for other in rows():
            if other.exercise == row.exercise and not other.dialect:
                levels.setdefault(told(other.slip).told.title, set()).add(other.level)
        others = [title for title in explanations(row.bug).values() if title != row.bug.title]
        alone += not any(row.level in levels.get(title, ()) for title in others)
        checked += 1
    assert checked == 60
    assert alone <= 6
