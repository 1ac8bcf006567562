"""Forbidden functions are found in the source by whatever name, and nothing else is taken for one."""

import contextlib
import importlib
import inspect
import re
import sys
import textwrap
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from notebook_cells import run_cell
from torch import nn

from attnlib.checks import exercises, run
from attnlib.checks.asking import watch as watching
from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded, time_limit
from attnlib.checks.asking.ready_made import ATTENTION, BLOCKS, MASKED_SOFTMAX, NORMS, SOFTMAX, operators
from attnlib.checks.asking.shortcuts import shortcuts
from attnlib.checks.asking.sources import shortcuts_of
from attnlib.checks.asking.watch import ATTENTION_OF_ATTNLIB, Watch
from autograder.lesson_text.layout import Layout
from autograder.lesson_text.lesson import read_lesson
from autograder.proof.answers import alternatives, lesson_answers

FUNCTIONAL = "torch.nn.functional.softmax"
METHOD = "torch.Tensor.softmax"
FLEX = importlib.import_module("torch.nn.attention.flex_attention")
FUSED = "torch.nn.functional.scaled_dot_product_attention"


def words(text: str) -> str:
    return " ".join(text.split())


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


CODE = [name for name, exercise in exercises().items() if exercise.kind != "choice"]


@pytest.mark.parametrize("name", CODE)
def test_no_right_answer_is_taken_for_a_shortcut(name: str) -> None:
    forbidden = exercises()[name].forbidden
    answer = lesson_answers(Layout())[name]
    assert shortcuts(answer.source, forbidden) == []
    for right in alternatives()[name]:
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
    words = ("Not allowed: ", "is not.", "not `attnlib`'s function of the same name")
    assert any(said in " ".join(text.split()) for text in (beside, cells[0].source) for said in words)


def hide(function):
    """The attempt without a source that could be read: only what it calls can be noticed."""
    return lambda *inputs: function(*inputs)


class Detour(torch.autograd.Function):
    """Numbers that leave torch, and come back with a gradient."""

    @staticmethod
    def forward(ctx, scores):
        special = importlib.import_module("scipy.special")
        weights = torch.from_numpy(vars(special)["softmax"](scores.detach().numpy(), axis=-1))
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, gradient):
        (weights,) = ctx.saved_tensors
        return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))


def by_fused_attention(s):
    rows, eye = s.reshape(-1, 1, s.shape[-1]), torch.eye(s.shape[-1], dtype=s.dtype)
    found = vars(F)["scaled_dot_product" + "_attention"](rows, eye.expand(len(rows), -1, -1), eye, scale=1.0)
    return found.reshape(s.shape)


def by_gradient(s):
    with torch.enable_grad():
        t = s.detach().requires_grad_()
        loss = getattr(F, "cross_" + "entropy")(t.reshape(-1, t.shape[-1]), t.new_zeros(t[..., 0].numel()).long())
        return torch.autograd.grad(loss, t)[0]


