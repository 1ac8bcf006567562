"""What an exercise forbids is noticed when it runs, under whatever name it is called."""

import contextlib
import importlib
import re

import einops
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlib.checks import run
from attnlib.checks.asking import watch as watching
from attnlib.checks.asking.clock import Clock, Patience, TimeLimitExceeded
from attnlib.checks.asking.ready_made import (
    ATTENTION,
    BLOCKS,
    MASKED_SOFTMAX,
    NORMS,
    SOFTMAX,
    operators,
)
from attnlib.checks.asking.watch import Watch
from attnlib.checks.asking.window import time_limit

FUSED = "torch.nn.functional.scaled_dot_product_attention"
FLEX = importlib.import_module("torch.nn.attention.flex_attention")


def words(text: str) -> str:
    return " ".join(text.split())


def hide(function):
    """The attempt without a source that could be read: only what it calls can be noticed."""
    return lambda *inputs: function(*inputs)


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
    ],
)
def test_whatever_takes_a_softmax_is_noticed_when_it_runs(attempt, name: str) -> None:
    report = run("softmax", hide(attempt))
    assert report.points == 0
    told = words(report.message)
    assert f"calls {name}" in told
    assert "which this exercise asks you to do without" in told
    assert "from `torch.exp`, `sum` and `amax`; `torch.logsumexp` is allowed, too" in told


def test_a_function_of_einops_has_the_name_that_students_know() -> None:
    report = run("little_einsum", lambda x, y, pattern: vars(einops)["ein" + "sum"](x, y, pattern))
    assert "calls einops.einsum, which" in words(report.message)


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
    def adds_for_ever() -> None:
        x = torch.zeros(2)
        while True:
            x = x + 1

    limit = time_limit(Clock(1.0, Patience(waiting=60.0)))
    with Watch((SOFTMAX,)) as watch, limit as within, contextlib.suppress(TimeLimitExceeded):
        within(adds_for_ever)
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
            clock.look([])
        return noted(name, pattern)

    monkeypatch.setattr(watching, "_called_by_operator", late)
    with Watch((SOFTMAX,)) as watch:
        torch.zeros(2, 3).softmax(dim=-1)
    assert watch.called[0] == "torch.softmax"
    assert not torch._C._autograd._profiler_enabled()
