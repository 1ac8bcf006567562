"""Answers that pass may share a process: that takes no point away, says nothing else, and ends with the submission."""

import copy
import dataclasses

import pytest
from nbformat.v4 import new_code_cell

from attnlib.checks.asking.ready_made import ATTENTION, EINSUM
from attnlib.checks.practising.programs import with_imports
from autograder.judging.judge import Judge
from autograder.judging.settle import settle
from autograder.judging.together import Together, groups_of, is_refused
from autograder.judging.verdict import write_verdicts
from autograder.lesson_text.assignment import Assignment
from autograder.lesson_text.layout import ROOT, Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.lesson_text.notebook import to_text
from autograder.lesson_text.regions import solved_source
from autograder.sandbox.probe import probe
from autograder.sandbox.process import Limits, Sandbox
from autograder.showing.errors import NotGraded

pytestmark = pytest.mark.slow

LESSON, OTHER = "00_start_here", "02_scaled_dot_product_attention"
FIRST, SECOND = "pairwise_dot", "search"
"""Two of the lesson's answers that nothing is withheld from."""


def handed_out(lesson):
    return Assignment.read(ROOT / "solutions" / f"{lesson}.py")


def handed_in(assignment):
    """The lesson with every answer solved, as it comes back from a student."""
    notebook = read_lesson(ROOT / "solutions" / f"{assignment.name}.py")
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader")
        if about and about.solution:
            cell.source = solved_source(cell.source)
        elif about:
            cell.source = assignment.released[about.grade_id].source
    return settle(notebook, assignment.released)


@pytest.fixture(scope="module")
def assignment():
    return handed_out(LESSON)


@pytest.fixture
def solved(assignment):
    return handed_in(assignment)


@pytest.fixture(scope="module")
def warm():
    """One sandbox for all tests, as a grader has one for all submissions."""
    with Sandbox(probe()) as found:
        yield found


@pytest.fixture
def sandbox(warm, monkeypatch):
    """A sandbox that counts the processes that it forks."""
    fork, warm.forked = warm.fork, 0

    def counting(*about):
        warm.forked += 1
        return fork(*about)

    monkeypatch.setattr(warm, "fork", counting)
    monkeypatch.setattr(warm, "limits", warm.limits)  # a test may set its own
    return warm


def answer(notebook, name):
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def groups(assignment):
    """The terms of the processes that a lesson's answers need, if each of them passes with the others of its group."""
    tried = [question for question in assignment.questions if question.exercise.kind != "choice"]
    return {groups_of(assignment)[question.test][1] for question in tried}


def by_name(verdicts):
    return {verdict.question.exercise.name: verdict for verdict in verdicts}


def test_right_answers_share_one_process_for_what_is_shown_and_one_for_what_is_hidden(solved, assignment, sandbox):
    verdicts = Judge(sandbox).verdicts(solved, assignment)
    assert all(verdict.report.passed for verdict in verdicts)
    assert [verdict.question for verdict in verdicts] == assignment.questions
    assert sandbox.forked == 2 * len(groups(assignment)) < len(verdicts)
    assert not sandbox.living


def test_answers_that_use_torch_where_they_may_share_a_process_as_well(sandbox):
    assignment = handed_out(OTHER)
    solved = handed_in(assignment)
    for question in assignment.questions:
        if question.exercise.kind != "choice":
            right = question.exercise.right
            answer(solved, question.answer).source = with_imports(right, right)[0]
    Judge(sandbox).verdicts(solved, assignment)  # a module that is imported late ends the process that lacks it
    sandbox.forked = 0
    assert all(verdict.report.passed for verdict in Judge(sandbox).verdicts(solved, assignment))
    assert sandbox.forked == 2 * len(groups(assignment)) == 6


def test_what_an_answer_leaves_behind_costs_the_next_nothing(solved, assignment, sandbox):
    answer(solved, FIRST).source += (
        "\n\n_dots = pairwise_dot\ndef pairwise_dot(x, y):\n    found = _dots(x, y)\n"
        "    torch.Tensor.__matmul__ = torch.Tensor.argsort = torch.topk = None\n    return found\n"
    )
    verdicts = by_name(Judge(sandbox).verdicts(solved, assignment))
    assert sandbox.forked > 2 * len(groups(assignment))  # it did fail in the process that the first had left
    assert verdicts[SECOND].report.passed


