"""`autograder.grade(source, submission)`: one submission, without a course or a database."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tiny_course import POINTS, RIGHT, TINY, cell

import autograder
from autograder.judging.intake import custody
from autograder.judging.judge import Judge
from autograder.judging.submission import SECOND_ATTEMPT, Task, judge_task
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.notebook import to_text, write_notebook
from autograder.sandbox.probe import probe
from autograder.showing.errors import CourseError


@pytest.mark.slow
def test_a_submission_is_graded_as_a_function(released, layout, tmp_path):
    source = layout.solutions / f"{TINY}.py"
    cell(released, "pairwise_dot").source = RIGHT["pairwise_dot"]
    write_notebook(released, tmp_path / "anything.ipynb")
    found = autograder.grade(source, tmp_path / "anything.ipynb", seed=7)
    assert (found["lesson"], found["problem"], found["remarks"]) == (TINY, None, [])
    assert (found["points"], found["max_points"]) == (POINTS["pairwise_dot"], sum(POINTS.values()))
    right, open_one = found["tests"]["test_pairwise_dot"], found["tests"]["test_predict_largest_dot"]
    assert (right["passed"], right["points"], right["diagnosis"]) == (True, POINTS["pairwise_dot"], None)
    assert (open_one["passed"], open_one["points"], open_one["headline"]) == (False, 0.0, "is not answered yet")

    cell(released, "pairwise_dot").source = RIGHT["pairwise_dot"].replace("return ", "return 2 * ")
    wrong = autograder.grade(source, to_text(released).encode())
    assert wrong["points"] == 0
    assert "One change away" in wrong["tests"]["test_pairwise_dot"]["message"]


@pytest.mark.slow
def test_what_is_no_notebook_is_not_graded_and_not_zero(layout):
    found = autograder.grade(layout.solutions / f"{TINY}.py", b"{")
    assert (found["points"], found["problem"], found["tests"]) == (None, "the notebook is not JSON", {})


def test_a_file_far_larger_than_a_notebook_is_not_read_whole(layout, tmp_path, monkeypatch):
    monkeypatch.setattr(custody, "MOST_BYTES", 1000)
    (tmp_path / "large.ipynb").write_bytes(b" " * 2000 + b"{")
    found = autograder.grade(layout.solutions / f"{TINY}.py", tmp_path / "large.ipynb")
    assert found["problem"].startswith("large.ipynb has 2001 bytes; a notebook may have 1000")
    assert found["points"] is None


def test_what_is_left_out_of_a_folder_is_said(layout, tmp_path):
    """An answer that reads it fails for want of it."""
    (tmp_path / f"{TINY}.ipynb").write_text("{")
    (tmp_path / "numbers.txt").symlink_to("nowhere")
    found = autograder.grade(layout.solutions / f"{TINY}.py", tmp_path)
    assert found["problem"] == "the notebook is not JSON"
    assert found["remarks"] == ["left out: numbers.txt is a link, and no file of its own"]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "points"), [(1, POINTS["pairwise_dot"]), (2, None)])
def test_a_fault_of_the_grader_s_own_is_tried_again_once(released, layout, monkeypatch, times, points):
    cell(released, "pairwise_dot").source = RIGHT["pairwise_dot"]
    judge, faults = Judge._judge, []

    def faulty(self, child, question, *more):
        if question.exercise.name == "pairwise_dot" and len(faults) < times:
            faults.append(child)
            raise KeyError("a fault")
        return judge(self, child, question, *more)

    monkeypatch.setattr(Judge, "_judge", faulty)
    assignment = Assignment.read(layout.solutions / f"{TINY}.py")
    task = Task("one", TINY, to_text(assignment.source), {f"{TINY}.ipynb": to_text(released).encode()})
    found = judge_task(task, probe())
    assert found.points.get("test_pairwise_dot") == points
    assert (found.problem is None) == (points is not None)
    assert (found.overcome if times == 1 else found.fault).count("KeyError: 'a fault'") == times
    assert (SECOND_ATTEMPT in found.remarks) == (times == 1)
    assert len(faults) == times


@pytest.mark.slow
def test_it_can_be_called_from_several_threads(released, layout):
    source, output, seen = layout.solutions / f"{TINY}.py", sys.stdout, set()
    notebooks = []
    for times in (1, 2):
        cell(released, "pairwise_dot").source = RIGHT["pairwise_dot"].replace("return ", f"return {times} * ")
        notebooks.append(to_text(released).encode())
    done = threading.Event()

    def look():
        while not done.wait(0.001):
            seen.add(sys.stdout)

    looking = threading.Thread(target=look)
    looking.start()
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda notebook: autograder.grade(source, notebook, seed=7), notebooks * 3))
    done.set()
    looking.join()
    assert [one["points"] for one in found] == [POINTS["pairwise_dot"], 0] * 3
    assert found[0] == found[2] == found[4]
    assert seen == {output}


def test_a_lesson_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(CourseError, match=r"none\.py does not exist"):
        autograder.grade(tmp_path / "none.py", b"{}")
