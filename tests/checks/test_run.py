"""`run` turns whatever an attempt does into a report, and never raises because of it."""

import re
import subprocess
import sys
import warnings

import pytest
import torch
from torch import Tensor, nn

from attnlib.checks import CheckFailed, check, exercises, grade, run
from attnlib.checks.asking.time_limits import TimeLimits

QUICK = TimeLimits(case_cpu=0.3, waiting=1.0)
"""For what never ends; no right answer is tried within these limits."""


def right(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


class SelfAttentionWith(nn.Module):
    """Right, but for the layers that a subclass makes."""

    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights = (self.w_q(x) @ self.w_k(x).mT / self.w_q.out_features**0.5).softmax(-1)
        return weights @ self.w_v(x), weights


def spin(x: Tensor, y: Tensor) -> Tensor:
    while True:
        pass


def spin_and_swallow(x: Tensor, y: Tensor) -> Tensor:
    while True:
        try:
            while True:
                pass
        except:  # noqa: E722
            pass


def recurse(x: Tensor, y: Tensor) -> Tensor:
    return recurse(x, y)


def leave(x: Tensor, y: Tensor) -> Tensor:
    sys.exit(0)


def interrupt(x: Tensor, y: Tensor) -> Tensor:
    raise KeyboardInterrupt


def unwritten(x: Tensor, y: Tensor) -> Tensor:
    raise NotImplementedError


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def unprintable(x: Tensor, y: Tensor) -> Tensor:
    raise Unprintable


class Sub(Tensor):
    pass


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (spin, "did not end within"),
        (spin_and_swallow, "did not end within"),
        (recurse, "raised RecursionError"),
        (leave, "raised SystemExit: 0"),
        (interrupt, "raised KeyboardInterrupt"),
        (unwritten, "is not written yet"),
        (unprintable, "raised Unprintable"),
        (lambda x, y: undefined, "raised NameError: name 'undefined' is not defined"),  # noqa: F821
        (lambda x: x, "takes 1 positional argument but 2 were given"),
        (lambda x, y: None, r"must return a tensor, but returned None \(is the `return` missing\?\)"),
        (lambda x, y: 3.0, "must return a tensor, but returned a float"),
        (lambda x, y: (x @ y.mT, x), "must return a tensor, but returned a tuple of 2"),
        (lambda x, y: (x @ y.mT).as_subclass(Sub), "must return a tensor, but returned a Sub"),
        (lambda x, y: x @ y.mT * float("nan"), "70 of 70 numbers are NaN"),
        (lambda x, y: x @ y.mT * float("inf"), "70 of 70 numbers are infinite"),
        (lambda x, y: (x @ y.mT)[:, :-1], r"expected shape \(2, 5, 7\), got \(2, 4, 7\)"),
        (lambda x, y: (x @ y.mT).to_sparse(), "must return a tensor, but returned a sparse tensor"),
        (
            lambda x, y: torch.quantize_per_tensor((x @ y.mT).float(), 0.1, 0, torch.qint8),
            "must return a tensor, but returned a quantized tensor",
        ),
        (lambda x, y: torch.zeros(1).expand(10**8), "returns too large a tensor"),
        (lambda x, y: (x @ y.mT).to("meta"), "expected a tensor on cpu, got one on meta"),
        (lambda x, y: (x @ y.mT).to(torch.float8_e4m3fn), "expected dtype float32, got float8_e4m3fn"),
        (lambda x, y: (x @ y.mT) * 1.5, "every number is 1.5 times the right one"),
        (lambda x, y: (x @ y.mT) + 2, "every number is the right one plus 2"),
        (None, "must be a function, but you passed None"),
        (torch.zeros(2), "must be a function, but you passed a value of type Tensor"),
        (SelfAttentionWith, "must be a function, but you passed the class SelfAttentionWith"),
    ],
)
def test_whatever_an_attempt_does_becomes_a_report(attempt: object, said: str) -> None:
    limits = QUICK if "did not end" in said else None
    report = run("pairwise_dot", attempt, limits=limits)
    assert not report.passed
    assert report.score == 0.0
    assert re.search(said, " ".join(report.message.split())), report.message


def test_a_shape_that_a_probe_could_not_use_is_compared_as_it_was_returned() -> None:
    report = run("write_matrices", lambda features: torch.zeros(2 * len(features), len(features)))
    assert "expected shape (2, 7, 7), got (14, 7)" in report.message


class RenamedLayer(SelfAttentionWith):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.key, self.w_k = self.w_k, None


class MissingLayer(SelfAttentionWith):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.w_k = None


class ExtraLayer(SelfAttentionWith):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.w_o = nn.Linear(2, 2)


class WrongShape(SelfAttentionWith):
    def __init__(self, d_model: int, d_k: int, d_v: int) -> None:
        super().__init__(d_model, d_k, d_v)
        self.w_v = nn.Linear(d_model, d_k, bias=False)


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (RenamedLayer, r"has parameters under other names: it has key.weight in place of w_k.weight"),
        (MissingLayer, r"has no parameter 'w_k.weight': it has w_q.weight, w_v.weight"),
        (ExtraLayer, r"has a parameter 'w_o.weight' that the contract does not ask for"),
        (WrongShape, r"parameter 'w_v.weight' must have shape \(11, 7\), got \(3, 7\)"),
        (SelfAttentionWith(3, 3, 3), r"the class, but you passed an object made from it: pass SelfAttentionWith"),
        (int, r"must be a subclass of nn.Module, but the class int is not"),
        (lambda *sizes: 3, r"must be an nn.Module, but calling it gave a int"),
    ],
)
def test_a_module_that_breaks_the_contract_is_told_so(attempt: object, said: str) -> None:
    report = run("SelfAttention", attempt)
    assert not report.passed
    assert re.search(said, " ".join(report.message.split())), report.message