def test_a_cell_that_compares_with_what_is_forbidden_runs_without_an_error(sandbox):
    assignment = handed_out(OTHER)
    solved = handed_in(assignment)
    answer(solved, "SelfAttention").source += "\n\nx = torch.ones(1, 2, 4)\nF.scaled_dot_product_attention(x, x, x)\n"
    verdict = by_name(Judge(sandbox).verdicts(solved, assignment))["SelfAttention"]
    assert verdict.report.passed
    assert [cell["text"] for cell in verdict.cells if cell["error"]] == []


def test_a_compiled_answer_and_one_that_uses_a_temporary_file_have_folders_of_their_own(solved, assignment, sandbox):
    answer(solved, FIRST).source = "import tempfile\n\n@torch.compile\n" + answer(solved, FIRST).source
    answer(solved, SECOND).source += "\n\n_search = search\ndef search(questions, texts):\n"
    answer(solved, SECOND).source += "    with tempfile.TemporaryFile():\n        return _search(questions, texts)\n"
    verdicts = by_name(Judge(sandbox).verdicts(solved, assignment))
    assert [name for name, verdict in verdicts.items() if not verdict.report.passed] == []


def test_a_wrong_answer_says_the_same_after_others_as_alone(solved, assignment, sandbox):
    answer(solved, SECOND).source += f"\n\n{SECOND} = lambda *given: given[0]\n"
    among = by_name(Judge(sandbox).verdicts(solved, assignment))[SECOND].report
    for question in assignment.questions:
        if question.answer not in (SECOND, None):
            answer(solved, question.answer).source = assignment.released[question.answer].source
    alone = by_name(Judge(sandbox).verdicts(solved, assignment))[SECOND].report
    assert not among.passed
    assert among == alone


def test_a_cell_that_does_not_end_is_waited_for_once(solved, assignment, sandbox):
    sandbox.limits = Limits(time=dataclasses.replace(sandbox.limits.time, cell_cpu=5.0))
    answer(solved, SECOND).source = "for _ in iter(int, 1): pass\n" + answer(solved, SECOND).source
    judge = Judge(sandbox)
    verdict = by_name(judge.verdicts(solved, assignment))[SECOND]
    assert "did not end within 5 seconds" in " ".join(verdict.report.message.split())
    assert judge.budget.spent < 2 * 5.0


def test_a_submission_that_is_given_up_leaves_no_process_behind(solved, assignment, sandbox):
    judge, asked = Judge(sandbox), []

    def step(question):
        asked.append(question)
        if len(asked) == 4:
            raise NotGraded("given up")

    with pytest.raises(NotGraded, match="given up"):
        judge.verdicts(solved, assignment, step)
    assert not sandbox.living
    assert all(verdict.report.passed for verdict in judge.verdicts(solved, assignment))


def test_answers_that_share_a_process_stand_side_by_side_and_it_refuses_what_any_of_them_must_not_use():
    assignment = handed_out(OTHER)
    found = groups_of(assignment)
    order = [group for _, group in found.values()]
    changes = [group for place, group in enumerate(order) if place == 0 or order[place - 1] != group]
    assert len(changes) == len(set(order)) < len(order)
    assert all(own <= group for own, group in found.values())
    assert any(own != group for own, group in found.values())


def test_an_answer_that_uses_what_another_of_its_group_must_not_is_judged_alone(sandbox):
    assignment = handed_out(OTHER)
    solved = handed_in(assignment)
    Judge(sandbox).verdicts(solved, assignment)  # a module that is imported late ends the process that lacks it
    sandbox.forked = 0
    answer(solved, "write_matrices").source += """

_matrices = write_matrices
def write_matrices(*given):
    torch.ones(3).softmax(0)
    return _matrices(*given)
"""
    verdicts = by_name(Judge(sandbox).verdicts(solved, assignment))
    assert verdicts["write_matrices"].report.passed
    assert sandbox.forked > 2 * len(groups(assignment))


