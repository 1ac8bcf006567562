"""How the one change is searched for: where the source comes from, what is tried, and when the search ends."""

import ast
import contextlib
import inspect
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from one_change_tried import PATIENT, of_a_cell, the_change, turned
from torch import Tensor

import attnlib
from attnlib.checks import exercises, run
from attnlib.checks.naming.one_change import in_expressions
from attnlib.checks.naming.one_change.edits import edits_of
from attnlib.checks.naming.one_change.search import one_change
from attnlib.checks.naming.one_change.told import told
from attnlib.checks.naming.one_change.written import Written, source_of
from attnlib.checks.verdict.judge import cases_of, try_case

pytestmark = pytest.mark.slow


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
    trials = [try_case(exercise, attempt, case) for case in cases_of(exercise, hidden=False)]
    calls = names["calls"]
    assert one_change(exercise, attempt, trials) is not None
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


def test_a_function_of_a_library_changes_what_it_is_given_and_not_the_library() -> None:
    source = "def pairwise_dot(x, y):\n    nn.init.ones_({})\n    return (x @ y.mT).roll(1, dims=0)\n"
    own = source.format("x.new_empty(1)")
    assert the_change("pairwise_dot", of_a_cell(own, "pairwise_dot", nn=torch.nn)).title == "One step too many"
    kept = of_a_cell(source.format("kept"), "pairwise_dot", nn=torch.nn, kept=torch.zeros(1))
    assert the_change("pairwise_dot", kept) is None


def test_a_layer_of_a_library_stays_what_it_is_beside_a_class_of_the_same_name() -> None:
    source = (
        "class MendedBlock(nn.Module):\n"
        "    def __init__(self, d_model, num_heads, mlp_ratio=4.0, dropout=0.0):\n"
        "        super().__init__()\n"
        "        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)\n"
        "        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)\n"
        "        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio), dropout=dropout)\n"
        "    def forward(self, x, key_mask=None):\n"
        "        x = x + self.attn(self.norm1(x), key_mask=key_mask)\n"
        "        return x + self.mlp(self.norm2(self.norm1(x)))\n"
    )
    of_the_notebook = type("FeedForward", (torch.nn.Module,), {"forward": lambda self, x: self.drop(x)})
    attempt = of_a_cell(source, "MendedBlock", nn=torch.nn, attnlib=attnlib, FeedForward=of_the_notebook)
    assert "with `x` in place of `self.norm1(x)`" in the_change("mend_encoder_block", attempt).explanation


def test_a_change_in_several_places_says_so() -> None:
    def biased(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x @ w_q + 1, x @ w_k + 1, x @ w_v + 1

    told = " ".join(the_change("project_qkv", biased).explanation.split())
    assert "with `x @ w_q` in place of `x @ w_q + 1` (and likewise at the 2 other such places), the" in told


def test_a_change_in_place_is_told_as_one() -> None:
    def resized(x: Tensor, num_heads: int) -> Tensor:
        if x.shape[-1] % num_heads:
            raise ValueError(f"num_heads = {num_heads} must divide {x.shape[-1]}")
        b, n, d = x.shape
        x.resize_(b, n, num_heads, d // num_heads)
        return x.transpose(1, 2)

    found = the_change("split_heads", resized)
    assert found is None or "the result kept" not in found.explanation


@pytest.mark.parametrize("module", [attnlib.attention, attnlib.multi_head_attention, in_expressions])
def test_every_change_of_any_code_is_python_and_can_be_told(module: ModuleType) -> None:
    source = inspect.getsource(module)
    aspects = {"values", "failure", "shape", "dtype", "device", "mutation", "gradient"}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        tree = ast.Module([node], [])
        written = Written(tree, node.name, {}, source.splitlines(keepends=True), frozenset())
        for edit in edits_of(written, aspects)[::7]:
            for site, new in edit.places:
                site.put(ast.fix_missing_locations(ast.copy_location(new, site.node)))
            with contextlib.suppress(SyntaxError):  # a `return` behind a loop, say, that stood in a function
                compile(tree, "changed", "exec")
            for site, _ in edit.places:
                site.put(site.node)
            assert told(written, edit).explanation


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
        return (x @ y.mT).roll(1, dims=0) if len(x) else late  # noqa: F821

    late = torch.ones(1)
    del late
    assert the_change("pairwise_dot", uses_what_is_deleted) is not None
    long = f"def pairwise_dot(x, y):\n    return (x @ y.mT).roll(1, dims=0) + {' + '.join(['0'] * 900)}\n"
    assert the_change("pairwise_dot", of_a_cell(long, "pairwise_dot")) is None


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("deep", [" + ".join(["0"] * 900), "-" * 900 + "0", f"0 * (x{'.abs()' * 600}).sum()"])
def test_an_answer_that_is_nested_too_deep_to_be_read_is_judged_all_the_same(
    deep: str, confined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not confined:  # on macOS and Windows, say, or where CUDA is in use
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    source = f"def pairwise_dot(x, y):\n    return x @ y.mT + {deep}\n"
    assert run("pairwise_dot", of_a_cell(source, "pairwise_dot")).passed
    turned = of_a_cell(source.replace("x @ y.mT", "(x @ y.mT).roll(1, dims=0)"), "pairwise_dot")
    assert not run("pairwise_dot", turned).passed


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
        frozenset(type(new).__name__ for _, new in e.places) for e in edits_of(written, {"values"}) if e.places[1:]
    }
    assert frozenset({"Constant"}) in together
    sizes = {len(e.places) for e in edits_of(written, {"values"}) if isinstance(e.places[0][0].node, ast.Constant)}
    assert sizes == {1, 3, 4}  # one axis, the three axes, and every 1


def test_a_right_answer_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any, **options: Any) -> None:
        raise AssertionError("a right answer was changed")

    monkeypatch.setattr("attnlib.checks.naming.one_change.search.one_change", never)
    assert run("pairwise_dot", lambda x, y: x @ y.mT).passed
    assert run("pairwise_dot", lambda x, y: y @ x.mT).diagnosis == "ys_as_rows"


def test_an_answer_that_is_too_slow_for_a_search_gets_a_report_without_one() -> None:
    source = (
        "def pairwise_dot(x, y):\n    for _ in range(300_000):\n        pass\n    return (x @ y.mT).roll(1, dims=0)\n"
    )
    report = run("pairwise_dot", of_a_cell(source, "pairwise_dot"), limits=replace(PATIENT, search_case_cpu=1e-9))
    assert report.headline == "the values are not right"
    assert "One change away" not in report.message


BUSY = "".join(f"        q = (q * {n} - k[..., :1] + {n}).sum(-1) / q.shape[-1]\n" for n in range(60))
NOWHERE = {
    "a branch that nobody takes": f"    if q.dim() > 9:\n{BUSY}    return (q @ q.transpose(-2, -1)) / math.sqrt(d)\n",
    "what comes after the error": f"    scores = q @ k.transpose(-2, -1).squeze(-1)\n    for _ in range(0):\n{BUSY}"
    "    return scores / math.sqrt(q.shape[-1])\n",
}


@pytest.mark.parametrize("name", NOWHERE)
def test_no_change_is_tried_where_the_mistake_never_comes(name: str) -> None:
    """There are far more places than changes are tried."""
    source = f"import math\n\ndef attention_scores(q, k):\n    d = q.shape[-1]\n{NOWHERE[name]}"
    found = the_change("attention_scores", of_a_cell(source, "attention_scores"))
    assert found is not None
    assert found.id in ("one_change_name", "one_change_removal")
