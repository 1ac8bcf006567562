"""An answer that goes round what watches it: by other libraries, by derivatives, by switching the watch off."""

import _thread
import functools
import importlib
import importlib.util
import io
import itertools
import re
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


@pytest.mark.parametrize("library", ELSEWHERE)
def test_no_library_of_the_kind_is_to_be_imported_whether_installed_or_not(library, tmp_path, monkeypatch) -> None:
    """Each stands for itself here: its softmax has no name that tells what it is."""
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / f"{library}.py").write_text(
        "def f(s):\n    e = (s - s.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = run("softmax", hide(lambda s: by_name(library).f(s)))
    assert report.points == 0
    assert f"{library} is not available: this exercise asks you to do without" in words(report.message)
    sys.modules.pop(library, None)  # what describes the error afterwards, for no points, has called it once more


def transformers_softmax(s):
    module = "transformers.pipelines.text_classification"
    return torch.from_numpy(sys.modules[module].softmax(s.detach().numpy()))


def transformers_norm(x, gain, bias):
    norm = sys.modules["transformers.models.deberta.modeling_deberta"].DebertaLayerNorm(x.shape[-1])
    norm.weight.data, norm.bias.data = gain, bias
    return norm(x)


def transformers_attention(q, k, v):
    attend = sys.modules["transformers.models.bert.modeling_bert"].eager_attention_forward
    return attend(torch.nn.Module(), q[:, None], k[:, None], v[:, None], None, scaling=q.shape[-1] ** -0.5)[0][:, :, 0]


def dask_einsum(x, y, pattern):
    found = sys.modules["dask.array"].einsum(pattern.replace(" ", ""), x.detach().numpy(), y.detach().numpy())
    return torch.from_numpy(np.asarray(found.compute(scheduler="sync")))


def dask_tensordot(x, y, pattern):
    found = sys.modules["dask.array"].tensordot(x.detach().numpy(), y.detach().numpy(), 1)
    return torch.from_numpy(np.asarray(found.compute(scheduler="sync")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "library", "attempt", "named"),
    [
        ("softmax", "transformers.pipelines.text_classification", transformers_softmax, "softmax"),
        ("layer_norm", "transformers.models.deberta.modeling_deberta", transformers_norm, "DebertaLayerNorm"),
        (
            "scaled_dot_product_attention",
            "transformers.models.bert.modeling_bert",
            transformers_attention,
            "eager_attention_forward",
        ),
        ("little_einsum", "dask.array", dask_einsum, "einsum"),
        ("little_einsum", "dask.array", dask_tensordot, "tensordot"),
    ],
)
def test_what_other_libraries_have_in_python_is_known_by_its_name(exercise, library, attempt, named) -> None:
    """Of all that is installed for this course, these have such functions beside SciPy, scikit-learn and NumPy."""
    pytest.importorskip(library)
    report = run(exercise, hide(attempt))
    assert report.points == 0
    assert re.search(
        rf"calls {library.partition('.')[0]}\.[\w.]*\b{named}\b[\w.]*, which this exercise asks you",
        words(report.message),
    )


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
