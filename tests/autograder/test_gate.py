"""The release gate: each thing that must not be published is planted, one at a time."""

import copy
import re
from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from tiny_course import EXERCISES, TINY, cell

from autograder.building.gate import Gate


def complaints(release, source, exercises=EXERCISES):
    return Gate(TINY, release, source, exercises).complaints()


def test_the_release_as_it_is_passes(released, source):
    assert complaints(released, source) == []


def plant_solution_in_its_cell(nb):
    cell(nb, "pairwise_dot").source += '\n    return torch.einsum("bqd,bkd->bqk", x, y)'


def plant_solution_in_another_cell(nb):
    nb.cells.append(new_code_cell('def f(x, y):\n  return torch.einsum( "bqd,bkd->bqk",x,y )  # so', id="extra"))


def plant_solution_in_text(nb):
    nb.cells.append(new_markdown_cell('Try `return torch.einsum("bqd,bkd->bqk", x, y)`.', id="extra"))


def plant_choice(nb):
    nb.cells.append(new_code_cell('largest_dot = "B"  # for sure', id="extra"))


def plant_marker(nb):
    cell(nb, "pairwise_dot").source += "\n    ### END SOLUTION"


def plant_stub_marker(nb):
    cell(nb, "predict_largest_dot").source += "\n### BEGIN STUB"


def plant_hidden_marker(nb):
    cell(nb, "test_pairwise_dot").source = "### begin hidden tests\n" + cell(nb, "test_pairwise_dot").source


def plant_hidden_test(nb):
    test = cell(nb, "test_pairwise_dot")
    test.source = "from attnlib.checks import grade as check\n" + test.source


def plant_output(nb):
    nb.cells[1].outputs = [new_output("stream", name="stdout", text="7")]


def plant_execution_count(nb):
    nb.cells[1].execution_count = 3


def plant_jupytext(nb):
    nb.metadata["jupytext"] = {"formats": "ipynb,py:percent"}


def plant_jupytext_in_a_cell(nb):
    nb.cells[1].metadata["lines_to_next_cell"] = 2


def plant_broken_code(nb):
    nb.cells[1].source = "import torch as"


def plant_solved_cell(nb):
    cell(nb, "pairwise_dot").source = 'def pairwise_dot(x, y):\n    return "anything"'


def plant_solved_choice(nb):
    cell(nb, "predict_largest_dot").source = 'largest_dot = "B"'


def plant_choice_that_raises(nb):
    cell(nb, "predict_largest_dot").source = '# your code here\nraise NotImplementedError("predict_largest_dot")'


def plant_duplicate(nb):
    nb.cells.append(copy.deepcopy(cell(nb, "pairwise_dot")))


def plant_test_without_answer(nb):
    nb.cells.remove(cell(nb, "pairwise_dot"))


def plant_answer_without_test(nb):
    nb.cells.remove(cell(nb, "test_pairwise_dot"))


def plant_test_above_answer(nb):
    nb.cells.insert(0, nb.cells.pop(nb.cells.index(cell(nb, "test_pairwise_dot"))))


def plant_locked_answer(nb):
    cell(nb, "pairwise_dot").metadata.nbgrader["locked"] = True


def plant_open_test(nb):
    cell(nb, "test_pairwise_dot").metadata.nbgrader["locked"] = False


def plant_other_check(nb):
    cell(nb, "test_pairwise_dot").source = "assert pairwise_dot is not None"