OF_REFS = "torch._refs"
SCRIPT = torch.jit.CompilationUnit("def f(x):\n    return torch." + "softmax(x, -1)\n")


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (by_fused_attention, FUSED),
        (by_gradient, "torch.log_softmax"),
        (lambda s: getattr(torch, "_soft" + "max")(s, -1, False), "torch.ops.aten._softmax"),
        (lambda s: getattr(torch.ops.aten, "_safe_soft" + "max")(s, -1), "torch.ops.aten._safe_softmax"),
        (lambda s: getattr(torch.special, "soft" + "max")(s, -1), "torch.special.softmax"),
        (lambda s: getattr(torch, "log_soft" + "max")(s, -1).exp(), "torch.log_softmax"),
        (lambda s: vars(F)["soft" + "min"](-s, -1), "torch.nn.functional.softmin"),
        (lambda s: vars(F)["gumbel_soft" + "max"](s, dim=-1), "torch.nn.functional.gumbel_softmax"),
        (lambda s: vars(importlib.import_module(OF_REFS))["soft" + "max"](s, -1), "torch._refs.softmax"),
        (lambda s: importlib.import_module("torch._decomp.decompositions")._softmax(s, -1, False), "torch._decomp"),
        (
            lambda s: getattr(torch.sparse, "soft" + "max")(s.to_sparse(), -1).to_dense(),
            "torch.ops.aten._sparse_softmax",
        ),
        (lambda s: SCRIPT.f(s), "torch.softmax"),
        (lambda s: torch.distributions.Categorical(logits=s).probs, "torch.nn.functional.softmax"),
        (Detour.apply, "scipy.special._logsumexp.softmax"),
    ],
)
def test_whatever_takes_a_softmax_is_noticed_when_it_runs(attempt, name: str) -> None:
    report = run("softmax", hide(attempt))
    assert report.points == 0
    told = words(report.message)
    assert f"calls {name}" in told
    assert "which this exercise asks you to do without" in told
    assert "from `torch.exp`, `sum` and `amax`; `torch.logsumexp` is allowed, too" in told


def test_with_torch_function_switched_off_it_is_noticed_all_the_same() -> None:
    def attempt(s):
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return getattr(s, "soft" + "max")(-1)

    assert "calls torch.softmax" in words(run("softmax", hide(attempt)).message)


def centred(x):
    return x - x.mean(-1, keepdim=True)


@pytest.mark.parametrize(
    ("normed", "name"),
    [
        (lambda x, eps: getattr(F, "layer_" + "norm")(x, x.shape[-1:], eps=eps), "torch.nn.functional.layer_norm"),
        (
            lambda x, eps: vars(F)["group_" + "norm"](rows(x)[..., None], 1, eps=eps).reshape(x.shape),
            "torch.nn.functional.group_norm",
        ),
        (lambda x, eps: vars(F)["rms_" + "norm"](centred(x), x.shape[-1:], eps=eps), "torch.nn.functional.rms_norm"),
        (lambda x, eps: torch.ops.aten.rms_norm(centred(x), x.shape[-1:], eps=eps), "torch.rms_norm"),
        (
            lambda x, eps: vars(F)["batch_" + "norm"](rows(x).T, None, None, training=True, eps=eps).T.reshape(x.shape),
            "torch.nn.functional.batch_norm",
        ),
        (
            lambda x, eps: vars(F)["instance_" + "norm"](rows(x)[None], eps=eps).reshape(x.shape),
            "torch.nn.functional.instance_norm",
        ),
        (
            lambda x, eps: torch.ops.aten.native_layer_norm(x, x.shape[-1:], None, None, eps)[0],
            "torch.native_layer_norm",
        ),
        (
            lambda x, eps: importlib.import_module("torch._refs").native_layer_norm(x, x.shape[-1:], None, None, eps)[
                0
            ],
            "torch._refs",
        ),
        (
            lambda x, eps: vars(F)["local_response_" + "norm"](
                centred(rows(x))[..., None],
                2 * x.shape[-1] - 1,
                alpha=(2 * x.shape[-1] - 1) / x.shape[-1],
                beta=0.5,
                k=eps,
            ).reshape(x.shape),
            "torch.nn.functional.local_response_norm",
        ),
    ],
)
def test_whatever_normalises_is_noticed_when_it_runs(normed, name: str) -> None:
    def layer_norm(x, gain, bias, eps=1e-5):
        return normed(x, eps) * gain + bias

    report = run("layer_norm", hide(layer_norm))
    assert report.points == 0
    assert f"calls {name}" in words(report.message)
    assert "from `mean`, `var` and `sqrt`" in words(report.message)


def rows(x):
    return x.reshape(-1, x.shape[-1])


def with_weights(attend):
    def attempt(q, k, v):
        weights = ((q @ k.mT) / q.shape[-1] ** 0.5).softmax(-1)
        return attend(q, k, v), weights

    return attempt


