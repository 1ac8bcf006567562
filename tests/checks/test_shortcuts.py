"""Forbidden functions are found in the source by whatever name, and nothing else is taken for one."""

import inspect
import sys
import textwrap
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from notebook_cells import run_cell
from torch import nn

from attnlib.checks import exercises, run, yours_or_ours
from attnlib.checks.asking.ready_made import ATTENTION, SOFTMAX
from attnlib.checks.asking.shortcuts import shortcuts
from attnlib.checks.asking.sources import shortcuts_of
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB
from attnlib.checks.course.right import right_answers
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.proof.answers import solution

FUNCTIONAL = "torch.nn.functional.softmax"
METHOD = "torch.Tensor.softmax"
FUSED = "torch.nn.functional.scaled_dot_product_attention"


def found(
    source: str, forbidden: tuple[str, ...] = (SOFTMAX, ATTENTION, *ATTENTION_OF_ATTNLIB)
) -> list[tuple[str, int]]:
    return [(use.name, use.line) for use in shortcuts(source, forbidden)]


@pytest.mark.parametrize(
    ("source", "name", "line"),
    [
        ("import torch\ntorch.softmax(s, -1)", "torch.softmax", 2),
        ("import torch.nn.functional as F\ndef f(s):\n    return F.softmax(s, -1)", FUNCTIONAL, 3),
        ("import torch.nn.functional\ntorch.nn.functional.softmax(s)", FUNCTIONAL, 2),
        ("from torch import nn\nnn.functional.softmax(s)", FUNCTIONAL, 2),
        ("from torch.nn import functional\nfunctional.softmax(s)", FUNCTIONAL, 2),
        ("from torch.nn.functional import softmax as s", FUNCTIONAL, 1),
        ("from torch.nn.functional import *\ndef f(x):\n    return softmax(x)", FUNCTIONAL, 3),
        ("import torch.nn.functional as F\ng = F\ng.softmax(s)", FUNCTIONAL, 3),
        ("import torch\ndef f(s):\n    return (lambda t: torch.softmax(t, -1))(s)", "torch.softmax", 3),
        ("import torch.nn.functional as F\ngetattr(F, 'softmax')(s)", FUNCTIONAL, 2),
        ("import torch.nn.functional as F\ngetattr(F, 'soft' + 'max')(s)", FUNCTIONAL, 2),
        ("import torch.nn.functional as F\nF.__dict__['softmax'](s)", FUNCTIONAL, 2),
        ("import torch.nn.functional as F\nvars(F)['softmax'](s)", FUNCTIONAL, 2),
        ("import importlib\nimportlib.import_module('torch.nn.functional').softmax(s)", FUNCTIONAL, 2),
        ("from functools import partial\nimport torch\nf = partial(torch.softmax, dim=-1)", "torch.softmax", 3),
        (
            "from torch import nn\nclass A(nn.Module):\n    def __init__(self):\n        self.s = nn.Softmax(-1)",
            "torch.nn.Softmax",
            4,
        ),
        ("from scipy.special import softmax\ndef f(s):\n    return softmax(s)", "scipy.special.softmax", 1),
        ("from sklearn._loss import HalfMultinomialLoss as L\nL().link", "sklearn._loss.HalfMultinomialLoss", 1),
        ("import sklearn._loss.link as k\nk.MultinomialLogit().inverse(s)", "sklearn._loss.link.MultinomialLogit", 2),
        ("import scipy\ndef f(s):\n    return scipy.special.expit(s)", "scipy.special.expit", 3),
        ("import torch\ndef f(s):\n    return torch.ops.aten._softmax(s, -1, False)", "torch.ops.aten._softmax", 3),
        ("from torch._refs import softmax", "torch._refs.softmax", 1),
        ("def f(scores):\n    return scores.softmax(-1)", METHOD, 2),
        ("def f(q, k):\n    return (q @ k.mT).softmax(-1)", METHOD, 2),
        ("def f(q, k):\n    s = q @ k.mT\n    return s.softmax(-1)", METHOD, 3),
        ("def f(rows):\n    return [row.softmax(0) for row in rows]", METHOD, 2),
        ("def f(s):\n    return getattr(s, 'softmax')(-1)", METHOD, 2),
        ("from torch import Tensor\ndef f(s):\n    return Tensor.softmax(s, -1)", METHOD, 3),
        (
            "import torch.nn.functional as F\ndef f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)",
            FUSED,
            3,
        ),
        ("from torch import nn\nclass A(nn.MultiheadAttention):\n    pass", "torch.nn.MultiheadAttention", 2),
        (
            "import attnlib\nearlier = attnlib.cross_attention\ndef f(x):\n    return earlier(x)",
            "attnlib.cross_attention",
            4,
        ),
        (
            "from attnlib.attention import scaled_dot_product_attention as mine",
            "attnlib.scaled_dot_product_attention",
            1,
        ),
        ("from attnlib.attention import equation", "attnlib.attention.equation", 1),
        (
            "import attnlib\ndef f(q, k, v):\n    return attnlib.in_place_attention.in_place_attention(q, k, v)[0]",
            "attnlib.in_place_attention.in_place_attention",
            3,
        ),
        ("from attnlib.checks import exercises\nf = exercises()['softmax'].reference", "attnlib.checks.exercises", 2),
    ],
)
def test_a_shortcut_is_found(source: str, name: str, line: int) -> None:
    assert (name, line) in found(source)


