"""A change that helps by accident is not told: one that raises, is never found again, or holds for these numbers."""

import ast
import math
from dataclasses import replace

import pytest
from one_change_tried import PATIENT, of_a_cell
from torch import Tensor, nn

import attnlib
from attnlib.checks import exercises
from attnlib.checks.asking.observation import Asking
from attnlib.checks.naming.one_change.edits import edits_of
from attnlib.checks.naming.one_change.elsewhere import other_cases
from attnlib.checks.naming.one_change.search import Search
from attnlib.checks.naming.one_change.told import told
from attnlib.checks.naming.one_change.written import source_of
from attnlib.checks.verdict.judge import cases_of, try_case

pytestmark = pytest.mark.slow

NO_ERROR = """
def append_to_cache(cache, k, v):
    start, room = cache["length"], cache["k"].shape[2]
    stop = min(start + k.shape[2], room)
    for at, key, value in zip(range(start, stop), k.unbind(2), v.unbind(2), strict=False):
        cache["k"][:, :, at], cache["v"][:, :, at] = key, value
    cache["length"] = stop
    return cache["k"][:, :, :stop], cache["v"][:, :, :stop]
"""
BY_LENGTH = """
kept = {}
def pairwise_dot(x, y):
    key = x.shape
    other = y
    if key not in kept:
        kept[key] = x @ y.mT
    return kept[key]
"""
BY_LENGTH_AND_AN_ERROR = """
kept = {}
def pairwise_dot(x, y):
    n = x.shape
    try:
        return kept[n]
    except KeyError:
        kept[n] = x @ y.mT
        return kept[n]
"""
IN_A_MODULE = """
class QKVProjection(nn.Module):
    def __init__(self, d_model, d_k, d_v, bias=True):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)
        self.kept = {}
    def forward(self, x):
        n = x.shape
        if n in self.kept:
            return self.kept[n]
        self.kept[n] = self.w_q(x), self.w_k(x), self.w_v(x)
        return self.kept[n]
"""
ACCIDENTS = {
    "an error that was asked for": ("append_to_cache", NO_ERROR),
    "a lookup by identity": ("pairwise_dot", BY_LENGTH),
    "a lookup that fails": ("pairwise_dot", BY_LENGTH_AND_AN_ERROR),
    "a lookup in a module": ("QKVProjection", IN_A_MODULE),
}


def searched(name: str, source: str) -> Search:
    exercise, attempt = exercises()[name], of_a_cell(source, name, math=math, nn=nn, attnlib=attnlib)
    trials = [try_case(exercise, attempt, case) for case in cases_of(exercise, hidden=False)]
    written = source_of(attempt)
    assert written is not None
    return Search(exercise, written, trials, Asking(limits=PATIENT))


def found_by(search: Search) -> list[tuple[bool, str]]:
    """Of all edits that pass what was checked: whether each is told, and its words."""
    found = []
    aspects: set[str] = {t.difference.aspect for t in search.trials if t.difference is not None}
    for edit in edits_of(search.written, aspects):
        with edit.put():
            passes = search._agrees_on_the_bench(edit) and search._agrees_afresh()
        if passes:
            found.append((search._mends(edit), told(search.written, edit).explanation))
    return found


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_what_helps_by_accident_is_not_told(accident: str) -> None:
    found = found_by(searched(*ACCIDENTS[accident]))
    assert [words for is_told, words in found if not is_told]
    honest = ("without th", "if the lines below", "if it changed places")  # these say what no longer runs
    assert [words for is_told, words in found if is_told and not any(way in words for way in honest)] == []


def test_a_change_that_holds_for_these_numbers_alone_is_not_told() -> None:
    first: list[float] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        if not x.is_meta:
            first.append(float(x.flatten()[0]))
        return x @ y.mT

    exercise = exercises()["pairwise_dot"]
    for case in cases_of(exercise, hidden=False):
        try_case(exercise, noting, case)
    source = (
        "def pairwise_dot(x, y):\n    return x @ y.mT if x.is_meta else x @ y.mT + (float(x.flatten()[0]) not in {})\n"
    )
    search = searched("pairwise_dot", source.format(first))
    assert search._agrees_afresh()
    assert not search._holds_elsewhere()


def test_a_change_that_holds_for_these_sizes_alone_is_not_told() -> None:
    exercise = exercises()["pairwise_dot"]
    judged: list[tuple[int, ...]] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        judged.append((*x.shape, *y.shape))
        return x @ y.mT

    for case in cases_of(exercise, hidden=False):
        try_case(exercise, noting, replace(case, after=()))
    source = "def pairwise_dot(x, y):\n    return x @ y.mT + ((*x.shape, *y.shape) not in {})\n"
    search = searched("pairwise_dot", source.format(judged))
    assert search._agrees_afresh()
    assert not search._holds_elsewhere()


def test_where_large_scores_must_be_right_a_change_has_to_stand_them_in_every_case() -> None:
    for name, has_large in {"flash_attention": True, "mend_online": True, "pairwise_dot": False}.items():
        exercise = exercises()[name]
        cases = cases_of(exercise, hidden=False)
        others = [case.name for case, _, _ in other_cases(exercise, cases, Asking())]
        assert any("thirty times as large" in other for other in set(others) - {c.name for c in cases}) == has_large


@pytest.mark.parametrize(
    "largest", ["x.amax(dim=-1)", "x.amax(-1)", "torch.amax(x, -1)", "torch.max(x, dim=-1).values"]
)
def test_one_maximum_for_all_rows_is_never_proposed(largest: str) -> None:
    source = f"def f(x, m):\n    new = torch.maximum(m, {largest})\n    return (x - new[..., None]).exp()\n"
    written = source_of(of_a_cell(source, "f"))
    assert written is not None
    proposed = set()
    for edit in edits_of(written, {"values", "shape", "failure"}):
        with edit.put():
            proposed.add(ast.unparse(written.tree.body[0]).split("\n")[1])
    assert len(proposed) > 20
    assert not [line for line in proposed for whole in ("amax()", "amax(x)", "max(x)") if whole in line]


def test_an_axis_more_is_proposed_for_what_is_read_and_not_for_what_is_written_into() -> None:
    """`w.unsqueeze(1)[0, 0] = 1` would fill a whole row of w, and broadcasting has nothing to do with it."""
    written = source_of(of_a_cell("def f(w, x):\n    w[0, 0] = x[0]\n    return w\n", "f"))
    assert written is not None
    lined_up = set()
    for edit in edits_of(written, {"values"}):
        with edit.put():
            line = ast.unparse(written.tree.body[0]).split("\n")[1].strip()
            lined_up |= {line} if "unsqueeze" in line else set()
    assert lined_up == {f"w[0, 0] = x.unsqueeze({axis})[0]" for axis in (1, -1)}


def test_what_mends_an_answer_is_told_though_it_looks_something_up_and_catches_errors() -> None:
    """What was there before a change is not held against it."""
    source = (
        "kept = {}\n"
        "def pairwise_dot(x, y):\n"
        "    try:\n"
        "        scale = kept[x.shape]\n"
        "    except KeyError:\n"
        "        scale = kept.setdefault(x.shape, 2)\n"
        "    return x @ y.mT * scale\n"
    )
    found = found_by(searched("pairwise_dot", source))
    assert [words for is_told, words in found if is_told and "with `x @ y.mT` in place of" in words]
