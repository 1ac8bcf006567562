"""Where no misconception fits, the place is told at which one change would make the answer right."""

import ast
import contextlib
import inspect
import math
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from notebook_cells import run_cell
from torch import Tensor, nn

import attnlib
from attnlib.checks import exercises, run
from attnlib.checks.asking.time_limits import TimeLimits
from attnlib.checks.naming.one_change import one_change, repairs
from attnlib.checks.naming.one_change.search import _edits, _told
from attnlib.checks.naming.one_change.written import Written, source_of
from attnlib.checks.verdict.judge import cases_of, try_case

pytestmark = pytest.mark.slow


def turned(x: Tensor, y: Tensor) -> Tensor:
    return torch.einsum("bqd,bkd->bqk", x, y).roll(1, dims=0)


def shifted(tokens: Tensor, table: Tensor) -> Tensor:
    return table[(tokens + 1) % len(table)]


def slightly_sharper(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / math.sqrt(q.shape[-1] - 1)


def divided_by_the_gain(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.var(dim=-1, keepdim=True, unbiased=False) + eps
    return (x - mean) / spread.sqrt() / gain.exp() + bias


def divided_by_gain(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + eps) / gain + bias


def with_another_root(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) * (x.var(dim=-1, keepdim=True, unbiased=False) + eps) ** -0.75 * gain + bias


def by_the_logarithm(scores: Tensor) -> Tensor:
    q, k = scores.shape[-2:]
    past = torch.ones(q, k, dtype=torch.bool, device=scores.device).tril(k - q)
    weights = scores.softmax(-1) * past
    return weights / weights.logsumexp(-1, keepdim=True)


def helper_of_mine(x: Tensor, number: int) -> Tensor:
    return rearrange(x, "b n (h d) -> b h n d", h=number).roll(1, dims=1)


def by_a_helper(x: Tensor, num_heads: int) -> Tensor:
    if x.shape[-1] % num_heads:
        raise ValueError(f"{num_heads} heads do not share {x.shape[-1]} numbers out")
    return helper_of_mine(x, num_heads)


class WithMish(nn.Module):
    def __init__(self, d_model: int, d_hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d_model, d_hidden), nn.Linear(d_hidden, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.down(self.dropout(F.mish(self.up(x)))))


@pytest.mark.parametrize(
    ("name", "attempt", "kind", "told"),
    [
        ("pairwise_dot", turned, "removal", "in place of `torch.einsum('bqd,bkd->bqk', x, y).roll(1, dims=0)`"),
        ("embed", shifted, "removal", "with `tokens` in place of `tokens + 1`"),
        ("attention_scores", slightly_sharper, "removal", "with `q.shape[-1]` in place of `q.shape[-1] - 1`"),
        ("layer_norm", with_another_root, "number", "another number in place of `0.75`"),
        (
            "renormalised_causal_weights",
            by_the_logarithm,
            "function",
            "another function in place of `weights.logsumexp`",
        ),
        (
            "split_heads",
            by_a_helper,
            "removal",
            "in place of `rearrange(x, 'b n (h d) -> b h n d', h=number).roll(1, dims=1)`",
        ),
        ("FeedForward", WithMish, "function", "another function in place of `F.mish`"),
    ],
)
def test_the_place_and_the_kind_of_the_change_are_told(name: str, attempt: Any, kind: str, told: str) -> None:
    report = run(name, attempt)
    assert report.diagnosis == f"one_change_{kind}", report.message
    assert told in " ".join(report.message.split())


def test_an_operator_is_told_by_what_stands_behind_it() -> None:
    message = " ".join(run("layer_norm", divided_by_gain).message.split())
    assert "with another operator than `/` before `gain`, the answer would pass" in message


def roll_where_lengths_differ(x: Tensor, y: Tensor) -> Tensor:
    return (x @ y.mT).roll(1, dims=0) if x.shape[-2] != y.shape[-2] + 100 else x @ y.mT


def root_by_two_ways(q: Tensor, k: Tensor) -> Tensor:
    width = q.shape[-1] // 1
    if width > 0:
        scores = q @ k.mT / width**0.5
        scores = scores.sin()
    else:
        scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores


def turned_where_long(x: Tensor, y: Tensor) -> Tensor:
    dots = x @ y.mT
    if dots.numel() > 3 - 2:
        dots = dots.sin()
    return dots


@pytest.mark.parametrize(
    ("name", "attempt", "kind", "told"),
    [
        ("pairwise_dot", roll_where_lengths_differ, "branch", "with `x @ y.mT` in every case, the answer would pass"),
        ("attention_scores", root_by_two_ways, "branch", "with what stands below `else` done in every case"),
        ("pairwise_dot", turned_where_long, "branch", "(`if dots.numel() > 3 - 2:`): without these lines"),
    ],
)
def test_one_way_out_of_two_is_told_rather_than_a_change_that_leads_there_by_chance(
    name: str, attempt: Any, kind: str, told: str
) -> None:
    report = run(name, attempt)
    assert report.diagnosis == f"one_change_{kind}", report.message
    assert told in " ".join(report.message.split())


def test_what_is_kept_under_a_condition_is_told_by_the_condition() -> None:
    source = (
        "kept = {}\n"
        "def causal_mask(q_len, k_len):\n"
        "    if q_len not in kept:\n"
        "        kept[q_len] = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)\n"
        "    return kept[q_len]\n"
    )
    change = the_change("causal_mask", of_a_cell(source, "causal_mask"))
    assert change.title == "One condition too many"
    assert "(`if q_len not in kept:`): with what stands below it done in every case" in change.explanation


def written_into(x: Tensor, num_heads: int) -> Tensor:
    if x.shape[-1] % num_heads:
        raise ValueError(f"num_heads = {num_heads} must divide {x.shape[-1]}")
    return x.transpose_(0, 1).transpose(0, 1).unflatten(-1, (num_heads, -1)).transpose(1, 2)


def written_into_at_the_end(x: Tensor, y: Tensor) -> Tensor:
    dots = x @ y.mT
    y.mul_(dots.mean())
    return dots


def written_into_under_a_condition(x: Tensor, y: Tensor) -> Tensor:
    dots = x @ y.mT
    if dots.numel() > 0:
        y.mul_(dots.mean())
    return dots


@pytest.mark.parametrize(
    ("name", "attempt", "told"),
    [
        ("split_heads", written_into, "by `x.transpose_`"),
        ("pairwise_dot", written_into_under_a_condition, "by `y.mul_(dots.mean())`"),
        ("pairwise_dot", written_into_at_the_end, "by `y.mul_(dots.mean())`"),
    ],
)
def test_what_writes_into_an_input_is_told_as_that(name: str, attempt: Any, told: str) -> None:
    change = the_change(name, attempt)
    assert change.title == "A change in place"
    assert f"with a new tensor in place of the change in place {told}, the answer would pass" in change.explanation


class HeadsByNumber(nn.Module):
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads must divide d_model")
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, 4)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.mlp(self.norm2(x))


def test_a_number_where_an_argument_is_meant_is_told() -> None:
    change = the_change("EncoderBlock", HeadsByNumber)
    assert change.title == "Another variable is needed"
    assert "with a variable in place of `4`, the answer would pass" in change.explanation


def test_two_changes_are_not_found() -> None:
    report = run("layer_norm", divided_by_the_gain)
    assert not report.passed
    assert "One change away" not in report.message


def test_a_change_is_told_with_its_line_and_not_with_what_belongs_there() -> None:
    message = " ".join(run("renormalised_causal_weights", by_the_logarithm).message.split())
    line = by_the_logarithm.__code__.co_firstlineno + 4
    assert f"In line {line} (`return weights / weights.logsumexp(-1, keepdim=True)`)" in message
    assert "weights.sum" not in message


def of_a_cell(source: str, name: str, **names: Any) -> Any:
    return run_cell(source, {"torch": torch, **names})[name]


PATIENT = TimeLimits(search_case_cpu=600.0, search_cpu=6000.0, search_wall=60_000.0)
"""Whether a search finds something must not depend on the speed of the machine on which it is tested."""


def the_change(name: str, attempt: Any, limits: TimeLimits = PATIENT) -> Any:
    exercise = exercises()[name]
    trials = [try_case(exercise, attempt, case, seed=0, device="cpu") for case in cases_of(exercise, hidden=False)]
    return one_change(exercise, attempt, trials, seed=0, device="cpu", limits=limits)


def test_an_answer_of_a_notebook_has_a_source_and_one_of_nowhere_has_none() -> None:
    source = "def pairwise_dot(x, y):\n    return (x @ y.mT).roll(1, dims=0)\n"
    assert the_change("pairwise_dot", of_a_cell(source, "pairwise_dot")).title == "One step too many"
    nowhere: dict[str, Any] = {}
    exec(source, nowhere)
    assert the_change("pairwise_dot", nowhere["pairwise_dot"]) is None
    assert the_change("pairwise_dot", torch.add) is None
    assert the_change("pairwise_dot", of_a_cell(f"%time\n{source}".replace("%", "#"), "pairwise_dot")) is not None


def test_what_stands_around_an_answer_is_neither_run_again_nor_changed() -> None:
    source = (
        "registered = []\n"
        "def register(f):\n"
        "    registered.append(f)\n"
        "    return f\n"
        "calls = 0\n"
        "@register\n"
        "def pairwise_dot(x, y):\n"
        "    global calls\n"
        "    calls = calls + 1\n"
        "    print('hello')\n"
        "    return (x @ y.mT).roll(1, dims=0)\n"
    )
    attempt = of_a_cell(source, "pairwise_dot")
    names = attempt.__globals__
    exercise = exercises()["pairwise_dot"]
    trials = [try_case(exercise, attempt, case, seed=0, device="cpu") for case in cases_of(exercise, hidden=False)]
    calls = names["calls"]
    assert one_change(exercise, attempt, trials, seed=0, device="cpu") is not None
    assert (len(names["registered"]), names["calls"]) == (1, calls)


KEEPS = {
    "a cache": "kept = {}\n{}def pairwise_dot(x, y):\n    kept['x'] = x\n    return {}\n",
    "a counter": "kept = 0\n{}def pairwise_dot(x, y):\n    global kept\n    kept += 1\n    return {}\n",
}


@pytest.mark.parametrize("name", KEEPS)
def test_a_change_is_told_only_if_it_holds_in_a_fresh_start(name: str) -> None:
    first, rest = KEEPS[name].split("{}def")
    wrong_later = "x @ y.mT if {} else (x @ y.mT).roll(1, dims=0)"
    seen = {"a cache": "len(kept) < 2", "a counter": "kept < 99"}[name]
    source = first + "def" + rest.format(wrong_later.format(seen))
    attempt = of_a_cell(source, "pairwise_dot")
    attempt.__globals__["kept"] = {"a cache": {1: 1, 2: 2}, "a counter": 1000}[name]  # what earlier calls left behind
    assert the_change("pairwise_dot", attempt).id == "kept_state"


def test_no_change_is_told_where_nothing_sets_up_afresh_what_the_answer_changes() -> None:
    source = "def pairwise_dot(x, y):\n    kept.append(1)\n    return (x @ y.mT).roll(1, dims=0)\n"
    assert the_change("pairwise_dot", of_a_cell(source, "pairwise_dot", kept=[])) is None
    assert the_change("pairwise_dot", of_a_cell(f"kept = []\n{source}", "pairwise_dot")) is not None


def test_a_change_in_several_places_says_so() -> None:
    def biased(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x @ w_q + 1, x @ w_k + 1, x @ w_v + 1

    told = " ".join(the_change("project_qkv", biased).explanation.split())
    assert "with `x @ w_q` in place of `x @ w_q + 1`, and likewise in 3 places in all, the answer would pass" in told


def test_a_change_in_place_is_told_as_one() -> None:
    def resized(x: Tensor, num_heads: int) -> Tensor:
        if x.shape[-1] % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide {x.shape[-1]}")
        b, n, d = x.shape
        x.resize_(b, n, num_heads, d // num_heads)
        return x.transpose(1, 2)

    found = the_change("split_heads", resized)
    assert found is None or "the result kept" not in found.explanation


@pytest.mark.parametrize("module", [attnlib.attention, attnlib.multi_head_attention, repairs])
def test_every_change_of_any_code_is_python_and_can_be_told(module: ModuleType) -> None:
    source = inspect.getsource(module)
    aspects = {"values", "failure", "shape", "dtype", "device", "mutation", "gradient"}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        tree = ast.Module([node], [])
        written = Written(tree, node.name, {}, source.splitlines(keepends=True), frozenset())
        for edit in _edits(written, aspects)[::7]:
            for site, new in edit.places:
                site.put(ast.fix_missing_locations(ast.copy_location(new, site.node)))
            with contextlib.suppress(SyntaxError):  # a `return` behind a loop, say, that stood in a function
                compile(tree, "changed", "exec")
            for site, _ in edit.places:
                site.put(site.node)
            assert _told(written, edit).explanation


@pytest.mark.parametrize(
    "line", ["plt.plot([1])", "open('notes.txt', 'a')", "time.sleep(0.1)", "torch.save(x, 'x.pt')"]
)
def test_an_answer_that_reaches_outside_is_not_run_hundreds_of_times(line: str) -> None:
    source = f"def pairwise_dot(x, y):\n    if x is None:\n        {line}\n    return (x @ y.mT).roll(1, dims=0)\n"
    assert the_change("pairwise_dot", of_a_cell(source, "pairwise_dot")) is None


def test_a_search_says_nothing_and_stands_what_answers_are_made_of(recwarn: pytest.WarningsRecorder) -> None:
    assert the_change("pairwise_dot", turned) is not None
    assert not recwarn.list

    def uses_what_is_deleted(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y.mT).roll(1, dims=0) if len(x) else late

    late = torch.ones(1)
    del late
    assert the_change("pairwise_dot", uses_what_is_deleted) is not None
    long = f"def pairwise_dot(x, y):\n    return (x @ y.mT).roll(1, dims=0) + {' + '.join(['0'] * 900)}\n"
    assert the_change("pairwise_dot", of_a_cell(long, "pairwise_dot")) is None


def test_a_search_ends_with_its_time() -> None:
    assert the_change("pairwise_dot", turned, replace(PATIENT, search_cpu=1e-9)) is None


def test_the_time_of_a_search_decides_on_the_hint_and_not_on_the_verdict() -> None:
    found = [run("pairwise_dot", turned, limits=replace(PATIENT, search_cpu=seconds)) for seconds in (1e-9, 6000.0)]
    assert found[0].parts == found[1].parts
    assert found[0].headline == found[1].headline
    assert ["One change away" in report.message for report in found] == [False, True]


def test_a_change_that_makes_a_loop_endless_ends_the_search() -> None:
    source = (
        "def pairwise_dot(x, y):\n"
        "    rounds = 0\n"
        "    while rounds < 3:\n"
        "        rounds += 1\n"
        "    return (x @ y.mT).sin().cos()\n"
    )
    quick = replace(PATIENT, search_case_cpu=0.2)
    assert the_change("pairwise_dot", of_a_cell(source, "pairwise_dot"), quick) is None


def test_what_is_written_several_times_is_changed_in_all_places() -> None:
    source = "def f(x):\n    return x.mean(dim=1) - x.var(dim=1) + x.T.sum(dim=1) - g(x.T, 1)\n"
    written = source_of(of_a_cell(source, "f"))
    assert written is not None
    together = {
        frozenset(type(new).__name__ for _, new in e.places) for e in _edits(written, {"values"}) if e.places[1:]
    }
    assert frozenset({"Constant"}) in together
    sizes = {len(e.places) for e in _edits(written, {"values"}) if isinstance(e.places[0][0].node, ast.Constant)}
    assert sizes == {1, 3, 4}  # one axis, the three axes, and every 1


def test_a_right_answer_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("a right answer was changed")

    monkeypatch.setattr("attnlib.checks.verdict.judge.one_change", never)
    assert run("pairwise_dot", lambda x, y: x @ y.mT).passed
    assert run("pairwise_dot", lambda x, y: y @ x.mT).diagnosis == "exchanged"


def test_an_answer_that_is_too_slow_for_a_search_gets_a_report_without_one() -> None:
    source = (
        "def pairwise_dot(x, y):\n    for _ in range(300_000):\n        pass\n    return (x @ y.mT).roll(1, dims=0)\n"
    )
    report = run("pairwise_dot", of_a_cell(source, "pairwise_dot"), limits=replace(PATIENT, search_case_cpu=1e-9))
    assert report.headline == "the values are not right"
    assert "One change away" not in report.message
