"""What is not answered yet does not stop a notebook; what is wrong does. In plain Python, and in a real kernel."""

import pytest
from notebook_cells import run_cell
from torch import nn

from attnlib.checks import CheckFailed, check, exercises, run
from attnlib.checks.course.wronglines import read
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.notebook import read_notebook

MENDS = [name for name, e in exercises().items() if name in read(e.files[0]).given]


def unwritten(*inputs):
    raise NotImplementedError


def test_a_stub_is_worth_nothing_and_stops_nothing(capsys):
    points = check("pairwise_dot", unwritten)
    assert points == 0.0
    assert capsys.readouterr().out.startswith("○ pairwise_dot: is not written yet: put your code in")


def attention_scores(q, k):
    raise NotImplementedError("attention_scores")


def scaled_dot_product_attention(q, k, v):
    weights = attention_scores(q, k).softmax(dim=-1)
    return weights @ v, weights


def test_an_answer_is_not_said_to_be_a_stub_because_it_calls_one():
    report = run("scaled_dot_product_attention", scaled_dot_product_attention)
    assert report.unwritten
    assert report.headline.startswith("calls `attention_scores`, which is not written yet")


class Half(nn.Module):
    """The first method that is called is written, the second isn't: as EncoderBlock is handed out."""

    def __init__(self, d_model: int, d_k: int, d_v: int):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(d_model, d_k, bias=False) for _ in range(2))
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x):
        return self.attend(x)

    def attend(self, x):
        raise NotImplementedError("SelfAttention")


class Stub(nn.Module):
    def __init__(self):
        super().__init__()
        raise NotImplementedError("Rotary")


class OfAStub(nn.Module):
    def __init__(self, d_model: int, d_k: int, d_v: int):
        super().__init__()
        self.rotary = Stub()


class OfAnUnprintableStub(OfAStub):
    def __init__(self, d_model: int, d_k: int, d_v: int):
        raise NotImplementedError(Unprintable())


class Unprintable:
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("attempt", "called"),
    [(Half, "attend"), (OfAStub, "Rotary"), (lambda *sizes: OfAnUnprintableStub(*sizes), "__init__")],
)
def test_a_stub_in_a_class_is_named_by_its_method_or_its_class(attempt, called):
    assert run("SelfAttention", attempt).headline.startswith(f"calls `{called}`, which is not written yet")


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
