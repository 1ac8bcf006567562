"""What a run relies on of an earlier one: times of receipt, marks, and who judged, each with what it belongs to."""

import dataclasses
import io
import re
import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest
from tiny_course import POINTS, RIGHT, TINY, cell

from autograder.grading import grade_course
from autograder.grading.grade_course import Graded, How, grade
from autograder.grading.table import grading_tables
from autograder.in_nbgrader.course_files import course_seed
from autograder.in_nbgrader.export_grades import row_of
from autograder.in_nbgrader.handed_in import record_all_received, time_of
from autograder.in_nbgrader.names import LONGEST
from autograder.in_nbgrader.record_failures import reason_file
from autograder.judging import version
from autograder.lesson_text.layout import ROOT
from autograder.lesson_text.notebook import read_notebook, write_notebook
from autograder.report.collect import collect
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError
from autograder.showing.terminal import Terminal
from autograder.watching.arrivals import Folder
from autograder.watching.watch import Watch

IN_TIME, LATE = datetime(2026, 1, 9, 10), datetime(2026, 1, 12, 10)
WRONG = {**RIGHT, "pairwise_dot": "def pairwise_dot(x, y):\n    return x @ x.mT"}


def receive(klass, time, student="ann"):
    """`--received` with a table of one line."""
    table = klass.layout.course / "received.csv"
    table.write_text(f"student_id,assignment,timestamp\n{student},{TINY},{time} UTC\n", encoding="utf-8")
    record_all_received(klass.course.directory, table, [TINY])


def time_that_counts(klass, student="ann"):
    return time_of(klass.course.directory, student, TINY)


def test_a_time_of_receipt_is_of_what_was_handed_in_then(klass):
    klass.submit("ann", RIGHT)
    receive(klass, IN_TIME)
    assert time_that_counts(klass) == (IN_TIME, "")
    klass.submit("ann", WRONG)
    unknown = "it is not what was received at 2026-01-09 10:00: when it was handed in is not known"
    assert time_that_counts(klass) == (IN_TIME, unknown)
    receive(klass, IN_TIME)  # the table of then, once more: it knows nothing of this one
    assert time_that_counts(klass) == (IN_TIME, unknown)
    receive(klass, LATE)
    assert time_that_counts(klass) == (LATE, "")
    klass.submit("ann", RIGHT)
    assert time_that_counts(klass) == (IN_TIME, "")


def test_what_comes_after_a_late_one_is_as_late_whatever_it_claims(klass):
    path = klass.submit("ann", RIGHT)
    receive(klass, LATE)
    klass.submit("ann", WRONG)
    (path.parent / "timestamp.txt").write_text(f"{IN_TIME} UTC", encoding="ascii")
    told, doubt = time_that_counts(klass)
    assert told == LATE
    assert doubt.endswith("when it was handed in is not known")


def test_a_table_that_was_corrected_counts(klass):
    klass.submit("ann", RIGHT)
    receive(klass, LATE)
    receive(klass, IN_TIME)
    assert time_that_counts(klass) == (IN_TIME, "")


def test_a_time_told_before_there_was_anything_is_kept_of_nothing(klass):
    receive(klass, LATE)
    klass.submit("ann", RIGHT)
    assert time_that_counts(klass) == (None, "")
    receive(klass, LATE)
    assert time_that_counts(klass) == (LATE, "")


@pytest.mark.parametrize("damaged", ["", "\0" * 40, "2026-01-09 10:00:00 UTC\n", "9999-99-99 99:99:99 UTC x"])
def test_a_damaged_time_of_receipt_keeps_nobody_out(klass, damaged):
    klass.submit("ann", RIGHT)
    receive(klass, IN_TIME)
    (klass.layout.course / "received" / "ann" / TINY / "received.txt").write_text(damaged, encoding="ascii")
    told, doubt = time_that_counts(klass)
    assert told is None
    assert doubt.endswith("when it was handed in is not known")


