"""The steps that make a submission gradable, one by one, on notebooks that were never executed."""

import copy
import inspect

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from nbgrader.converters import Autograde
from tiny_course import RIGHT, TINY, cell

from attnlib.checks.verdict.report import MIME
from autograder.in_nbgrader.nbgrader_course import NbgraderCourse
from autograder.in_nbgrader.preprocessors.hide_hidden_tests import HideHiddenTests
from autograder.judging.settle.distrust_metadata import distrust_metadata
from autograder.judging.settle.keep_one_copy import keep_one_copy
from autograder.judging.settle.put_tests_below import put_test_below_answer
from autograder.judging.verdict import earned, reports
from autograder.lesson_text.lesson import KERNEL
from autograder.lesson_text.regions import split_regions
from autograder.lesson_text.released import longest_answer, released_cells


@pytest.fixture(scope="module")
def trusted(prepared):
    return released_cells(NbgraderCourse(prepared.course).directory.db_url, TINY, TINY)


def graded_ids(notebook):
    return [c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata]


def test_metadata_is_taken_from_the_release(released, trusted):
    test = cell(released, "test_pairwise_dot")
    test.metadata = {
        "tags": ["skip-execution"],
        "nbgrader": {"grade_id": "test_pairwise_dot", "points": 1000, "grade": 1},
    }
    released.metadata = {"kernelspec": {"name": "foreign"}}
    released.cells[0].metadata = {"nbgrader": {"grade_id": ["no", "name"]}}
    settled = distrust_metadata(released, trusted)
    assert dict(settled.metadata.kernelspec) == KERNEL
    found = cell(settled, "test_pairwise_dot").metadata
    assert list(found) == ["nbgrader"]
    assert found.nbgrader.points == trusted["test_pairwise_dot"].points
    assert found.nbgrader.locked
    assert found.nbgrader.schema_version == 3
    assert settled.cells[0].metadata == {}


def test_an_answer_that_became_text_is_code_again(released, trusted):
    place = released.cells.index(cell(released, "pairwise_dot"))
    metadata = cell(released, "pairwise_dot").metadata
    released.cells[place] = new_markdown_cell(RIGHT["pairwise_dot"], metadata=metadata)
    settled = distrust_metadata(released, trusted)
    assert settled.cells[place].cell_type == "code"
    assert settled.cells[place].source == RIGHT["pairwise_dot"]


def with_copies(notebook, sources, below=False):
    """The answer's cell with these sources one after the other; `below`: the copies stand below the test."""
    first = cell(notebook, "pairwise_dot")
    copies = []
    for source in sources[1:]:
        copies.append(copy.deepcopy(first))
        copies[-1].source = source
    first.source = sources[0]
    place = notebook.cells.index(cell(notebook, "test_pairwise_dot") if below else first) + 1
    notebook.cells[place:place] = copies
    return notebook


STUB = None  # the released text


@pytest.mark.parametrize(
    ("sources", "below", "kept"),
    [
        (["a = 1", STUB], False, "a = 1"),
        ([STUB, "a = 1"], False, "a = 1"),
        (["a = 1", "a = 2"], False, "a = 2"),
        (["a = 1", STUB], True, "a = 1"),
        ([STUB, "a = 1"], True, "a = 1"),
        (["a = 1", "a = 2"], True, "a = 1"),
        ([STUB, STUB], False, STUB),
    ],
)
def test_the_copy_that_counts(released, trusted, sources, below, kept):
    stub = cell(released, "pairwise_dot").source
    sources = [stub if source is STUB else source for source in sources]
    notebook = distrust_metadata(with_copies(released, sources, below), trusted)
    settled = put_test_below_answer(keep_one_copy(notebook, trusted), trusted)
    ids = graded_ids(settled)
    assert sorted(ids) == sorted(set(ids))
    assert cell(settled, "pairwise_dot").source == (stub if kept is STUB else kept)
    assert ids.index("test_pairwise_dot") == ids.index("pairwise_dot") + 1
    executed = [c.source for c in settled.cells if c.cell_type == "code"]
    assert executed.count(stub) == (1 if kept is STUB else 0)


def test_of_two_pairs_the_last_counts(released, trusted):
    answer, test = (copy.deepcopy(cell(released, name)) for name in ("pairwise_dot", "test_pairwise_dot"))
    cell(released, "pairwise_dot").source, answer.source = "a = 1", "a = 2"
    released.cells += [answer, test]
    settled = keep_one_copy(distrust_metadata(released, trusted), trusted)
    assert cell(settled, "pairwise_dot").source == "a = 2"
    assert graded_ids(settled)[-2:] == ["pairwise_dot", "test_pairwise_dot"]


@pytest.mark.parametrize("kind", ["code", "raw", "markdown"])
def test_a_copied_test_shows_nothing_that_is_hidden(released, trusted, kind):
    copied = copy.deepcopy(cell(released, "test_pairwise_dot"))
    copied.cell_type = kind
    released.cells.insert(0, copied)
    settled = keep_one_copy(distrust_metadata(released, trusted), trusted)
    assert settled.cells[0].source == 'check("pairwise_dot", pairwise_dot)'
    assert "BEGIN HIDDEN TESTS" in cell(settled, "test_pairwise_dot").source


def test_a_deleted_test_is_put_back_below_its_answer(released, trusted):
    released.cells.remove(cell(released, "test_pairwise_dot"))
    settled = put_test_below_answer(distrust_metadata(released, trusted), trusted)
    ids = graded_ids(settled)
    assert ids.index("test_pairwise_dot") == ids.index("pairwise_dot") + 1
    assert "BEGIN HIDDEN TESTS" in cell(settled, "test_pairwise_dot").source


