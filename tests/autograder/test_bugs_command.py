"""`python -m autograder bugs --check`: a verdict on each exercise as soon as it has been tried."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from attnlib.checks.practising.table import rows
from autograder.__main__ import main
from autograder.proof import bugs_command

SMALL = ["mend_tables", "from_packed"]


def told(monkeypatch, table, *names):
    """The exit status, and what is said of each exercise, where the table is this one."""
    monkeypatch.setattr(bugs_command, "rows", lambda: tuple(table))
    done = CliRunner().invoke(main, ["bugs", "--check", *names])
    return done.exit_code, done.output


@pytest.mark.slow
def test_a_falsified_row_is_named_and_the_others_are_compared_all_the_same(monkeypatch):
    table = list(rows())
    at = next(place for place, row in enumerate(table) if row.exercise == "mend_tables")
    table[at] = replace(table[at], level=table[at].level % 5 + 1)
    status, said = told(monkeypatch, table, *SMALL)
    assert status == 1
    assert f"mend_tables: differs: {table[at].key}\n" in said
    assert "from_packed: ok\n" in said
    assert "1 of 2 differ from what trying shows: mend_tables" in said


def test_each_exercise_gets_its_line_when_it_is_done_and_no_file_is_written(monkeypatch):
    table = list(rows())
    lost = next(row for row in table if row.exercise == SMALL[1])
    shown = [(name, [row for row in table if row.exercise == name], {}) for name in SMALL]
    before = bugs_command.file_of("03").read_bytes()
    monkeypatch.setattr(bugs_command, "_each_tried", lambda _chosen: iter(shown))
    assert told(monkeypatch, table, *SMALL)[0] == 0
    status, said = told(monkeypatch, [row for row in table if row != lost], *SMALL)
    assert status == 1
    assert said.index("1 of 2  mend_tables: ok") < said.index(f"2 of 2  from_packed: differs: {lost.key}")
    assert bugs_command.file_of("03").read_bytes() == before


def test_rows_of_an_exercise_that_is_gone_are_a_difference(monkeypatch):
    strange = replace(rows()[0], exercise="no_such_exercise")
    monkeypatch.setattr(bugs_command, "_each_tried", lambda _chosen: iter([]))
    assert told(monkeypatch, [*rows()])[0] == 0
    status, said = told(monkeypatch, [*rows(), strange])
    assert status == 1
    assert "no_such_exercise" in said