def test_no_record_is_written_in_place(klass, monkeypatch):
    """A disk that is full, or a power cut, leaves the record that was there."""
    klass.submit("ann", RIGHT)
    receive(klass, IN_TIME)
    kept = klass.layout.course / "received" / "ann" / TINY / "received.txt"
    before = kept.read_text(encoding="ascii")
    klass.submit("ann", WRONG)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        receive(klass, LATE)
    assert kept.read_text(encoding="ascii") == before


def test_a_seed_that_is_damaged_is_named(tmp_path):
    (tmp_path / "seed").write_text("", encoding="ascii")
    with pytest.raises(CourseError, match="holds no number"):
        course_seed(tmp_path)
    assert (tmp_path / "seed").read_text(encoding="ascii") == ""


@pytest.fixture
def judged(klass, run):
    """A class of one: the students whom the grader looks at, by run."""
    klass.submit("ann", RIGHT)
    assert run() == ["ann"]
    assert run() == []
    return run


def test_a_grader_that_was_repaired_judges_anew(judged, monkeypatch):
    monkeypatch.setattr(grade_course, "version_of_the_grader", lambda: "another")
    assert judged() == ["ann"]
    assert judged() == []


def test_another_seed_judges_anew(judged, klass):
    (klass.layout.course / "seed").write_text("7\n", encoding="ascii")
    assert judged() == ["ann"]


def test_what_the_gradebook_does_not_hold_is_entered_anew(judged, klass):
    reason_file(klass.course.directory, "ann", TINY).unlink()
    assert judged() == ["ann"]
    with klass.course.gradebook() as book:
        book.find_grade("test_pairwise_dot", TINY, TINY, "ann").auto_score = 1.0
        book.db.commit()
    assert judged() == ["ann"]
    with klass.course.gradebook() as book:
        book.update_or_create_submission(TINY, "ann", timestamp=LATE)
    assert judged() == ["ann"]
    assert judged() == []


def test_the_version_is_of_all_that_a_verdict_is_made_of(tmp_path, monkeypatch):
    (tmp_path / "grader").mkdir()
    (tmp_path / "grader" / "judge.py").write_text("right = True", encoding="utf-8")
    before = version.digest_of_program([tmp_path / "grader"])
    monkeypatch.setattr(version, "version", lambda library: "0")
    libraries = version.digest_of_program([tmp_path / "grader"])
    (tmp_path / "grader" / "judge.py").write_text("right = not False", encoding="utf-8")
    assert len({before, libraries, version.digest_of_program([tmp_path / "grader"])}) == 3


def test_an_update_while_a_watch_runs_is_another_version_than_its_own(klass, monkeypatch):
    klass.submitted.mkdir(exist_ok=True)
    version.version_of_the_grader.cache_clear()
    Watch(klass.layout, klass.course, Folder(klass.submitted, [TINY]), How(layers=None))
    with monkeypatch.context() as updated:
        updated.setattr(version, "digest_of_program", lambda _: "updated")
        verdicts_of = version.version_of_the_grader()
    version.version_of_the_grader.cache_clear()
    assert verdicts_of == version.version_of_the_grader()


def test_no_part_of_the_judging_lies_elsewhere():
    sys.path.insert(0, str(ROOT / "tests"))
    from test_house import modules, reached

    found = reached(modules(), "autograder.judging.submission")
    rooms = {name.split(".")[1] for name in found if name.startswith("autograder.")}
    assert {"judging", "lesson_text", "sandbox"} <= rooms <= set(version.PARTS)
    assert not {name.partition(".")[0] for name in found} - {"attnlib", "autograder"}


@pytest.mark.slow
def test_a_wrong_mark_does_not_stay_and_is_not_said_to_be_given_by_hand(klass):
    """Right by `grade`, wrong by nbgrader's command, right again by `grade`."""

    def graded():
        (found,) = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
        return found

    klass.submit("ann", RIGHT)
    most = graded().points
    assert most == sum(POINTS.values())
    klass.submit("ann", WRONG)
    assert klass.course.autograde(TINY, "ann") is None
    assert sum(klass.scores("ann").values()) < most
    klass.submit("ann", RIGHT)
    again = graded()
    assert (again.points, again.remarks) == (most, ())
    assert sum(klass.scores("ann").values()) == most
    notebook = klass.layout.course / "autograded" / "ann" / TINY / f"{TINY}.ipynb"
    assert RIGHT["pairwise_dot"].splitlines()[-1].strip() in notebook.read_text(encoding="utf-8")