@pytest.mark.parametrize(
    ("name", "attempt", "called"),
    [
        ("softmax", nn.Softmax(dim=-1), "torch.nn.Softmax"),
        ("softmax", lambda s: torch.log_softmax(s, -1).exp(), "torch.log_softmax"),
        ("softmax", lambda s: torch.special.softmax(s, -1), "torch.special.softmax"),
        (
            "scaled_dot_product_attention",
            lambda q, k, v: (nn.functional.scaled_dot_product_attention(q, k, v), q @ k.mT),
            "torch.nn.functional.scaled_dot_product_attention",
        ),
    ],
)
def test_a_forbidden_call_is_noticed(name: str, attempt: object, called: str) -> None:
    report = run(name, attempt)
    assert not report.passed
    assert report.score == 0.0
    assert f"calls {called}, which this exercise asks you to do without" in " ".join(report.message.split())


@pytest.mark.parametrize("name", ["project_qkv", "attention_scores", "softmax", "QKVProjection", "SelfAttention"])
def test_the_reference_of_the_course_is_no_answer(name: str) -> None:
    import attnlib

    answer = {"QKVProjection": exercises()[name].reference, "SelfAttention": exercises()[name].reference}.get(name)
    report = run(name, answer or getattr(attnlib, name))
    assert not report.passed
    assert "calls attnlib." in report.message


def test_what_an_attempt_prints_and_warns_is_kept_out_of_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    def noisy(x: Tensor, y: Tensor) -> Tensor:
        print("looking at", tuple(x.shape))
        print("oh", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        return right(x, y)

    report = run("pairwise_dot", noisy)
    assert report.passed
    assert "looking at (2, 5, 3)" in report.message
    assert capsys.readouterr() == ("", "")


def test_what_an_attempt_sets_is_put_back() -> None:
    def careless(x: Tensor, y: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.manual_seed(7)
        return right(x, y)

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    run("pairwise_dot", careless)
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "pairwise_dots"}, "no exercise is called 'pairwise_dots'; did you mean 'pairwise_dot'"),
        ({"name": "xyzzy"}, "no exercise is called 'xyzzy'; there are: "),
        ({"name": 3}, "no exercise is called 3; there are: "),
        ({"name": "softmax", "device": "nonsense"}, "device 'nonsense' cannot be used here"),
        (
            {"name": "softmax", "dtype": torch.int64},
            "dtype must be a floating dtype such as torch.float64, got torch.int64",
        ),
    ],
)
def test_a_wrong_call_of_run_is_one_clear_sentence(arguments: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        run(attempt=right, **arguments)


def test_verdict_does_not_depend_on_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    try:
        messages = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            messages.append(run("attention_scores", right, hidden=True).message)
    finally:
        torch.set_num_threads(before)
    assert messages[0] == messages[1]


def test_points_are_earned_part_by_part() -> None:
    report = run("pairwise_dot", lambda x, y: right(x, y).detach())
    assert report.parts == {"values": True, "gradient": False, "robustness": True}
    assert report.points == 3.0
    assert report.score == 0.75
    assert report.diagnosis == "gradient_cut_off"


def test_check_prints_and_raises_grade_prints_and_returns(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("pairwise_dot", right) is None
    assert capsys.readouterr().out.startswith("✓ pairwise_dot: all right (4 of 4 points)\n\n  Another right answer:\n")
    with pytest.raises(CheckFailed, match="the values are not right"):
        check("pairwise_dot", lambda x, y: right(x, y) * 2)
    assert "One change away: One step too many" in " ".join(capsys.readouterr().out.split())
    assert grade("pairwise_dot", right) == 4.0
    assert grade("pairwise_dot", unwritten) == 0.0


def test_a_failed_check_shows_one_line_in_ipython() -> None:
    with pytest.raises(CheckFailed) as caught:
        check("pairwise_dot", lambda x, y: right(x, y) * 2)
    assert str(caught.value) not in caught.value._render_traceback_()[0]  # a failure is said once


def test_half_precision_is_no_excuse_for_a_wrong_gradient():
    def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        centred = x - x.mean(dim=-1, keepdim=True)
        normed = centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt() * gain + bias
        return (0.9 * normed + 0.1 * normed.detach()).bfloat16() if x.requires_grad else normed

    assert run("layer_norm", layer_norm, hidden=True).parts["gradient"] is False


@pytest.mark.slow
def test_only_the_lessons_that_write_the_name_are_imported() -> None:
    code = (
        "import sys; from attnlib.checks import run;"
        "assert run('pairwise_dot', lambda x, y: x @ y.mT).passed;"
        "found = {name for name in sys.modules if name.startswith('attnlib.checks.course.lesson_')};"
        "sys.exit(' '.join(name for name in found if 'lesson_00' not in name) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