def test_a_test_without_its_answer_goes_to_the_end(released, trusted):
    for name in ("pairwise_dot", "test_pairwise_dot"):
        released.cells.remove(cell(released, name))
    released.cells.append(new_code_cell(RIGHT["pairwise_dot"]))
    settled = put_test_below_answer(distrust_metadata(released, trusted), trusted)
    assert graded_ids(settled)[-1] == "test_pairwise_dot"
    assert settled.cells[-1] is cell(settled, "test_pairwise_dot")


def test_a_moved_test_returns_below_its_answer(released, trusted):
    released.cells.insert(0, released.cells.pop(released.cells.index(cell(released, "test_pairwise_dot"))))
    settled = put_test_below_answer(distrust_metadata(released, trusted), trusted)
    ids = graded_ids(settled)
    assert ids.index("test_pairwise_dot") == ids.index("pairwise_dot") + 1


def value(text, count=1):
    return new_code_cell(
        "x", execution_count=count, outputs=[new_output("execute_result", {"text/plain": text}, execution_count=count)]
    )


@pytest.mark.parametrize(
    ("test_cell", "points"),
    [
        (value("3.5"), 3.5),
        (value("0.0"), 0.0),
        (value("7.0"), 0.0),
        (value("-1.0"), 0.0),
        (value("nan"), 0.0),
        (value("'all of them'"), 0.0),
        (value("3.5", count=None), 0.0),
        (new_code_cell("x"), 0.0),
        (new_code_cell("x", execution_count=1), 0.0),
        (new_code_cell("x", execution_count=1, outputs=[new_output("error", ename="E", evalue="", traceback=[])]), 0.0),
    ],
)
def test_points_are_a_number_in_range_or_nothing(test_cell, points):
    assert earned(test_cell, 5.0) == pytest.approx(points, abs=0)


def test_what_a_cell_wrote_to_stderr_takes_no_points():
    test_cell = value("3.5")
    test_cell.outputs.insert(0, new_output("stream", name="stderr", text="UserWarning: careful"))
    assert earned(test_cell, 5.0) == pytest.approx(3.5, abs=0)


def test_reports_are_read_from_graded_cells_alone(released):
    report = new_output("display_data", {MIME: {"exercise": "pairwise_dot", "diagnosis": "normalised"}})
    cell(released, "test_pairwise_dot").outputs = [report]
    released.cells.append(new_code_cell("forged", outputs=[report]))
    assert reports(released) == {"test_pairwise_dot": {"exercise": "pairwise_dot", "diagnosis": "normalised"}}


def test_feedback_hides_the_hidden_test_and_a_traceback_that_quotes_it(source):
    test = cell(source, "test_pairwise_dot")
    quote = "      1 ### BEGIN HIDDEN TESTS\n----> 2 from attnlib.checks import grade as check"
    test.outputs = [new_output("error", ename="NameError", evalue="no pairwise_dot", traceback=[quote])]
    notebook, _ = HideHiddenTests().preprocess(source, {})
    assert test.source == 'check("pairwise_dot", pairwise_dot)'
    assert test.outputs[0].traceback == ["NameError: no pairwise_dot"]
    assert "BEGIN SOLUTION" in cell(notebook, "pairwise_dot").source


def test_regions_take_a_cell_apart():
    source = inspect.cleandoc(
        """
        def f(x):
            ### BEGIN SOLUTION
            return x
            ### BEGIN STUB
            # return -x
            #
            # # so
            ### END SOLUTION
            ### BEGIN HIDDEN TESTS
            secret
            ### END HIDDEN TESTS
        """
    )
    regions = split_regions(source)
    assert regions.solution == ["    return x"]
    assert regions.released == ["def f(x):", "    return -x", "", "    # so"]
    assert regions.hidden == ["    secret"]


def test_a_region_without_a_stub_raises_with_the_name_of_the_exercise():
    released = split_regions("class A:\n    ### BEGIN SOLUTION\n    x = 1\n    ### END SOLUTION", "A").released
    assert released == ["class A:", "    # your code here", '    raise NotImplementedError("A")']


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("### BEGIN SOLUTION\nx = 1", "a solution has no end"),
        ("### END SOLUTION", "must not stand alone"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION", "must not stand in a solution"),
        ("### BEGIN STUB", "must not stand alone"),
        ("### BEGIN SOLUTION\n### BEGIN STUB\nx = 1\n### END SOLUTION", "a stub's lines are comments, got 'x = 1'"),
        ("### BEGIN HIDDEN TESTS", "a hidden test has no end"),
    ],
)
def test_a_marker_in_the_wrong_place_is_an_error(source, message):
    with pytest.raises(ValueError, match=message):
        split_regions(source)


def test_a_test_belongs_to_the_longest_name_that_fits():
    assert longest_answer("test_softmax", ["softmax", "max"]) == "softmax"
    assert longest_answer("test_softmax_twice", ["softmax"]) == "softmax"
    assert longest_answer("test_softmax_twice", ["softmax", "softmax_twice"]) == "softmax_twice"
    assert longest_answer("test_softmaxes", ["softmax"]) is None


def test_ctrl_c_is_not_one_student_s_failure(prepared, monkeypatch):
    monkeypatch.setattr(Autograde, "start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        NbgraderCourse(prepared.course).autograde(TINY, "someone")


def interrupt(self):
    raise KeyboardInterrupt