def plant_points(nb):
    cell(nb, "test_pairwise_dot").metadata.nbgrader["points"] = 97


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (
            plant_solution_in_its_cell,
            "exercise pairwise_dot, cell pairwise_dot: a line of the solution is left: return",
        ),
        (plant_solution_in_another_cell, "cell extra: a line of the solution is left: return torch"),
        (plant_solution_in_text, "cell extra: a line of the solution is left: return torch"),
        (plant_choice, 'cell extra: a line of the solution is left: largest_dot = "B"'),
        (plant_marker, "exercise pairwise_dot, cell pairwise_dot: the marker 'END SOLUTION' is left"),
        (plant_stub_marker, "cell predict_largest_dot: the marker 'BEGIN STUB' is left"),
        (plant_hidden_marker, "exercise pairwise_dot, cell test_pairwise_dot: the marker 'begin hidden tests' is left"),
        (plant_hidden_test, "cell test_pairwise_dot: a line of a hidden test is left: from attnlib.checks import"),
        (plant_output, "cell cell-1: it has an output or an execution count"),
        (plant_execution_count, "cell cell-1: it has an output or an execution count"),
        (plant_jupytext, "the notebook's metadata has a jupytext key"),
        (plant_jupytext_in_a_cell, "cell cell-1: its metadata has a key of jupytext"),
        (plant_broken_code, "cell cell-1: it does not compile"),
        (plant_solved_cell, "cell pairwise_dot: there is no stub that raises NotImplementedError"),
        (plant_solved_choice, "cell predict_largest_dot: there is no stub: the student gets the solution"),
        (plant_choice_that_raises, "cell predict_largest_dot: the stub would end the run of the cells here"),
        (plant_duplicate, "the grade id 'pairwise_dot' is there more than once"),
        (plant_test_without_answer, "cell test_pairwise_dot: it is a test without an answer"),
        (plant_answer_without_test, "cell pairwise_dot: the answer has no test"),
        (plant_test_above_answer, "cell test_pairwise_dot: the test stands above its answer"),
        (plant_locked_answer, "cell pairwise_dot: an answer must be neither graded nor locked"),
        (plant_open_test, "cell test_pairwise_dot: a test must be locked and have points"),
        (plant_other_check, 'cell test_pairwise_dot: a test ends with check\\("pairwise_dot", …\\)'),
        (plant_points, "exercise pairwise_dot: its tests must be worth .* got 97"),
    ],
)
def test_a_plant_is_found_and_named(released, source, plant, expected):
    plant(released)
    found = complaints(released, source)
    assert any(line.startswith(TINY) for line in found)
    assert [line for line in found if re.search(expected, line)], found


def test_ipython_magics_compile(released, source):
    released.cells[1].source += "\n%matplotlib inline\n!ls\nawait_me = 1"
    assert complaints(released, source) == []


def test_an_exercise_that_the_notebook_lacks_is_named(released, source):
    more = {**EXERCISES, "softmax": SimpleNamespace(name="softmax", lesson=TINY, points=3)}
    assert complaints(released, source, more) == [f"{TINY}: exercise softmax: it is missing from the notebook"]


def test_an_exercise_that_the_course_lacks_is_named(released, source):
    fewer = {name: exercise for name, exercise in EXERCISES.items() if name != "pairwise_dot"}
    assert complaints(released, source, fewer) == [
        f"{TINY}: exercise pairwise_dot: attnlib.checks has no such exercise"
    ]


def test_an_exercise_of_another_lesson_is_named(released, source):
    other = {**EXERCISES, "pairwise_dot": SimpleNamespace(name="pairwise_dot", lesson="03_other", points=4)}
    assert complaints(released, source, other) == [f"{TINY}: exercise pairwise_dot: it belongs to lesson 03_other"]


def test_an_exercise_without_points_is_checked_and_not_graded(released, source):
    stretch = {**EXERCISES, "pairwise_dot": SimpleNamespace(name="pairwise_dot", lesson=TINY, points=0)}
    test = cell(released, "test_pairwise_dot")
    del test.metadata["nbgrader"]
    assert complaints(released, source, stretch) == []
    released.cells.remove(test)
    assert complaints(released, source, stretch) == [
        f"{TINY}, exercise pairwise_dot, cell pairwise_dot: the answer has no test"
    ]


def test_an_empty_solution_is_named(released, source):
    answer = cell(source, "pairwise_dot")
    answer.source = "\n".join(line for line in answer.source.split("\n") if "return" not in line)
    assert complaints(released, source) == [
        f"{TINY}, exercise pairwise_dot, cell pairwise_dot: the text has no solution between its markers"
    ]


def test_a_line_that_a_stub_shows_is_no_secret(released, source):
    choice = cell(source, "predict_largest_dot")
    choice.source = choice.source.replace("### BEGIN STUB", '### BEGIN STUB\n# largest_dot = "B"')
    cell(released, "predict_largest_dot").source += '\nlargest_dot = "B"\nlargest_dot = 2'
    assert complaints(released, source) == []


def test_code_that_another_exercise_gives_is_no_secret_there(released, source):
    given = 'return torch.einsum("bqd,bkd->bqk", x, y)'
    choice = cell(source, "predict_largest_dot")
    choice.source = f"def shown(x, y):\n    {given}\n\n{choice.source}"
    cell(released, "predict_largest_dot").source = f"def shown(x, y):\n    {given}\n\nlargest_dot = None"
    assert complaints(released, source) == []
    released.cells.append(new_code_cell(f"def again(x, y):\n    {given}", id="extra"))
    assert len(complaints(released, source)) == 1
