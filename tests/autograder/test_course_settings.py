"""What an instructor sets in the course's own nbgrader_config.py holds for every way to grade."""

import pytest
from tiny_course import RIGHT, TINY

from autograder.grading.grade_course import How, grade
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.sandbox.probe import probe

SETTINGS = """
c = get_config()
c.CourseDirectory.root = "elsewhere"
c.Exchange.root = "an exchange"
c.LateSubmissionPlugin.penalty_method = "zero"
"""


def test_the_course_s_settings_come_after_ours_and_move_no_course(tmp_path):
    (tmp_path / "nbgrader_config.py").write_text(SETTINGS, encoding="utf-8")
    course = NbgraderCourse(tmp_path)
    assert course.config.Exchange.root == "an exchange"
    assert course.directory.root == str(tmp_path)
    assert course.config.ExportApp.plugin_class.endswith("CsvWithStatus")
    assert "Exchange" not in NbgraderCourse(tmp_path / "another").config


@pytest.mark.slow
def test_who_is_late_pays_what_the_course_asks(klass):
    (klass.layout.course / "nbgrader_config.py").write_text(SETTINGS, encoding="utf-8")
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