LONG = "n" * (LONGEST + 1)


@pytest.mark.parametrize(("student", "why"), [("a\nb", "has a line break"), (LONG, "129 letters"), ("\udcff", "UTF-8")])
def test_a_name_that_no_gradebook_takes_is_refused_and_80_columns_say_why(klass, student, why):
    klass.submit(student, RIGHT)
    (found,) = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe("none")))
    assert why in found.problem
    assert not found.fault
    terminal = Terminal(file=io.StringIO(), width=80)
    for table in grading_tables([found], {}):
        terminal.print(table)
    lines = [line[25:] for line in terminal.file.getvalue().splitlines()]
    assert why in " ".join(" ".join(lines).split())
    assert not (klass.layout.course / "faults.txt").exists()


def test_a_sentence_keeps_its_width_beside_any_name(tmp_path):
    terminal = Terminal(file=io.StringIO(), width=80)
    sentence = " ".join(["seven"] * 8)
    for table in grading_tables([Graded("x" * 255, TINY, problem=sentence), Graded("y", TINY, problem=sentence)], {}):
        terminal.print(table)
    assert terminal.file.getvalue().count(sentence) == 2
    assert "…" not in terminal.file.getvalue()


def test_the_table_of_times_refuses_a_lesson_that_is_not_there(klass):
    """Its times would belong to nothing, and everybody would be in time."""
    klass.submit("ann", RIGHT)
    (klass.layout.course / "times.csv").write_text(
        f"student_id,assignment,timestamp\nann,00,{LATE}\n", encoding="utf-8"
    )
    how = How(layers=probe("none"), received=klass.layout.course / "times.csv")
    with pytest.raises(CourseError, match="no lesson is called '00'"):
        grade(klass.layout, klass.submitted, (TINY,), how)


def test_the_table_of_times_refuses_a_name_that_no_gradebook_takes(klass):
    with pytest.raises(CourseError, match=f"line 2: .* has {len(LONG)} letters"):
        receive(klass, IN_TIME, student=LONG)
    assert not (klass.layout.course / "received").exists()
    assert Path(klass.layout.course).is_dir()


def test_a_version_with_other_exercises_says_what_to_do_and_takes_no_grade(klass, run, tmp_path):
    klass.submit("ann", RIGHT)
    run()
    before = klass.scores("ann")
    shutil.copytree(klass.layout.solutions, tmp_path / "newer")
    klass.layout = dataclasses.replace(klass.layout, solutions=tmp_path / "newer")
    text = klass.layout.text(TINY)
    text.write_text(text.read_text(encoding="utf-8").partition("# %% [markdown]\n# ### Exercise")[0], encoding="utf-8")
    (found,) = grade(klass.layout, klass.submitted, (), How(layers=probe("none")))
    assert re.search(r"The grades stay, .* docs/instructors\.md", found.refused)
    assert klass.scores("ann") == before


@pytest.mark.slow
def test_the_report_counts_a_verdict_by_the_points_it_was_given_for(klass):
    klass.submit("ann", RIGHT)
    grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
    source = read_notebook(klass.layout.source(TINY))
    cell(source, "test_pairwise_dot").metadata.nbgrader.points = POINTS["pairwise_dot"] + 3
    write_notebook(source, klass.layout.source(TINY))
    klass.course.generate_assignment(TINY)  # a newer version, after which nobody has graded yet
    (found,) = collect(klass.layout, (TINY,))
    assert {mark.exercise: (mark.points, mark.max_points) for mark in found.attempts} == {
        name: (points, points) for name, points in POINTS.items()
    }
    with klass.course.gradebook() as book:
        row = row_of(book, klass.course.directory, book.find_assignment(TINY), "ann", None)
    assert row.get("score") is None
    assert row["status"] == "not graded: the points have changed since it was judged: run `grade` again"