@pytest.mark.parametrize(
    "source",
    [
        "# torch.softmax(s, -1) is not allowed",
        "def f(s):\n    '''Like torch.softmax(s).'''\n    return 'F.softmax'",
        "def softmax(s):\n    return s\ndef f(s):\n    return softmax(s)",
        "from torch import nn\nmask = nn.Transformer.generate_square_subsequent_mask(5)",
        "from helper import softmax_of_mine\nsoftmax_of_mine(s)",
        "import torch\ndef f(s):\n    return (s - torch.logsumexp(s, -1, keepdim=True)).exp()",
        "class A:\n    def softmax(self, s):\n        ...\n    def forward(self, s):\n        return self.softmax(s)",
        "class A:\n    def softmax(self, s):\n        return s\ndef f(s):\n    a = A()\n    return a.softmax(s)",
        "def f(s):\n    layer = Layer(3)\n    return layer.softmax(s)",
        "def f(s):\n    return Layer(3).softmax(s)",
        "class A:\n    def forward(self, s):\n        return self.softmax(self.inner.softmax(s))",
        "import mine as F\ndef f(s):\n    return F.softmax(s)",
        "import torch\ndef f(s, torch):\n    return torch.softmax_of(s)",
        "def f(softmax):\n    return softmax + 1",
        "import torch\nx = torch.nn.functional.relu(s)\ntorch.exp(s)",
        "from attnlib.checks import check, run\ncheck('softmax', f)",
    ],
)
def test_what_is_no_shortcut_is_none(source: str) -> None:
    assert found(source) == []


def test_a_name_that_is_bound_anew_is_the_students_own() -> None:
    source = "from torch.nn.functional import softmax\ndef softmax(s):\n    return s\ndef f(s):\n    return softmax(s)"
    assert found(source) == [(FUNCTIONAL, 1)]


def test_only_what_the_exercise_forbids_is_found() -> None:
    source = "import torch\ndef f(s):\n    return torch.softmax(s, -1)"
    assert found(source, (ATTENTION,)) == []
    assert found(source, ()) == []
    assert found("import scipy\nscipy.linalg.hadamard(4)", ("attnlib.softmax",)) == []


def test_data_sets_are_no_shortcut() -> None:
    assert found("from sklearn.datasets import load_digits\ndigits = load_digits()") == []


CODE = [name for name, exercise in exercises().items() if exercise.kind != "choice"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CODE)
def test_no_right_answer_is_taken_for_a_shortcut(name: str) -> None:
    forbidden = exercises()[name].forbidden
    answer = solution(Layout(), exercises()[name])
    assert shortcuts(answer.source, forbidden) == []
    for right in right_answers(name):
        assert shortcuts_of(right, forbidden) == []
        if inspect.isfunction(right) and right.__name__.isidentifier():
            source = textwrap.dedent(inspect.getsource(right))
            assert (
                shortcuts("import torch\nimport torch.nn.functional as F\nfrom torch import nn\n" + source, forbidden)
                == []
            )


