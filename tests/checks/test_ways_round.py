"""An answer that goes round what watches it: by other libraries, by derivatives, by switching the watch off."""

import _thread
import functools
import importlib
import importlib.util
import io
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tqdm import tqdm

from attnlib.checks import run
from attnlib.checks.asking.ready_made import EINSUM, ELSEWHERE
from attnlib.checks.asking.watch import Watch, _settings

OF_REFS = "torch._refs"


def words(text: str) -> str:
    return " ".join(text.split())


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


def of_logsumexp(s):
    t = s.detach().requires_grad_()
    t.logsumexp(-1).sum().backward()
    return t.grad


@pytest.mark.parametrize(
    "attempt",
    [
        of_logsumexp,
        lambda s: torch.func.grad(lambda t: t.logsumexp(-1).sum())(s),
        lambda s: torch.func.vmap(torch.func.grad(lambda t: t.logsumexp(-1)))(s.flatten(0, -2)),
        lambda s: torch.func.jacrev(lambda t: t.logsumexp(-1).sum())(s),
        lambda s: torch.func.vjp(lambda t: t.logsumexp(-1), s)[1](torch.ones_like(s[..., 0]))[0],
        lambda s: torch.func.jacfwd(lambda t: t.logsumexp(-1).sum())(s),
        lambda s: s.detach().requires_grad_().logsumexp(-1).grad_fn(torch.ones_like(s[..., 0])),
    ],
)
def test_a_derivative_is_no_way_to_a_softmax(attempt) -> None:
    """That of logsumexp is one, whichever of torch's ways there leads to it."""
    report = run("softmax", hide(attempt))
    assert report.points == 0
    assert "calls torch.autograd" in words(report.message)
    assert "nor a derivative (that of `logsumexp` is a softmax)" in words(report.message)


def test_vmap_and_a_function_of_ones_own_with_its_backward_are_allowed() -> None:
    def of_row(row):
        weights = (row - row.amax()).exp()
        return weights / weights.sum()

    def attempt(s):
        return torch.func.vmap(of_row)(s.reshape(-1, s.shape[-1])).reshape(s.shape)

    assert run("softmax", attempt).passed


def by_name(*parts):
    return importlib.import_module(".".join(parts))


@pytest.mark.parametrize(
    "attempt",
    [
        Detour.apply,
        lambda s: torch.from_numpy(vars(by_name("sci" + "py", "special"))["expit"](s.detach().numpy())),
        lambda s: torch.from_numpy(by_name("sk" + "learn", "_loss", "link").MultinomialLogit().inverse(s.numpy())),
    ],
)
def test_other_libraries_are_not_to_be_imported_while_an_answer_runs(attempt, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ELSEWHERE]:
        monkeypatch.delitem(sys.modules, name)
    before = sys.meta_path[:]
    report = run("softmax", hide(attempt))
    assert report.points == 0
    assert "is not available: this exercise asks you to do without what libraries have" in words(report.message)
    assert sys.meta_path == before
    assert importlib.util.find_spec("scipy") is not None


def test_what_the_kernel_has_imported_before_is_known_by_its_names_in_python() -> None:
    importlib.import_module("scipy.special")
    assert "calls scipy.special._logsumexp.softmax" in words(run("softmax", hide(Detour.apply)).message)


def in_a_bare_thread(s):
    found = []
    _thread.start_new_thread(lambda: found.append(of_logsumexp(s)), ())
    while not found:
        time.sleep(0.001)
    return found[0]


def in_a_pool(s):
    with ThreadPoolExecutor() as pool:
        return pool.submit(of_logsumexp, s).result()


@pytest.mark.parametrize("attempt", [in_a_bare_thread, in_a_pool])
def test_a_thread_of_its_own_is_no_place_to_hide(attempt) -> None:
    report = run("softmax", hide(attempt))
    assert report.points == 0
    assert "calls threading.Thread, which this exercise asks you to do without" in words(report.message)


def test_a_bar_of_tqdm_may_start_the_thread_that_looks_after_it(monkeypatch) -> None:
    monkeypatch.setattr(tqdm, "monitor", None)
    with Watch((EINSUM,)) as watch:
        list(tqdm(range(3), file=io.StringIO()))
    assert tqdm.monitor is not None
    assert watch.called == []


def test_a_compiled_einsum_of_numpy_is_noticed() -> None:
    with Watch((EINSUM,)) as watch:
        einsum_of = vars(np._core.multiarray)["c_ein" + "sum"]
        einsum_of("ij,jk->ik", np.ones((2, 3)), np.ones((3, 4)))
    assert "einsum" in watch.called[0]


def without_a_profile_function(s):
    sys.setprofile(None)
    return importlib.import_module(OF_REFS).softmax(s, -1)


def without_a_profile_function_by_map(s):
    watching = sys.getprofile()
    list(map(sys.setprofile, [None]))
    weights = importlib.import_module(OF_REFS).softmax(s, -1)
    list(map(sys.setprofile, [watching]))
    return weights


def without_a_profile_function_by_partial(s):
    functools.partial(sys.setprofile, None)()
    return importlib.import_module(OF_REFS).softmax(s, -1)


def without_the_finder(s):
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Elsewhere" not in type(finder).__name__]
    weights = (s - s.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def without_the_profiler(s):
    torch._C._autograd._disable_profiler_legacy()
    return vars(torch)["soft" + "max"](s, -1)


def with_a_profile_function_again(s):
    watching = sys.getprofile()
    sys.setprofile(None)
    weights = importlib.import_module(OF_REFS).softmax(s, -1)
    sys.setprofile(watching)
    return weights


def with_the_profiler_again(s):
    torch._C._autograd._disable_profiler_legacy()
    weights = vars(torch)["soft" + "max"](s, -1)
    torch._C._autograd._enable_profiler_legacy(_settings(False))
    return weights


def with_the_profiler_again_by_starmap(s):
    list(itertools.starmap(torch._C._autograd._disable_profiler_legacy, [()]))
    weights = vars(torch)["soft" + "max"](s, -1)
    list(map(torch._C._autograd._enable_profiler_legacy, [_settings(False)]))
    return weights


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (without_a_profile_function, "sys.setprofile"),
        (without_the_finder, "sys.meta_path"),
        (without_the_profiler, "torch's profiler"),
        (without_a_profile_function_by_map, "sys.setprofile"),
        (without_a_profile_function_by_partial, "sys.setprofile"),
        (with_a_profile_function_again, "sys.setprofile"),
        (with_the_profiler_again, "torch's profiler"),
        (with_the_profiler_again_by_starmap, "torch's profiler"),
    ],
)
def test_whoever_switches_the_watch_off_is_refused_for_that(attempt, name) -> None:
    report = run("softmax", hide(attempt))
    assert report.points == 0
    assert f"calls {name}, which this exercise asks you to do without" in words(report.message)
    assert not torch._C._autograd._profiler_enabled()


def test_an_error_in_the_answer_is_no_switching_off() -> None:
    """Python takes away a profile function in which an error was raised, such as one of too deep a recursion."""

    def deep(s):
        return deep(s)

    assert "RecursionError" in words(run("softmax", hide(deep)).message)
