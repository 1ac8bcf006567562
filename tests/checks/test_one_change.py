"""Where no misconception fits, the place is told at which one change would make the answer right."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from one_change_tried import of_a_cell, the_change, turned
from torch import Tensor, nn

import attnlib
from attnlib.checks import run
from attnlib.checks.asking.time_limits import here

pytestmark = pytest.mark.slow


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


def without_the_axis(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    centred = x - x.mean(dim=-1, keepdim=False)
    return centred * (centred.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * gain + bias


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
    def __init__(self, d_model: int, num_heads: int, mlp_ratio: float = 4.0, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = attnlib.MultiHeadAttention(d_model, num_heads)
        self.mlp = attnlib.FeedForward(d_model, int(d_model * mlp_ratio))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.norm1(x), key_mask=key_mask)
        return x + self.dropout(self.mlp.down(self.dropout(F.mish(self.mlp.up(self.norm2(x))))))


@pytest.mark.parametrize(
    ("name", "attempt", "kind", "told"),
    [
        ("pairwise_dot", turned, "removal", "in place of `torch.einsum('bqd,bkd->bqk', x, y).roll(1, dims=0)`"),
        ("attention_scores", slightly_sharper, "removal", "with `q.shape[-1]` in place of `q.shape[-1] - 1`"),
        ("layer_norm", with_another_root, "number", "another number in place of `0.75`"),
        ("layer_norm", without_the_axis, "flag", "with the opposite in place of `False`"),
        (
            "renormalised_causal_weights",
            by_the_logarithm,
            "function",
            "with another method in place of `.logsumexp`",
        ),
        (
            "split_heads",
            by_a_helper,
            "removal",
            "in place of `rearrange(x, 'b n (h d) -> b h n d', h=number).roll(1, dims=1)`",
        ),
        ("EncoderBlock", WithMish, "function", "another function in place of `F.mish`"),
    ],
)
def test_the_place_and_the_kind_of_the_change_are_told(name: str, attempt: Any, kind: str, told: str) -> None:
    report = run(name, attempt, limits=here().slower(4))  # attnlib checks its types at each call
    assert report.diagnosis == f"one_change_{kind}", report.message
    assert told in " ".join(report.message.split())


def cut_by_the_other_width(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> tuple[Tensor, ...]:
    packed = x @ torch.cat([w_q, w_k, w_v], dim=1)
    return packed[..., : len(w_q.T)], packed[..., len(w_q.T) : 2 * len(w_q.T)], packed[..., 2 * len(w_v.T) :]


def test_a_comparison_of_three_is_searched_like_others() -> None:
    def all_but_its_own(q_len: int, k_len: int, window: int | None = None) -> Tensor:
        window = k_len if window is None else window
        rows = [[0 != i + k_len - q_len - j < window for j in range(k_len)] for i in range(q_len)]
        return torch.tensor(rows, dtype=torch.bool)

    report = run("causal_mask", all_but_its_own)  # two changes away: nothing is told
    assert (report.passed, report.diagnosis) == (False, None)


def test_a_negative_factor_that_fits_by_chance_is_not_proposed() -> None:
    message = " ".join(run("project_qkv", cut_by_the_other_width).message.split())
    assert "with another variable in place of `w_v`, the answer" in message


def turned_and_not_back(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.mT).flip(-1).flip(-2) / math.sqrt(q.shape[-1])


def test_of_pieces_that_look_the_same_the_one_is_told_that_is_meant() -> None:
    message = " ".join(run("attention_scores", turned_and_not_back).message.split())
    assert "another number in place of the first `-1`" in message


def doubled_on_the_same_line(x: Tensor, y: Tensor) -> Tensor:
    dots = x @ y.mT; dots = dots * 2  # fmt: skip  # noqa: E702
    return dots


def test_of_two_statements_on_a_line_the_one_is_told_that_is_meant() -> None:
    message = " ".join(run("pairwise_dot", doubled_on_the_same_line).message.split())
    assert "without `dots = dots * 2`, the answer would pass" in message


@torch.no_grad()
def without_a_gradient(x: Tensor, y: Tensor) -> Tensor:
    return x @ y.mT


def under_no_grad(x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        dots = x @ y.mT
    return dots


def test_a_block_around_lines_that_always_run_is_told_as_one() -> None:
    message = " ".join(run("pairwise_dot", under_no_grad).message.split())
    assert "with its lines outside of `with torch.no_grad():`, the answer would pass" in message


def test_a_decorator_is_told_in_its_own_line() -> None:
    message = " ".join(run("pairwise_dot", without_a_gradient).message.split())
    assert "(`@torch.no_grad()`): without this decorator, the answer would pass" in message


def test_an_operator_is_told_by_what_stands_behind_it() -> None:
    message = " ".join(run("layer_norm", divided_by_gain).message.split())
    assert "with another operator in place of `/` before `gain`, the answer would pass" in message


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
        ("attention_scores", root_by_two_ways, "branch", "if the lines below `else` always ran"),
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
        "def causal_mask(q_len, k_len, window=None):\n"
        "    if q_len not in kept:\n"
        "        kept[q_len] = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)\n"
        "    mask = kept[q_len]\n"
        "    return mask if window is None else mask.triu(k_len - q_len - window + 1)\n"
    )
    change = the_change("causal_mask", of_a_cell(source, "causal_mask"))
    assert change.title == "One condition too many"
    assert "(`if q_len not in kept:`): if the lines below it always ran" in change.explanation


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
        ("split_heads", written_into, "`x.transpose_`"),
        ("pairwise_dot", written_into_under_a_condition, "`y.mul_(dots.mean())`"),
        ("pairwise_dot", written_into_at_the_end, "`y.mul_(dots.mean())`"),
    ],
)
def test_what_writes_into_an_input_is_told_as_that(name: str, attempt: Any, told: str) -> None:
    change = the_change(name, attempt)
    assert change.title == "A change in place"
    assert f"if {told} made a new tensor instead of changing the old one, the answer would pass" in change.explanation


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
    assert change.title == "A variable is needed in place of a number"
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
