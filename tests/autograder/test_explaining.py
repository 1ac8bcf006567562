"""What the notebook would have told, the feedback tells: from the answer's own source, for the visible cases alone."""

import ast
import inspect
from dataclasses import replace

import pytest
from tiny_course import RIGHT, TINY, cell

from attnlib.checks import exercises, run
from attnlib.checks.asking.time_limits import here
from attnlib.checks.naming import arguments, from_source, reading
from attnlib.checks.naming.from_source import READ, from_record
from attnlib.checks.verdict.judge import explain
from autograder.judging import explainer
from autograder.judging.judge import Judge
from autograder.judging.settle import settle
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import ROOT
from autograder.sandbox.probe import probe
from autograder.sandbox.process import Limits, Sandbox

TWICE = "def pairwise_dot(x, y):\n    dots = x @ y.mT\n    return dots * 2"
PLACE = "In line 3 (`return dots * 2`): with `dots` in place of `dots * 2`"
HIDDEN_ONLY = "def pairwise_dot(x, y):\n    return x @ y.mT * (2 if 12 < x.shape[1] < 37 else 1)"
CHANGE = {"id": "one_change_removal", "title": "mine", "explanation": "In line 3."}


@pytest.fixture(scope="module")
def judge():
    """One that gives a case a second of computing: what hangs, hangs then, too."""
    with Sandbox(probe(), Limits(time=replace(here(), case_cpu=1.0))) as sandbox:
        yield Judge(sandbox, seed=3)


@pytest.fixture
def judged(judge, released, source):
    """A function that judges one answer with a judge that keeps its sandboxes."""

    def verdict(answer):
        assignment = Assignment(TINY, source)
        cell(released, "pairwise_dot").source = answer
        return judge.verdicts(settle(released, assignment.released), assignment)[1].report

    return verdict


@pytest.mark.slow
def test_the_one_change_reaches_the_feedback(klass):
    klass.submit("ann", {"pairwise_dot": TWICE})
    assert klass.course.autograde(TINY, "ann") is None
    klass.course.generate_feedback(TINY, "ann")
    (page,) = klass.layout.course.glob(f"feedback/ann/{TINY}/*.html")
    html = page.read_text(encoding="utf-8")
    assert "One change away" in html
    assert "In line 3 (" in html
    assert klass.scores("ann")["test_pairwise_dot"] == 0


@pytest.mark.slow
def test_it_is_what_the_notebook_says(judged, tmp_path):
    (tmp_path / "answer.py").write_text(TWICE)
    names = {}
    exec(compile(TWICE, str(tmp_path / "answer.py"), "exec"), names)
    in_notebook, in_feedback = run("pairwise_dot", names["pairwise_dot"]), judged(TWICE)
    assert in_feedback.diagnosis == in_notebook.diagnosis == "one_change_removal"
    assert in_feedback.sections[1] == in_notebook.sections[1]
    assert PLACE in in_feedback.message.replace("\n  ", " ")


@pytest.mark.slow
def test_what_can_be_read_in_the_source_is_told(judged):
    lost = "def pairwise_dot(x, y):\n    dots = x @ y.mT\n    dots.add(x.sum()).mul(3)\n    return x.sum(-1)"
    assert judged(lost).diagnosis == "result_not_kept"


@pytest.mark.slow
def test_an_endless_loop_is_told_as_in_the_notebook(judged):
    report = judged("def pairwise_dot(x, y):\n    i = 0\n    while i < len(x):\n        x = x * 1\n    return x @ y.mT")
    assert report.diagnosis == "never_ends"
    assert "Line 3 (`while i < len(x):`)" in " ".join(report.message.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        RIGHT["pairwise_dot"],
        "def pairwise_dot(x, y):\n    raise NotImplementedError",
        "def pairwise_dot(x, y):\n    while True:\n        pass",
        HIDDEN_ONLY,
    ],
)
def test_nothing_is_searched_where_there_is_nothing_to_say(judged, monkeypatch, answer):
    asked = []
    monkeypatch.setattr(explainer.Explainer, "explain", lambda *more: asked.append(more))
    report = judged(answer)
    assert asked == []
    assert "One change" not in report.message


def test_an_answer_is_explained_on_visible_inputs_alone():
    seen = []

    def right(x, y):
        seen.append((*x.shape, *y.shape))
        return x @ y.mT

    def wrong(x, y):
        return right(x, y) * 2

    def shapes(judged):
        seen.clear()
        judged()
        return set(seen)

    exercise = exercises()["pairwise_dot"]
    hidden = shapes(lambda: run("pairwise_dot", right, hidden=True)) - shapes(lambda: run("pairwise_dot", right))
    assert hidden
    explained = shapes(lambda: explain(exercise, wrong, limits=here(), confined=True))
    assert explained
    assert not explained & hidden


@pytest.mark.slow
def test_the_time_for_explanations_is_bounded_and_no_points_depend_on_it(judged, judge, monkeypatch):
    limits = judge.sandbox.limits.time
    monkeypatch.setattr(explainer.Explainer, "explain", lambda self, *more: None)
    without = judged(TWICE)
    monkeypatch.undo()
    assert judged(TWICE).points == without.points
    assert 0 < judge.explainer.spent < judge.budget.spent  # it is the submission's time
    used_up = explainer.Explainer(judge.sandbox, judge.budget)
    used_up.spent = limits.explaining_cpu
    assert used_up.explain({}, None, frozenset()) is None


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {"change": 3},
        {"change": [3, {"id": 3}]},
        {"change": [{"id": "no_scale", "title": "a", "explanation": "b"}]},
        {"change": [{"id": "as_given", "title": "a", "explanation": "b"}]},
        {"certain": [CHANGE], "hints": [CHANGE]},
        {"change": [{**CHANGE, "explanation": None}]},
    ],
)
def test_what_has_not_the_form_of_a_finding_is_not_believed(told):
    found = from_record(told)
    assert (found.certain, found.change, found.hints) == ((), None, ())


def test_a_finding_has_the_course_s_name_and_bounded_words():
    found = from_record({"change": [{**CHANGE, "explanation": "x" * 10_000}] * 50})
    assert found.change.title == "One step too many"
    assert len(found.change.explanation) == from_source.LONGEST


def test_a_title_is_one_of_the_course_s_and_the_answer_s_words_come_below():
    told = {"id": "layer_not_used", "title": "4711", "explanation": "Where does it belong?"}
    (found,) = from_record({"hints": [told]}).hints
    assert found.title == "A layer that is made and never used"
    assert found.explanation == "4711. Where does it belong?"


def test_every_finding_of_reading_is_known():
    calls = [n for n in ast.walk(ast.parse((ROOT / reading.__file__).read_text())) if isinstance(n, ast.Call)]
    first = [call.args[0] for call in calls if ast.unparse(call.func) == "_finding"]
    of_mode = ast.walk(ast.parse(inspect.getsource(arguments.fault_of_mode)))
    first += [n.value.elts[0] for n in of_mode if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)]
    assert {name.value for name in first if isinstance(name, ast.Constant)} == set(READ)