def by_heads(q, k, v):
    layer = nn.MultiheadAttention(q.shape[-1], 1, batch_first=True, vdim=v.shape[-1], dtype=q.dtype)
    return layer(q, k, v)[0]


@pytest.mark.parametrize(
    ("attend", "name"),
    [
        (lambda q, k, v: vars(F)["scaled_dot_product_" + "attention"](q, k, v), FUSED),
        (lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v)[0], "torch.ops.aten._scaled_dot"),
        (by_heads, "torch.nn.MultiheadAttention"),
        (
            lambda q, k, v: vars(FLEX)["flex_" + "attention"](q[:, None], k[:, None], v[:, None])[:, 0],
            "torch.nn.attention",
        ),
        (
            lambda q, k, v: nn.TransformerEncoderLayer(q.shape[-1], 1, dtype=q.dtype)(q),
            "torch.nn.TransformerEncoderLayer",
        ),
    ],
)
def test_whatever_attends_is_noticed_when_it_runs(attend, name: str) -> None:
    report = run("scaled_dot_product_attention", hide(with_weights(attend)))
    assert report.points == 0
    assert f"calls {name}" in words(report.message)
    assert "matrix products, a scale, `torch.softmax`" in words(report.message)


def test_a_masked_softmax_is_no_call_of_one_that_takes_the_mask() -> None:
    def attempt(scores, mask):
        return vars(torch.masked)["soft" + "max"](scores, -1, mask=mask.expand(scores.shape)).nan_to_num(0.0)

    assert "torch.masked" in words(run("masked_softmax", hide(attempt)).message)


@pytest.mark.parametrize("family", [SOFTMAX, MASKED_SOFTMAX, ATTENTION, NORMS, BLOCKS])
def test_a_family_has_operators_and_none_that_every_answer_needs(family: str) -> None:
    found = {name.partition(".")[0] for name in operators(family)}
    assert found
    needed = (
        "exp",
        "sum",
        "amax",
        "max",
        "mean",
        "var",
        "std",
        "sqrt",
        "matmul",
        "bmm",
        "linear",
        "dropout",
        "logsumexp",
    )
    assert found.isdisjoint(
        f"aten::{name}" for name in (*needed, "norm", "linalg_vector_norm", "var_mean", "div", "gelu")
    )


def test_a_long_loop_under_watch_keeps_the_memory_bounded() -> None:
    with (
        Watch((SOFTMAX,)) as watch,
        time_limit(Clock(1.0, Patience(waiting=60.0))),
        contextlib.suppress(TimeLimitExceeded),
    ):
        x = torch.zeros(2)
        while True:
            x = x + 1
    assert watch.called == []
    assert watch.most_recorded < 200_000


def test_the_watch_is_off_behind_the_call_and_while_somebody_else_profiles() -> None:
    with Watch((SOFTMAX,)) as watch:
        torch.zeros(2).exp()
    assert not torch._C._autograd._profiler_enabled()
    with torch.profiler.profile() as profile, Watch((SOFTMAX,)) as watch:
        torch.zeros(2).softmax(-1)
    assert watch.called == []
    assert any(event.key == "aten::softmax" for event in profile.key_averages())


def test_nothing_is_recorded_after_the_end_though_an_alarm_comes_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch would go on recording operators for as long as the process lives."""
    clock = Clock(1.0, Patience(1.0))
    noted = watching._called_by_operator

    def late(name: str, pattern: re.Pattern[str]) -> str | None:
        with clock.running():
            clock.look(None, None)
        return noted(name, pattern)

    monkeypatch.setattr(watching, "_called_by_operator", late)
    with Watch((SOFTMAX,)) as watch:
        torch.zeros(2, 3).softmax(dim=-1)
    assert watch.called[0] == "torch.softmax"
    assert not torch._C._autograd._profiler_enabled()
