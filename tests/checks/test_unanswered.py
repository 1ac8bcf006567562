"""What is not answered yet does not stop a notebook; what is wrong does. In plain Python, and in a real kernel."""

import pytest
from notebook_cells import run_cell

from attnlib.checks import CheckFailed, check, exercises
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook

MENDS = [name for name, e in exercises().items() if any(m.id == "as_given" for m in e.misconceptions)]


def unwritten(*inputs):
    raise NotImplementedError


def test_a_stub_is_worth_nothing_and_stops_nothing(capsys):
    points = check("pairwise_dot", unwritten)
    assert points == 0.0
    assert capsys.readouterr().out.startswith("○ pairwise_dot: is not written yet: put your code in")


def test_its_text_is_the_number_that_nbgrader_reads_and_its_html_the_report():
    shown = check("predict_largest_dot", ...)._repr_mimebundle_()
    assert shown["text/plain"] == "0.0"
    assert "is not answered yet: choose" in shown["text/html"]


@pytest.mark.parametrize("attempt", ["A", "Z", 3])
def test_a_wrong_prediction_stops(attempt):
    with pytest.raises(CheckFailed):
        check("predict_largest_dot", attempt)


@pytest.mark.parametrize("name", MENDS)
def test_code_to_mend_that_nobody_has_touched_is_not_answered(name):
    """As it was handed out, among the names that its lesson imports; anything else that is wrong stops the notebook."""
    notebook = read_notebook(Layout().notebooks / f"{exercises()[name].lesson}.ipynb")
    names = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith(("import", "from")):
            exec(cell.source, names)
    stub = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)
    (call,) = [cell.source for cell in notebook.cells if cell.source.startswith(f'check("{name}"')]
    handed_out = run_cell(stub.source, names)[call.rstrip(")").rpartition(" ")[2]]
    points = check(name, handed_out)
    assert points.report.unanswered
    assert points < exercises()[name].points


def test_there_is_code_to_mend():
    assert len(MENDS) > 5
