"""Where a learner stands, in a session and across sessions, whatever happens to the file."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from attnlib.checks import CheckFailed, check, exercises, grade, progress
from attnlib.checks.standing import kept
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson

LESSON = "00_start_here"


def right(x, y):
    return x @ y.mT


def wrong(x, y):
    return 2 * x @ y.mT


def cut_off(x, y):
    return right(x, y).detach()


def unwritten(x, y):
    raise NotImplementedError


@pytest.fixture
def restart(monkeypatch):
    """A function that forgets what a kernel forgets when it is restarted."""

    def forget():
        monkeypatch.setattr(kept, "LAST", {})
        monkeypatch.setattr(kept, "BEST", {})
        monkeypatch.setattr(sys.modules["attnlib.checks.standing.progress"], "LAST", kept.LAST)

    forget()
    return forget


@pytest.fixture
def file(monkeypatch, tmp_path, restart):
    monkeypatch.setenv(kept.PLACE, str(tmp_path / "kept.json"))
    return tmp_path / "kept.json"


def row(name="pairwise_dot"):
    return next(row for row in progress(LESSON).rows if row.name == name)


def fail(attempt):
    with pytest.raises(CheckFailed):
        check("pairwise_dot", attempt)


def test_nothing_is_checked_at_first(file):
    shown = progress(LESSON)
    assert row().told == ("pairwise_dot", "0 of 4", "○ not checked yet")
    assert shown.next_step == "Next: predict_largest_dot, 1 point."
    assert not file.exists()


@pytest.mark.parametrize(
    ("attempt", "told"),
    [
        (unwritten, ("0 of 4", "○ not answered yet")),
        (cut_off, ("3 of 4", "✗ not right yet")),
        (wrong, ("0 of 4", "✗ not right yet")),
        (right, ("4 of 4", "✓ passed")),
    ],
)
def test_the_last_check_is_told(file, attempt, told):
    if attempt in (wrong, cut_off):
        fail(attempt)
    else:
        check("pairwise_dot", attempt)
    assert row().told == ("pairwise_dot", *told)
    assert file.exists() == (attempt in (right, cut_off))


def test_what_passed_is_kept_across_restarts(file, restart):
    check("pairwise_dot", right)
    check("predict_largest_dot", "B")
    restart()
    assert row().told == ("pairwise_dot", "4 of 4", "✓ passed")
    assert progress(LESSON).next_step == "Next: mend_squared_distances, 3 points."
    check("pairwise_dot", unwritten)
    assert row().told == ("pairwise_dot", "4 of 4", "✓ passed earlier; not answered here")
    fail(wrong)
    assert row().told == ("pairwise_dot", "4 of 4", "✓ passed earlier; the answer here is not right")


def test_the_file_holds_scores_and_nothing_else(file):
    check("pairwise_dot", right)
    fail(cut_off)
    assert json.loads(file.read_text()) == {"version": 1, "best": {"pairwise_dot": 1.0}}
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has links for administrators alone")
def test_a_link_to_the_file_stays_a_link(file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    file.symlink_to(tmp_path / "elsewhere" / "kept.json")
    check("pairwise_dot", right)
    assert file.is_symlink()
    assert json.loads((tmp_path / "elsewhere" / "kept.json").read_text())["best"] == {"pairwise_dot": 1.0}


def test_two_notebooks_lose_nothing_of_each_other(file, restart):
    check("pairwise_dot", right)
    restart()  # the other notebook
    check("predict_largest_dot", "B")
    assert json.loads(file.read_text())["best"] == {"pairwise_dot": 1.0, "predict_largest_dot": 1.0}


RECORDS = """
import sys, time
from types import SimpleNamespace
from attnlib.checks.standing import kept
replace = kept._replace
kept._replace = lambda *about: (time.sleep(0.005), replace(*about))  # time for another to come between
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    name = f"{sys.argv[1]} {number}"
    kept.BEST.clear()  # as if each were written by a notebook of its own, which then ends
    kept.note(SimpleNamespace(passed=True, unanswered=False, exercise=name, score=1.0))
    assert kept.best_scores()[1] == ""
