"""`new-lesson` gives no name that is taken: not an exercise's, not a module's, and none that pip refuses."""

import pytest

from autograder.building import new_lesson
from autograder.building.new_lesson import write_lesson
from autograder.showing.errors import CourseError


@pytest.mark.parametrize("topic", ["lambda", "class", "softmax", "torch"])
def test_a_topic_that_cannot_name_a_new_exercise_is_refused(tmp_path, topic):
    with pytest.raises(CourseError, match=f"'{topic}' cannot be the exercise's name"):
        write_lesson(f"20_{topic}", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("My Course", "my_course"),
        ("random", "course_random"),
        ("torch", "course_torch"),
        ("tests", "course_tests"),
        ("class", "course_class"),
        ("Übung 1", "bung_1"),
        ("課程", "course"),
        ("2027", "course_2027"),
    ],
)
def test_a_package_hides_no_other_and_can_be_installed(tmp_path, folder, package):
    assert new_lesson._package(tmp_path / folder) == package
