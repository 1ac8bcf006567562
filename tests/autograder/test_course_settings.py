"""What an instructor sets in the course's own course_settings.py holds for every way to grade."""

import subprocess
import sys

import pytest
from nbgrader.dbutil import _temp_alembic_ini
from tiny_course import EXERCISES, POINTS, RIGHT, TINY

from autograder.building.build_course import release_all
from autograder.grading.grade_course import How, grade
from autograder.grading.workers import Crew
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.table_version import newest
from autograder.sandbox.probe import probe

SETTINGS = """
c = get_config()
c.CourseDirectory.root = "elsewhere"
c.Exchange.root = "an exchange"
c.LateSubmissionPlugin.penalty_method = "zero"
"""


def test_the_course_s_settings_come_after_ours_and_move_no_course(tmp_path):
    (tmp_path / "course_settings.py").write_text(SETTINGS, encoding="utf-8")
    course = NbgraderCourse(tmp_path)
    assert course.config.Exchange.root == "an exchange"
    assert course.directory.root == str(tmp_path)
    assert course.config.ExportApp.plugin_class.endswith("CsvWithStatus")
    assert "Exchange" not in NbgraderCourse(tmp_path / "another").config


@pytest.mark.slow
def test_a_new_gradebook_has_the_version_that_alembic_says():
    with _temp_alembic_ini("sqlite://") as settings:
        command = [sys.executable, "-m", "alembic", "-c", settings, "heads"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.split()[0] == newest()


@pytest.mark.slow
def test_who_is_late_pays_what_the_course_asks(klass):
    (klass.layout.course / "course_settings.py").write_text(SETTINGS, encoding="utf-8")
    for student, time in {"late": "2026-02-01 00:00:01 UTC", "early": "2026-01-31 23:59:59 UTC"}.items():
        path = klass.submit(student, RIGHT)
        (path.parent / "timestamp.txt").write_text(time, encoding="ascii")
    with klass.course.gradebook() as gradebook:
        gradebook.update_or_create_assignment(TINY, duedate="2026-01-31 23:59:59 UTC")
    grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
    with klass.course.gradebook() as gradebook:
        found = {name: gradebook.find_submission(TINY, name) for name in ("late", "early")}
        kept = {name: one.score - (one.late_submission_penalty or 0) for name, one in found.items()}
        assert (kept["late"], kept["early"]) == (0, found["early"].score)
        assert found["early"].score > 0


@pytest.mark.slow
def test_a_deadline_that_moves_after_a_verdict_counts_in_the_next_run_and_nothing_is_judged_again(klass, monkeypatch):
    (klass.layout.course / "course_settings.py").write_text(SETTINGS, encoding="utf-8")
    path = klass.submit("late", RIGHT)
    (path.parent / "timestamp.txt").write_text("2026-02-01 00:00:01 UTC", encoding="ascii")

    told = []

    def graded_by(deadline):
        with klass.course.gradebook() as gradebook:
            gradebook.update_or_create_assignment(TINY, duedate=deadline)
        (one,) = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
        with klass.course.gradebook() as gradebook:
            told.append({result.exercise: (result.points, result.in_place_of) for result in one.results})
            return gradebook.find_submission(TINY, "late").late_submission_penalty, one.remarks[1:]

    most = sum(POINTS.values())
    assert graded_by(None) == (0, ())
    monkeypatch.setattr(Crew, "judge", lambda _, tasks, *more: [] if not list(tasks) else pytest.fail("again"))
    assert graded_by("2026-01-31 00:00:00 UTC") == (most, (f"late: {most} of {most} points are taken off",))
    with klass.course.gradebook() as gradebook:
        grade_by_hand = gradebook.find_grade("test_pairwise_dot", TINY, TINY, "late")
        grade_by_hand.manual_score = 0.5
        gradebook.db.commit()
    rest = most - POINTS["pairwise_dot"] + 0.5
    by_hand = f"with points given by hand: {rest:g} in place of {most:g}"
    assert graded_by("2026-01-31 00:00:00 UTC") == (
        rest,
        (by_hand, f"late: {rest:g} of {rest:g} points are taken off"),
    )
    assert graded_by("2026-02-28 00:00:00 UTC") == (0, (by_hand,))
    judged = {name: (points, None) for name, points in POINTS.items()}
    assert told == [judged] * 2 + [judged | {"pairwise_dot": (0.5, POINTS["pairwise_dot"])}] * 2


@pytest.mark.slow
def test_another_gradebook_gets_what_one_has_already(klass, tmp_path, monkeypatch):
    klass.submit("ann", RIGHT)
    klass.submit("bob").write_text("no notebook", encoding="utf-8")
    grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
    monkeypatch.setenv("AUTOGRADER_DB", f"sqlite:///{tmp_path / 'other.db'}")
    ann, bob = grade(klass.layout, klass.submitted, (TINY,), How(layers=probe()))
    course = NbgraderCourse(klass.layout.course)
    assert "other.db" in course.directory.db_url
    with course.gradebook() as gradebook:
        assert gradebook.find_submission(TINY, "ann").score == ann.points > 0
        assert gradebook.find_submission(TINY, "bob").score == 0
    assert bob.problem is not None


@pytest.mark.slow
def test_a_lesson_that_is_built_enters_no_gradebook(layout, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_DB", f"sqlite:///{tmp_path / 'real.db'}")
    assert release_all([TINY], layout, EXERCISES, lambda _: None)
    assert not (tmp_path / "real.db").exists()