"""


@pytest.mark.slow
def test_notebooks_that_write_at_the_same_time_lose_nothing(file):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([sys.executable, "-c", RECORDS, str(number)], **pipes) for number in range(4)]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 4
    for writer in writers:
        writer.stdout.close()
        writer.stdin.close()
    assert [writer.wait(timeout=600) for writer in writers] == [0] * 4
    assert set(json.loads(file.read_text())["best"]) == {f"{a} {b}" for a in range(4) for b in range(20)}
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_notebook_that_is_stopped_while_it_writes_holds_nobody_up_for_long(file, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(kept, "WAITS", 0.2)
    with open(f"{file}.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        check("pairwise_dot", right)
    assert json.loads(file.read_text())["best"] == {"pairwise_dot": 1.0}


def test_a_lock_left_by_a_notebook_that_died_is_no_lock(file):
    file.with_name(f"{file.name}.lock").touch()
    check("pairwise_dot", right)
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_said_in_one_sentence_and_leaves_nothing_behind(file, monkeypatch, number, capsys):
    file.write_text(json.dumps({"version": 1, "best": {"softmax": 1.0}}))

    def full(path, *_text, **_more):
        path.touch()
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_text", full)
    check("pairwise_dot", right)
    assert "cannot be written" not in capsys.readouterr().out
    assert progress().trouble.count("cannot be written") == 1
    assert os.strerror(number) in progress().trouble
    assert row().passed
    assert os.listdir(file.parent) == [file.name]
    assert json.loads(file.read_text())["best"] == {"softmax": 1.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "9" * 5000,
        "[" * 100_000,
        '{"version": 2, "best": {}}',
        '{"version": 1, "best": {"a": "1"}}',
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(file, text):
    file.write_text(text)
    check("pairwise_dot", right)
    shown = repr(progress(LESSON))
    assert f"{file} is damaged, so only the checks since this notebook was started count. Delete the file" in shown
    assert row().passed
    assert file.read_text() == text


def test_bytes_that_are_no_text_are_damage(file):
    file.write_bytes(b"\xff\xfe\x00")
    assert "is damaged" in progress().trouble


def test_a_file_that_cannot_be_written_costs_the_memory_alone(monkeypatch, tmp_path, restart):
    monkeypatch.setenv(kept.PLACE, str(tmp_path / "missing" / "kept.json"))
    check("pairwise_dot", right)
    assert row().passed
    assert "cannot be written (No such file or directory): anything new" in progress().trouble
    (tmp_path / "missing").mkdir()
    assert progress().trouble == ""  # the next look writes what is new
    restart()
    assert row().passed


def test_a_folder_in_its_place_is_named(monkeypatch, tmp_path, restart):
    monkeypatch.setenv(kept.PLACE, str(tmp_path))
    check("pairwise_dot", right)
    assert "cannot be read (" in progress().trouble


def test_nothing_is_kept_outside_of_a_notebook_or_while_nbgrader_runs_one(monkeypatch, tmp_path, restart):
    monkeypatch.delenv(kept.PLACE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kept.place() is None
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1)))
    assert kept.place() == tmp_path / ".attnlib_progress.json"
    assert progress().file == os.path.join("~", ".attnlib_progress.json")
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert kept.place() is None
    monkeypatch.delenv("NBGRADER_EXECUTION")
    monkeypatch.setenv(kept.PLACE, "")
    assert kept.place() is None


def test_a_grade_is_no_progress(file, capsys):
    assert grade("pairwise_dot", right) == 4.0
    assert not row().passed
    assert not file.exists()


def test_the_next_step_goes_on_with_the_following_lessons(file):
    scores = {name: 1.0 for name, e in exercises().items() if e.lesson != "03_multi_head_attention"}
    file.write_text(json.dumps({"version": 1, "best": scores}))
    first = next(e for e in exercises().values() if e.lesson == "03_multi_head_attention")
    step = progress("05_causal_attention").next_step
    assert step.startswith(f"Next: {first.name} in lesson 03 multi head attention, {first.points} point")
    file.write_text(json.dumps({"version": 1, "best": dict.fromkeys(exercises(), 1.0)}))
    assert progress().next_step == "All passed."
    extra = next(e for e in exercises().values() if not e.points)
    del scores[extra.name]
    file.write_text(json.dumps({"version": 1, "best": {n: 1.0 for n in exercises() if n != extra.name}}))
    assert progress().next_step.startswith(f"Next: {extra.name}, an extra in lesson")


def test_the_lesson_is_that_of_the_last_check(file):
    assert progress().lesson is None
    check("predict_zeroed_future", None)
    assert progress().lesson == "05_causal_attention"


def test_a_lesson_that_does_not_exist_is_named(file):
    with pytest.raises(ValueError, match="no lesson is called '05_causal'; did you mean '05_causal_attention'"):
        progress("05_causal")


def test_the_html_can_be_read_out_and_needs_no_colour(file):
    check("pairwise_dot", right)
    html = progress(LESSON)._repr_mimebundle_()["text/html"]
    assert "color" not in html
    assert len(re.findall("<caption", html)) == 1
    assert html.count('<th scope="col"') == 6
    assert html.count('<th scope="row"') == html.count("<tbody><tr>") + html.count("</tr><tr>")
    assert "✓ passed" in html
    widest = max(len(cell) for cell in re.findall(r">([^<]+)</t[hd]>", html))
    assert widest < 60  # characters: three columns fit into 800 pixels


@pytest.mark.parametrize("lesson", Layout().lessons())
def test_exercises_are_declared_in_the_order_of_their_lesson(lesson):
    cells = read_lesson(Layout().solutions / f"{lesson}.py").cells
    asked = [cell.id for cell in cells if cell.id in exercises()]
    assert asked == [name for name, e in exercises().items() if e.lesson == lesson]
