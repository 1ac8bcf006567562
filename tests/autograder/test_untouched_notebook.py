"""A student's notebook in which nothing is answered: it runs to its end, and it is worth nothing."""

import re

import pytest
from nbclient import NotebookClient
from nbgrader.utils import determine_grade
from nbgrader.validator import Validator
from tiny_course import HANGS

from attnlib.checks import exercises
from attnlib.checks.standing import kept
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook

LESSON = "00_start_here"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Restart & Run All, with a file for what is kept; an error in a cell raises."""
    notebook = read_notebook(Layout().notebooks / f"{LESSON}.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kept.PLACE, str(tmp_path_factory.mktemp("home") / "kept.json"))
        NotebookClient(notebook, timeout=HANGS, startup_timeout=HANGS, kernel_name="python3").execute()
    return notebook


@pytest.mark.slow
def test_it_lists_at_its_end_what_is_not_answered(executed):
    told = executed.cells[-1].outputs[0].data["text/plain"]
    asked = [name for name, exercise in exercises().items() if exercise.lesson == LESSON]
    assert len(asked) > 4
    for name in asked:
        assert f"{name} " in told
    assert told.count("○ not answered yet") == len(asked)
    assert "Next: predict_largest_dot, 1 point." in told


@pytest.mark.slow
def test_each_check_shows_its_report_and_a_number(executed):
    tests = [cell for cell in executed.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    for cell in tests:
        (output,) = cell.outputs
        assert output.data["text/plain"] == "0.0"
        assert "<div" in output.data["text/html"]
    assert "is not answered yet: choose" in tests[0].outputs[0].data["text/html"]


@pytest.mark.slow
def test_nbgrader_gives_it_nothing_and_does_not_validate_it(executed):
    tests = [cell for cell in executed.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert [determine_grade(cell)[0] for cell in tests] == [0.0] * len(tests)
    assert Validator()._get_failed_cells(executed) == tests


@pytest.mark.slow
def test_validate_says_of_each_exercise_that_it_is_not_answered(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.PLACE, str(tmp_path / "kept.json"))
    failed = Validator().validate(str(Layout().notebooks / f"{LESSON}.ipynb"))["failed"]
    asked = [name for name, exercise in exercises().items() if exercise.lesson == LESSON and exercise.points]
    assert len(asked) > 2
    for name, cell in zip(asked, failed, strict=True):
        said = re.escape(name) + ": (is not (answered|written) yet: .*|the bug is still there) [(]0 of .*"
        assert re.fullmatch(f"[○✗] {said}\n", cell["raw_error"]), cell["raw_error"]


def test_the_cells_that_no_lesson_s_text_has_are_the_course_s_own_for_the_grader():
    """They are neither an answer nor code that a student added."""
    for lesson in Layout().lessons():
        cells = read_notebook(Layout().notebooks / f"{lesson}.ipynb").cells
        assert cells[-1].id == "progress"
        due = [number for number, cell in enumerate(cells) if cell.id == "due"]
        assert due == ([] if lesson == LESSON else [2])  # below the title and Colab's cell
        for cell in (cells[-1], *(cells[number] for number in due)):
            assert cell.source in Assignment.read(Layout().solutions / f"{lesson}.py").given
        assert all(cells[number].metadata.jupyter.source_hidden for number in due)