def by_function(scores):
    return F.softmax(scores, dim=-1)


def by_alias(scores):
    return another_name(scores, dim=-1)


def by_scaling(scores, scale):
    return (scores * scale).softmax(-1)


class ByMethod(nn.Module):
    def forward(self, scores):
        return torch.softmax(scores, dim=-1)


class Inherited(ByMethod):
    pass


another_name = torch.softmax


@pytest.mark.parametrize(
    ("attempt", "name", "text"),
    [
        (by_function, FUNCTIONAL, "return F.softmax(scores, dim=-1)"),
        (by_alias, "torch.softmax", "return another_name(scores, dim=-1)"),
        (partial(by_scaling, scale=2), METHOD, "return (scores * scale).softmax(-1)"),
        (ByMethod, "torch.softmax", "return torch.softmax(scores, dim=-1)"),
        (Inherited(), "torch.softmax", "return torch.softmax(scores, dim=-1)"),
        (ByMethod().forward, "torch.softmax", "return torch.softmax(scores, dim=-1)"),
    ],
)
def test_the_source_of_an_attempt_is_read_with_the_names_around_it(attempt: object, name: str, text: str) -> None:
    (use,) = shortcuts_of(attempt, (SOFTMAX,))
    assert (use.name, use.text) == (name, text)
    assert inspect.getsource(sys.modules[__name__]).splitlines()[use.line - 1].strip() == text


def test_a_cell_of_a_notebook_is_read() -> None:
    source = "import torch\n\ndef softmax(scores):\n    return torch.softmax(scores, -1)\n"
    softmax = run_cell(source, {})["softmax"]
    assert [(use.name, use.line) for use in shortcuts_of(softmax, (SOFTMAX,))] == [("torch.softmax", 4)]


def test_what_the_course_lends_is_no_shortcut_and_the_reference_is_one() -> None:
    lent = yours_or_ours("CausalSelfAttention", {})

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = lent(8, 2)

    assert shortcuts_of(Block, ("attnlib.DecoderBlock.forward",), exercises()["DecoderBlock"].reference) == []
    (use,) = shortcuts_of(Block, (), lent)
    assert use.text == "self.attn = lent(8, 2)"


def sometimes(scores):
    if scores.dim() > 7:
        return scores.softmax(-1)
    return scores


def test_a_shortcut_that_is_not_taken_is_told_with_its_line() -> None:
    report = run("softmax", sometimes)
    assert report.score == 0.0
    assert not any(report.parts.values())
    line = inspect.getsourcelines(sometimes)[1] + 2
    told = f"calls {METHOD}, which this exercise asks you to do without (line {line}: return scores.softmax(-1))"
    assert told in " ".join(report.message.split())


def test_what_has_no_source_has_no_shortcut() -> None:
    for attempt in (torch.softmax, nn.Softmax(-1), eval("lambda s: s"), None, 3, partial(torch.softmax, dim=-1), int):
        assert shortcuts_of(attempt, (SOFTMAX,)) == []


@pytest.mark.parametrize("name", [name for name in CODE if exercises()[name].forbidden])
def test_the_lesson_tells_beforehand_what_is_not_allowed(name: str) -> None:
    """Beside the exercise, or (lesson 01) for all of its exercises in the first cell."""
    cells = read_lesson(Layout().solutions / f"{exercises()[name].lesson}.py").cells
    answer = next(i for i, cell in enumerate(cells) if cell.id == name)
    beside = next(cell.source for cell in reversed(cells[:answer]) if cell.cell_type == "markdown")
    words = ("Not allowed: ", "is not.", "except `attnlib`'s function of the same name")
    assert any(said in " ".join(text.split()) for text in (beside, cells[0].source) for said in words)
