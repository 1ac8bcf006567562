"""An instructor opens the formgrader, autogrades, reads a submission, enters a grade by hand, and returns feedback."""

import dataclasses
import re
import shutil

import pytest
from jupyter_servers import BOUND, jupyter_lab, press

from autograder.building.build_course import prepare
from autograder.building.compose_samples import compose_samples
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.lesson_text.layout import CONFIG, Layout

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LESSON, STUDENT = "02_scaled_dot_product_attention", "forgets_the_scale"
OURS = """
c = get_config()
load_subconfig({config!r})
c.CourseDirectory.root = {course!r}
c.CourseDirectory.course_id = "attention"
c.Exchange.root = {exchange!r}
"""


@pytest.fixture
def course(tmp_path):
    """A course as the guide prepares it, and what one student handed in."""
    layout = dataclasses.replace(Layout(), course=tmp_path / "instructor" / "course")
    prepare(layout, (LESSON,))
    compose_samples(layout, layout.course / "release", tmp_path / "samples")
    handed_in = layout.course / "submitted" / STUDENT
    shutil.copytree(tmp_path / "samples" / STUDENT, handed_in)
    for name, text in {"timestamp.txt": "2026-01-02 03:04:05 UTC", "submission_secret.txt": "a secret"}.items():
        (handed_in / LESSON / name).write_text(text, encoding="utf-8")  # as `nbgrader submit` does
    return layout.course


@pytest.fixture
def lab(tmp_path, course):
    """JupyterLab, started in the folder in which the settings and the course are."""
    (tmp_path / "exchange").mkdir(mode=0o777)
    text = OURS.format(config=str(CONFIG), course=str(course), exchange=str(tmp_path / "exchange"))
    (tmp_path / "instructor" / "nbgrader_config.py").write_text(text, encoding="utf-8")
    with jupyter_lab(tmp_path / "instructor", tmp_path / "jupyter") as address:
        yield address


def grades(course):
    with NbgraderCourse(course).gradebook() as gradebook:
        found = gradebook.find_submission_notebook(LESSON, LESSON, STUDENT).grades
        return {grade.name.removeprefix("test_"): (grade.auto_score, grade.manual_score) for grade in found}


def test_an_instructor_grades_corrects_and_returns_feedback(lab, course, page, picture, tmp_path):
    page.goto(lab.format("lab"))
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Formgrader").click()
    page.frame_locator("iframe").get_by_role("link", name=LESSON).first.wait_for()

    submissions = lab.format(f"formgrader/manage_submissions/{LESSON}")
    page.goto(submissions)
    press(page, "autograde")
    assert grades(course)["attention_scores"] == (0, None)
    assert grades(course)["softmax"] == (5, None)

    page.goto(lab.format(f"formgrader/gradebook/{LESSON}/{LESSON}"))
    page.get_by_role("link", name="Submission #1").click()
    page.get_by_text("The scale is missing").first.wait_for()
    score = page.locator("input#test_attention_scores")
    score.scroll_into_view_if_needed()
    with page.expect_response(lambda answer: "/api/grade/" in answer.url and answer.request.method == "PUT"):
        score.fill("2")
        score.press("Tab")
    assert grades(course)["attention_scores"] == (0, 2)
    picture(page, "formgrader")

    page.goto(submissions)
    press(page, "generate-feedback")
    press(page, "release-feedback")
    (feedback,) = (tmp_path / "exchange" / "attention" / "feedback").glob("*.html")
    page.goto(feedback.as_uri())
    page.get_by_text("The scale is missing").first.wait_for(timeout=1000 * BOUND)
    assert re.search(r"Score:\s*2\.0\s*/\s*4\.0", page.locator("body").inner_text())