@pytest.mark.parametrize("name", ["softmax", "attention_scores"])
def test_an_answer_that_uses_what_it_must_not_fails_in_a_group_too(sandbox, name):
    assignment = handed_out(OTHER)
    solved = handed_in(assignment)
    whole = {
        "softmax": "def softmax(scores):\n    return getattr(torch, 'soft' + 'max')(scores, -1)",
        "attention_scores": "def attention_scores(q, k):\n"
        "    torch.nn.functional.scaled_dot_product_attention(q, k, k)\n    return q @ k.mT",
    }
    answer(solved, name).source += f"\n\n{whole[name]}\n"
    report = by_name(Judge(sandbox).verdicts(solved, assignment))[name].report
    assert report.score == 0.0
    assert report.failure.kind == "forbidden"


def alone(monkeypatch):
    monkeypatch.setattr(Together, "takes", lambda self, *about: self.part_unless(False))


def shown(notebook, verdicts):
    return to_text(write_verdicts(copy.deepcopy(notebook), verdicts))


ONCE = "import sys\nhelper = 1\nif 'been' not in sys.modules:\n    print('the first time')\nsys.modules['been'] = sys"


@pytest.mark.parametrize(
    ("added", "first", "second"), [("", "torch.manual_seed(3)", "print(torch.rand(2))"), (ONCE, *["a = helper"] * 2)]
)
def test_what_cells_print_is_the_same_with_others_as_alone(
    solved, assignment, sandbox, monkeypatch, added, first, second
):
    answer(solved, FIRST).source += f"\n\n{first}\n"
    answer(solved, SECOND).source += f"\n\n{second}\n"
    solved.cells.insert(0, new_code_cell(added))
    among = shown(solved, Judge(sandbox).verdicts(solved, assignment))
    alone(monkeypatch)
    assert among == shown(solved, Judge(sandbox).verdicts(solved, assignment))


def test_a_cell_that_waits_for_what_another_answer_left_costs_nothing(solved, assignment, sandbox, monkeypatch):
    answer(solved, FIRST).source += "\n\nimport sys\nsys.modules['held'] = sys\n"
    hangs = "import sys\nwhile 'held' in sys.modules: pass\n"
    answer(solved, SECOND).source = hangs + answer(solved, SECOND).source
    sandbox.limits = Limits(time=dataclasses.replace(sandbox.limits.time, cell_cpu=4.0))
    takes, paid = Together.takes, []

    def paying(self, *about):
        before = self.budget.spent
        passes = takes(self, *about)
        paid.append(self.budget.spent - before)
        return passes

    monkeypatch.setattr(Together, "takes", paying)
    assert all(verdict.report.passed for verdict in Judge(sandbox).verdicts(solved, assignment))
    assert max(paid) < 4.0  # for the answers before it


FORGES = """serve.Channel.send = lambda self, told, *more: send(self, {} if "left_out" in told else told, *more)"""
ENDS = """serve.prepare = lambda *about: os._exit(0)"""
STANDS_STILL = """serve.prepare = lambda *about: time.sleep(1000)"""


@pytest.mark.parametrize("left", [FORGES, ENDS, STANDS_STILL])
def test_a_process_that_an_answer_has_rewritten_costs_nobody_anything(solved, assignment, sandbox, left):
    answer(solved, FIRST).source += f"""

import os, sys, time

def leaves(serve, send):
    {left}

_dots = {FIRST}
def {FIRST}(x, y):
    leaves(sys.modules["inside.serve"], sys.modules["inside.serve"].Channel.send)
    return _dots(x, y)
"""
    sandbox.limits = Limits(time=dataclasses.replace(sandbox.limits.time, child_waiting=2.0))
    judge = Judge(sandbox)
    verdicts = judge.verdicts(solved, assignment)
    assert judge.overcome == []
    assert all(verdict.report.passed for verdict in verdicts)
    assert not sandbox.living


@pytest.mark.parametrize(
    ("forbidden", "shares"),
    [([], True), ([ATTENTION, "attnlib.attention"], True), (["torch.cumsum"], False), ([EINSUM], False)],
)
def test_answers_share_only_where_more_than_their_source_tells_what_is_forbidden(forbidden, shares):
    assert is_refused(forbidden) is shares


@pytest.mark.parametrize("lesson", Layout().lessons())
def test_a_lesson_s_own_answers_get_all_points(lesson, sandbox):
    assignment = handed_out(lesson)
    verdicts = Judge(sandbox).verdicts(handed_in(assignment), assignment)
    lost = {v.question.test: v.report.headline for v in verdicts if v.points < v.question.points}
    assert lost == {}
