"""timestamp.txt lies in the student's folder: a plausible time is believed, anything else is ignored and said."""

import os
from datetime import UTC, datetime

import pytest

from autograder.judging.intake.timestamp import told_time

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-11-20 10:00:00.123456 UTC", 10),  # as nbgrader writes it
        ("2026-11-20 10:00:00 UTC\n", 10),
        ("2026-11-20 10:00:00 CET", 9),
        ("2026-11-20 10:00:00 +0100", 9),
        ("2026-11-20T10:00:00+01:00", 9),
        ("2026-11-20 10:00:00", 10),
        ("2026-11-20 10:00 UTC", 10),  # as a spreadsheet saves it, and as a deadline is written
        ("2026-11-20 10:00 +0100", 9),
    ],
)
def test_a_plausible_time_is_believed(tmp_path, text, hour):
    (tmp_path / "timestamp.txt").write_text(text, encoding="ascii")
    told, doubt = told_time(tmp_path, now=NOW)
    assert (told.replace(microsecond=0), doubt) == (datetime(2026, 11, 20, hour), "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"yesterday",
        b"1" * 40,
        b"0001-01-01 00:00:00 UTC",
        b"0001-01-01 00:00:00 +23:00",
        b"9999-12-31 23:59:59 UTC",
        b"2026-02-30 10:00:00 UTC",
        b"2026-11-25 10:00:00 UTC",
        b"2026-11-20 10:00:00 /etc/passwd",
        b"2026-11-20 10:00:00 CEST",  # nbgrader takes any zone that it doesn't know for UTC
        b"2026-11-20 10:00:00 AM",
        b"\xff\xfe\x00",
        b"2026-11-20 10:00:00 UTC" + b" " * 100,
    ],
)
def test_what_is_no_plausible_time_is_ignored_with_a_remark(tmp_path, data):
    (tmp_path / "timestamp.txt").write_bytes(data)
    told, doubt = told_time(tmp_path, now=NOW)
    assert told is None
    assert doubt.startswith("timestamp.txt ")
    assert doubt.endswith("was ignored")


def truncated(path):
    with path.open("wb") as file:
        file.truncate(300 << 20)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero"), truncated])
def test_what_is_no_small_file_is_ignored_with_a_remark(tmp_path, make):
    make(tmp_path / "timestamp.txt")
    told, doubt = told_time(tmp_path, now=NOW)
    assert told is None
    assert doubt.endswith("was ignored")


def test_none_is_nothing_to_remark_on(tmp_path):
    assert told_time(tmp_path, changed=NOW, now=NOW) == (None, "")


def test_a_notebook_changed_after_it_was_handed_in_is_remarked_on(tmp_path):
    (tmp_path / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC", encoding="ascii")
    assert told_time(tmp_path, changed=datetime(2026, 11, 20, 9, 59, tzinfo=UTC), now=NOW)[1] == ""
    told, doubt = told_time(tmp_path, changed=datetime(2026, 11, 21, 8, tzinfo=UTC), now=NOW)
    assert told == datetime(2026, 11, 20, 10)
    assert doubt == "timestamp.txt says 2026-11-20 10:00, but the notebook was changed later, at 2026-11-21 08:00"
